package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// health is the outcome of one check of the doctor.
type health string

const (
	healthy health = "ok"
	// ailing works now, and can cost records or time later.
	ailing health = "warning"
	// broken does not work, or loses records.
	broken health = "failed"
	// unseen could not be looked at, because of another check or of rights.
	unseen health = "unknown"
)

// diagnosis is one line of the doctor's report.
type diagnosis struct {
	Check  string `json:"check"`
	State  health `json:"state"`
	Detail string `json:"detail"`
	// Next is what to do, when something is to be done.
	Next string `json:"next,omitempty"`
	// err decides the exit code of a check that failed.
	err error
}

// The clocks of this machine and of the server should agree: ids carry the time of
// who appends, windows that of who asks.
const (
	clockWarns = time.Second
	clockFails = evtid.DefaultMaxSkew
)

// judgeOpen reads what opening the connection came to.
func judgeOpen(addr string, err error) []diagnosis {
	var (
		version *redislog.VersionError
		fence   *redislog.FenceError
	)
	fail := func(check string) diagnosis {
		return diagnosis{Check: check, State: broken, Detail: err.Error(), err: err}
	}
	fine := diagnosis{Check: "redis", State: healthy, Detail: "answers at " + addr}
	switch {
	case err == nil:
		return []diagnosis{fine, {Check: "fence", State: healthy, Detail: "the server holds this wire format"}}
	case errors.As(err, &version):
		fine.Detail = "answers at " + version.Addr
		return []diagnosis{fine, fail("version")}
	case errors.As(err, &fence):
		fine.Detail = "answers at " + fence.Addr
		return []diagnosis{fine, fail("fence")}
	}
	return []diagnosis{fail("redis")}
}

// judgeServer reads the settings.
func judgeServer(i redislog.ServerInfo) []diagnosis {
	version := diagnosis{Check: "version", State: healthy, Detail: i.Version}
	if i.Version == "" {
		version = diagnosis{Check: "version", State: unseen, Detail: "the server does not tell it", Next: "let this user run INFO"}
	}
	role := diagnosis{Check: "role", State: healthy, Detail: fmt.Sprintf("%s, %s, %d replicas", i.Role, i.Mode, max(i.Replicas, 0))}
	switch {
	case i.Role == "" || i.Mode == "":
		role = diagnosis{Check: "role", State: unseen, Detail: "the server does not tell it"}
	case i.Role != "master":
		role = failed("role", "the server is a "+i.Role+" and refuses appends", "point the URL at the primary")
	case i.Mode != "standalone":
		role = failed("role", "the server is in mode "+i.Mode+", which is not supported", "use a single primary")
	}
	list := []diagnosis{version, role, judgePersistence(i), judgeEviction(i)}
	for _, w := range i.Warnings {
		if !strings.Contains(w, "maxmemory-policy") && !strings.Contains(w, "nothing is persisted") && version.State == healthy && role.State == healthy {
			list = append(list, diagnosis{Check: "settings", State: ailing, Detail: w})
		}
	}
	return list
}

func judgePersistence(i redislog.ServerInfo) diagnosis {
	const check = "persistence"
	switch {
	case i.AppendOnly == "":
		return diagnosis{Check: check, State: unseen, Detail: "the server does not tell it", Next: "see appendonly and save in its configuration"}
	case i.AppendOnly == "yes":
		return diagnosis{Check: check, State: healthy, Detail: "appendonly yes, appendfsync " + i.AppendFsync}
	case i.Save == "":
		return failed(check, "nothing is persisted: a restart of the server loses what is not archived", "set appendonly yes")
	}
	return diagnosis{Check: check, State: ailing, Detail: "snapshots only (save " + i.Save + "): a restart loses what was appended since the last one", Next: "set appendonly yes"}
}

func judgeEviction(i redislog.ServerInfo) diagnosis {
	const check, next = "eviction", "set maxmemory-policy noeviction"
	switch p := i.MaxMemoryPolicy; {
	case p == "":
		return diagnosis{Check: check, State: unseen, Detail: "the server does not tell its policy", Next: next}
	case p == "noeviction":
		return diagnosis{Check: check, State: healthy, Detail: p}
	case i.MaxMemory == 0:
		return diagnosis{Check: check, State: ailing, Detail: p + ", and no memory limit yet: with one, it evicts", Next: next}
	case strings.HasPrefix(p, "allkeys-"):
		return failed(check, p+" takes whole streams with their groups", next)
	default:
		return diagnosis{Check: check, State: ailing, Detail: p + " takes leases, and two members may then hold one name", Next: next}
	}
}

// judgeClock compares the clocks. ahead is how far the server's is ahead of this one.
func judgeClock(ahead time.Duration) diagnosis {
	d := diagnosis{Check: "clock", State: healthy, Detail: fmt.Sprintf("the clocks are %s apart", ahead.Abs().Round(time.Millisecond))}
	if ahead.Abs() >= clockWarns {
		d.State, d.Detail = ailing, fmt.Sprintf("the server's clock is %s ahead of this one", ahead.Round(time.Millisecond))
		d.Next = "set both by NTP"
	}
	if ahead.Abs() >= clockFails {
		return failed(d.Check, d.Detail, d.Next)
	}
	return d
}

// streamFacts is what is known of one stream.
type streamFacts struct {
	name    string
	info    redislog.StreamInfo
	foreign string // an entry that no id can name, "" for none at the ends
	dead    bool   // a stream of dead letters
	now     time.Time
	lags    []runtime.Lag
	// archived: an archive was named, and this is its watermark.
	archived  bool
	watermark evtid.ID
	sealed    evtid.ID
}

// judgeStream reads one stream and its groups.
func judgeStream(f streamFacts) []diagnosis {
	d := diagnosis{Check: "stream " + f.name, State: healthy, Detail: fmt.Sprintf("%d live entries, last %s", f.info.Length, idAndTime(f.info.Last))}
	switch ahead := f.info.Last.Time().Sub(f.now); {
	case f.foreign != "":
		d = failed(d.Check, "entry "+f.foreign+" stands where no id can: readers and the archiver stop there", "evtlog stream foreign")
	case !f.info.Last.IsZero() && ahead > clockFails:
		d = failed(d.Check, fmt.Sprintf("the last id %s is %s ahead of this clock: a writer here refuses to mint", f.info.Last, ahead.Round(time.Second)), "set the clock right, or raise MaxSkew")
	case f.dead && f.info.Length > 0:
		d.State, d.Next = ailing, "evtlog dead ls"
		d.Detail = fmt.Sprintf("%d records about dead letters", f.info.Length)
	}
	list := []diagnosis{d}
	if f.archived {
		list = append(list, judgeArchived(f))
	}
	for _, l := range f.lags {
		list = append(list, judgeGroup(f.name, l))
	}
	return list
}

// judgeArchived compares the archive with what Redis says of it.
func judgeArchived(f streamFacts) diagnosis {
	check := "archived " + f.name
	switch {
	case f.watermark.Less(f.sealed):
		return failed(check, fmt.Sprintf("the archive ends at %q, and the floor of the stream at %s: it is another archive, or an older copy", f.watermark, f.sealed), "name the right archive, or restore a newer copy")
	case f.info.Last.Less(f.watermark):
		return diagnosis{Check: check, State: ailing, Detail: fmt.Sprintf("the stream ends at %q, below the watermark %s: it was deleted or set back", f.info.Last, f.watermark), Next: "see that the writer goes on above it"}
	case f.watermark.IsZero() && !f.info.Last.IsZero():
		return diagnosis{Check: check, State: ailing, Detail: "nothing is archived", Next: "see that an archiver runs for this stream"}
	}
	behind := time.Duration(0)
	if f.watermark.Less(f.info.Last) {
		behind = f.info.Last.Time().Sub(f.watermark.Time())
	}
	return diagnosis{Check: check, State: healthy, Detail: fmt.Sprintf("up to %s, %s behind the last record", idAndTime(f.watermark), behind)}
}

func judgeGroup(stream string, l runtime.Lag) diagnosis {
	check := "group " + stream + "/" + l.Group
	if !l.Known {
		return diagnosis{Check: check, State: unseen, Detail: "the lag is not known: " + l.Why}
	}
	d := diagnosis{Check: check, State: healthy, Detail: fmt.Sprintf("%d records behind, %d of them pending", l.Entries, l.Pending)}
	if l.OldestKnown && l.Entries > 0 {
		d.Detail += fmt.Sprintf(", the oldest %s old", l.Behind.Round(time.Second))
	}
	if len(l.Skipped) > 0 && !l.Recoverable {
		d.State, d.Next = ailing, "name the archive with --archive or --nodes"
	}
	return d
}

// judgeNodes reads what the nodes of an archive answered.
func judgeNodes(nodes []nodeStatus) (list []diagnosis) {
	leader := ""
	for _, n := range nodes {
		check := "node " + n.address
		switch {
		case n.err != nil:
			list = append(list, diagnosis{Check: check, State: broken, Detail: n.err.Error(), err: n.err})
			continue
		case failing(n.status.Checks) != "ok":
			list = append(list, failed(check, strings.TrimSpace(failing(n.status.Checks)), "evtlog archive status"))
		default:
			list = append(list, diagnosis{Check: check, State: healthy, Detail: n.status.Node + " is " + n.status.State})
		}
		if n.status.State == "Leader" {
			leader = n.status.Node
		} else if leader == "" && n.status.LeaderID != "" {
			leader = n.status.LeaderID
		}
	}
	if leader == "" {
		return append(list, diagnosis{Check: "leader", State: broken, Detail: "no node that answered knows a leader: nothing can be folded", Next: "start the nodes that are missing", err: api.ErrNoLeader})
	}
	return append(list, diagnosis{Check: "leader", State: healthy, Detail: leader + " leads"})
}

// judgeFile reads what opening a local archive file came to.
func judgeFile(path string, err error) diagnosis {
	switch {
	case err == nil:
		return diagnosis{Check: "archive", State: healthy, Detail: path + " can be read"}
	case errors.Is(err, archive.ErrLocked):
		return diagnosis{Check: "archive", State: unseen, Detail: path + " is in use by another process"}
	}
	return diagnosis{Check: "archive", State: broken, Detail: err.Error(), err: err}
}

func failed(check, detail, next string) diagnosis {
	return diagnosis{Check: check, State: broken, Detail: detail, Next: next, err: fmt.Errorf("%s: %s", check, detail)}
}
