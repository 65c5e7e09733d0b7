package runtime

import (
	"fmt"
	"reflect"
	"time"

	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/keyspace"
)

// addConsumers checks the consumers, one by one and against the streams, whose
// place in the configuration is in streams.
func (p *plan) addConsumers(streams map[keyspace.Stream]int) error {
	members, leasing := map[string]int{}, map[string]int{}
	for i, c := range p.Config.Consumers {
		cp, err := checkConsumer(fmt.Sprintf("Consumers[%d]", i), c)
		if err != nil {
			return err
		}
		if cp.label = c.Name; c.Name == "" {
			cp.label = fmt.Sprintf("leased#%d", i+1)
			if err := cp.checkSlots(leasing); err != nil {
				return err
			}
		}
		if first, dup := members[cp.path()]; dup {
			return bad(cp.field+".Name", c.Name, fmt.Sprintf("Consumers[%d] is the same member of the same group", first))
		}
		members[cp.path()] = i
		if err := p.joinStream(&cp, streams); err != nil {
			return err
		}
		p.consumers = append(p.consumers, cp)
	}
	return p.shareArchives()
}

// checkSlots counts the members of each group that lease their names. One for whom
// none can be left would never be ready, and the start would wait for it.
func (c *consumerPlan) checkSlots(leasing map[string]int) error {
	leasing[c.group()]++
	if n, slots := leasing[c.group()], orDefault(c.Slots, streamconsumer.DefaultSlots); n > slots {
		return bad(c.field+".Slots", c.Slots, fmt.Sprintf("%d members without a name are in the group, and there are %d names: allow more, or run fewer members", n, slots))
	}
	return nil
}

// sameArchive reports whether both are one archive. Of values that Go cannot compare
// nobody knows.
func sameArchive(a, b archive.Archive) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// shareArchives gives all consumers of a stream the archive that one of them has: a
// stream has one, and who asks for it may ask any of them.
func (p *plan) shareArchives() error {
	owner := map[keyspace.Stream]int{}
	for i, c := range p.consumers {
		if c.Archive == nil {
			continue
		}
		if first, ok := owner[c.key]; ok && !sameArchive(p.consumers[first].Archive, c.Archive) {
			return bad(c.field+".Archive", fmt.Sprintf("%T", c.Archive), fmt.Sprintf("%s has another archive of the same stream", p.consumers[first].field))
		}
		owner[c.key] = i
	}
	for i, c := range p.consumers {
		if first, ok := owner[c.key]; ok {
			p.consumers[i].Archive = p.consumers[first].Archive
		}
	}
	return nil
}

// joinStream gives a consumer the archive of its stream when that is declared.
func (p *plan) joinStream(c *consumerPlan, streams map[keyspace.Stream]int) error {
	if s, declared := streams[c.key]; declared {
		if c.Archive != nil && c.Archive != p.Config.Streams[s].Archive {
			return bad(c.field+".Archive", fmt.Sprintf("%T", c.Archive), fmt.Sprintf("Streams[%d] declares the archive of this stream", s))
		}
		c.Archive = p.Config.Streams[s].Archive
	}
	if s, declared := streams[c.key.Dead()]; declared && p.Config.Streams[s].ReadOnly {
		return bad(p.streams[s].field+".ReadOnly", true, c.field+" appends to this stream what its handler gave up on: declare it without ReadOnly, or leave it out")
	}
	return nil
}

func checkConsumer(field string, c Consumer) (consumerPlan, error) {
	key, err := keyspace.NewStream(c.Queue, c.Stream)
	if err != nil {
		return consumerPlan{}, refused(field+".Stream", c.Queue+"/"+c.Stream, err)
	}
	if err := keyspace.CheckGroup(c.Group); err != nil {
		return consumerPlan{}, refused(field+".Group", c.Group, err)
	}
	if c.Name != "" {
		if err := keyspace.CheckMember(c.Name); err != nil {
			return consumerPlan{}, refused(field+".Name", c.Name, err)
		}
		if streamconsumer.IsSlotName(c.Name) {
			return consumerPlan{}, bad(field+".Name", c.Name, "a member without a name, here or in another process, may lease it, and two would work under one name: choose another, or leave it empty")
		}
	}
	switch {
	case c.Start != streamconsumer.FromHead && c.Start != streamconsumer.FromNew:
		return consumerPlan{}, bad(field+".Start", c.Start, "say where a new group begins: streamconsumer.FromHead or streamconsumer.FromNew")
	case c.Handler == nil:
		return consumerPlan{}, bad(field+".Handler", "nil", "a consumer needs a handler")
	}
	if err := checkCounts(field, c); err != nil {
		return consumerPlan{}, err
	}
	return consumerPlan{Consumer: c, field: field, key: key}, checkPauses(field, c)
}

// checkCounts checks the numbers of a consumer and how they go together. The rules
// are those of streamconsumer.Config, which only looks at them when Redis has
// answered.
func checkCounts(field string, c Consumer) error {
	count := orDefault(c.Count, streamconsumer.DefaultCount)
	switch {
	case count < 1 || count > streamconsumer.MaxCount:
		return bad(field+".Count", c.Count, fmt.Sprintf("1 to %d are allowed; 0 means %d", streamconsumer.MaxCount, streamconsumer.DefaultCount))
	case c.Name != "" && c.Slots != 0:
		return bad(field+".Slots", c.Slots, fmt.Sprintf("slots are for members without a name, and Name is %q: leave one of them empty", c.Name))
	case c.Slots < 0 || c.Slots > streamconsumer.MaxSlots:
		return bad(field+".Slots", c.Slots, fmt.Sprintf("1 to %d are allowed; 0 means %d", streamconsumer.MaxSlots, streamconsumer.DefaultSlots))
	case c.Workers < 0 || c.Workers > count:
		return bad(field+".Workers", c.Workers, fmt.Sprintf("1 to Count (%d) are allowed; 0 means 1", count))
	case c.Workers > 1 && c.MaxDeliveries == 1:
		return bad(field+".Workers", c.Workers, "MaxDeliveries is 1, and with several at work a crash leaves it open which entry had its only attempt: allow 2, or use one worker")
	}
	return nil
}

// checkPauses checks the durations of a consumer.
func checkPauses(field string, c Consumer) error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Block", c.Block}, {"MinIdle", c.MinIdle}, {"RetryMin", c.RetryMin}, {"RetryMax", c.RetryMax}} {
		if f.value != 0 && f.value < time.Millisecond {
			return bad(field+"."+f.name, f.value, "the server counts in milliseconds, so 1ms is the least; 0 means the default")
		}
	}
	lowest := orDefault(c.RetryMin, streamconsumer.DefaultRetryMin)
	if highest := orDefault(c.RetryMax, max(streamconsumer.DefaultRetryMax, lowest)); highest < lowest {
		return bad(field+".RetryMax", c.RetryMax, fmt.Sprintf("it is below RetryMin (%s)", lowest))
	}
	return nil
}
