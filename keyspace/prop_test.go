package keyspace_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
)

// joined draws names out of one to three of the pieces.
func joined(pieces ...string) *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 3), func(p []string) string { return strings.Join(p, "") })
}

// awkward draws names out of the pieces that keys are made of, so that they
// would run into each other if the rule let them. Three in four have no ':' and
// no brace, which only the rule for queues can accept.
func awkward() *rapid.Generator[string] {
	plain := joined("a", "b", "emq", "stream", "archived", "floor", "epoch", "skipped", "lease", "events", ".dead", "-")
	return rapid.OneOf(plain, plain, plain, joined("a", "b", ":", "}", "{", "}:stream:", ":archived", ":floor", ":epoch", ":skipped:", ":lease:", ":events"))
}

// place is one thing that has a key.
type place struct{ what, queue, name, group string }

// places returns the keys that belong to a stream and its queue, for names that
// are accepted.
func places(queue, name, group string) map[place]string {
	s, err := keyspace.NewStream(queue, name)
	if err != nil || keyspace.CheckGroup(group) != nil {
		return nil
	}
	return map[place]string{
		{"stream", queue, name, ""}:           s.Key(),
		{"archived", queue, name, ""}:         s.Archived(),
		{"floor", queue, name, ""}:            s.Floor(),
		{"epoch", queue, name, ""}:            s.Epoch(),
		{"skipped", queue, name, group}:       s.Skipped(group),
		{"lease", queue, name, group}:         s.Lease(group),
		{"stream", queue, name + ".dead", ""}: s.Dead().Key(),
		{"events", queue, "", ""}:             keyspace.Events(queue),
		{"version", "", "", ""}:               keyspace.VersionKey,
	}
}

// Two different things never share a key, and all keys of a queue share a slot.
func TestNoCollisions(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		// Most collisions would be between names of one queue, or of one stream.
		like := func(name string) *rapid.Generator[string] { return rapid.OneOf(rapid.Just(name), awkward()) }
		queue, name, group := awkward().Draw(t, "queue a"), awkward().Draw(t, "stream a"), awkward().Draw(t, "group a")
		a := places(queue, name, group)
		suffix := rapid.SampledFrom([]string{"", ".dead", ":archived", ":floor", ":lease:a"}).Draw(t, "suffix b")
		b := places(like(queue).Draw(t, "queue b"), like(name).Draw(t, "stream b")+suffix, like(group).Draw(t, "group b"))
		for pa, ka := range a {
			for pb, kb := range b {
				compared++
				if (pa == pb) != (ka == kb) {
					t.Errorf("%+v has the key %q, %+v has %q", pa, ka, pb, kb)
				}
			}
			if pa.queue != "" && keyspace.Slot(ka) != keyspace.Slot("{"+pa.queue+"}") {
				t.Errorf("%q is not in the slot of queue %q", ka, pa.queue)
			}
		}
	})
	if compared == 0 {
		t.Error("no pair of accepted names was drawn")
	}
}

// slotByBits computes the slot bit by bit, with the tag found by splitting.
func slotByBits(key string) uint16 {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint32
	for _, c := range []byte(key) {
		for bit := 7; bit >= 0; bit-- {
			crc = crc<<1 | uint32(c>>bit&1)
			if crc&0x10000 != 0 {
				crc ^= 0x11021
			}
		}
	}
	for range 16 {
		if crc <<= 1; crc&0x10000 != 0 {
			crc ^= 0x11021
		}
	}
	return uint16(crc % 16384)
}

func FuzzSlot(f *testing.F) {
	for _, v := range load(f).PlainSlots {
		f.Add(v.Key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if got, want := keyspace.Slot(key), slotByBits(key); got != want || got >= keyspace.Slots {
			t.Errorf("slot of %q is %d, want %d", key, got, want)
		}
	})
}

func FuzzNewStream(f *testing.F) {
	for _, v := range load(f).Vectors {
		f.Add(string(v.Queue.Bytes), string(v.Stream.Bytes))
	}
	f.Fuzz(func(t *testing.T, queue, name string) {
		s, err := keyspace.NewStream(queue, name)
		if err != nil {
			var ne *keyspace.NameError
			if !errors.As(err, &ne) || s != (keyspace.Stream{}) {
				t.Errorf("%q %q: %v, %v", queue, name, s, err)
			}
			return
		}
		// An accepted key says which queue and stream it is.
		tag, rest, ok := strings.Cut(strings.TrimPrefix(s.Key(), "emq:{"), "}:stream:")
		if !ok || tag != queue || rest != name || s.Key() != keyspace.StreamPrefix(queue)+name {
			t.Errorf("%q %q: the key is %q", queue, name, s.Key())
		}
	})
}

func FuzzJobKey(f *testing.F) {
	for _, id := range []string{jobID, "EVTAzL8n0Y58m7", "EVTAzL8n0Y58m8", "evt00000000000", "JOB0KHTOWnGLu}", ""} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		_, err := keyspace.JobKey("q", id)
		if want := evtid.ValidBranded(id); (err == nil) != (want == nil) {
			t.Errorf("%q: %v, evtid says %v", id, err, want)
		}
	})
}
