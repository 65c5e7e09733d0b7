package redislog

import (
	"errors"
	"fmt"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// goldenDrive does what an operation of the reference does.
type goldenDrive struct {
	setup       func(*goldenRig)
	run         func(*goldenRig)
	differences []difference
}

var goldenDrives = map[string]goldenDrive{
	"append (minted id)":             {run: appendGolden},
	"append_id":                      {run: appendGolden},
	"append_id, binary-unsafe bytes": {run: appendGolden},
	"append_id, UTF-8":               {run: appendGolden},
	"append_id on a string key":      {setup: stringKey, run: appendGolden},
	"append_batch of 3":              {run: appendGolden},
	"append_batch of 3 on a string key (every XADD fails, result is ok)": {setup: stringKey, run: appendGolden},

	"read count 2":             {setup: tenRecords, run: readGolden, differences: []difference{boundedReads}},
	"read exclusive from":      {setup: tenRecords, run: readGolden, differences: []difference{boundedReads}},
	"read of a missing stream": {run: readGolden, differences: []difference{boundedReads}},
	"read_window":              {setup: tenRecords, run: readGolden, differences: []difference{boundedReads}},
	"read_since":               {setup: tenRecords, run: readGolden, differences: []difference{boundedReads}},
	"read_since count 1":       {setup: tenRecords, run: readGolden, differences: []difference{boundedReads}},

	"trim maxlen exact":             {setup: tenRecords, run: trimGolden},
	"trim minid approx":             {setup: tenRecords, run: trimGolden},
	"trim minid exact":              {setup: tenRecords, run: trimGolden},
	"trim on a string key":          {setup: stringKey, run: trimGolden},
	"retention sweep, two policies": {setup: tenRecords, run: sweepGolden},

	"put_archived":   {run: func(r *goldenRig) { r.must(r.log(r.op.Input.Stream).Seal(r.t.Context(), r.branded(r.op.Input.W))) }},
	"get_archived":   {run: func(*goldenRig) {}, differences: []difference{watermarkOfArchive}},
	"clear_archived": {run: func(*goldenRig) {}, differences: []difference{watermarkOfArchive}},
	"publish event": {run: func(r *goldenRig) {
		_, err := r.c.Publish(r.t.Context(), r.op.Input.Queue, []byte(r.op.Commands[0][2]))
		r.must(err)
	}},

	"consumer: fresh start :head, 3 entries, handler :ok":                        {setup: groupData(0, 1, 2), run: consumeGolden, differences: []difference{noAttemptQuestions, sweepByHand}},
	"consumer: restart, group exists (BUSYGROUP swallowed), nothing to do":       {setup: existingGroup, run: consumeGolden, differences: []difference{lookFirst, sweepByHand}},
	"consumer: restart with the same name, PEL drain read, handler :ok":          {setup: pendingFor("c1", 10), run: consumeGolden, differences: []difference{lookFirst, noAttemptQuestions, drainByCursor, sweepByHand}},
	"consumer: reclaim from a dead peer (XAUTOCLAIM), count 10, min_idle 50":     {setup: pendingFor("c1", 11), run: consumeGolden, differences: []difference{lookFirst, noAttemptQuestions, firstSweep(sweepOver("1746090000011-0"))}},
	"consumer: XAUTOCLAIM over a trimmed pending entry (third element lists it)": {setup: trimmedPending, run: consumeGolden, differences: []difference{lookFirst, firstSweep(sweepOverTrimmed("1746090000012-0"))}},

	"archive cycle maxlen 3 exact again (frontier set, empty slice, SET and XTRIM still sent)": {setup: archiveData, run: cycleGolden, differences: []difference{boundedReads, trimThrough("1746090000004-0")}},
	"archive cycle minid exact": {setup: archiveData, run: cycleGolden, differences: []difference{boundedReads, trimThrough("1746090000006-0")}},
	"merge_read":                {setup: archiveData, run: mergeGolden, differences: []difference{boundedReads}},
}

func (r *goldenRig) branded(s string) evtid.ID {
	id, err := evtid.Parse(s)
	r.must(err)
	return id
}

func stringKey(r *goldenRig) { r.plain.do("SET", "emq:{labwire}:stream:wt", "x") }

// entryAt is a position of the reference's data: millisecond n, node and
// sequence 0.
func entryAt(n int) string { return fmt.Sprintf("1746090000%03d-0", n) }

func tenRecords(r *goldenRig) {
	for n := range 10 {
		r.plain.do("XADD", "emq:{labwire}:stream:s", entryAt(n), "id", entryPos(entryAt(n)).String(), "n", fmt.Sprint(n))
	}
}

func groupData(ns ...int) func(*goldenRig) {
	return func(r *goldenRig) {
		for _, n := range ns {
			r.plain.do("XADD", "emq:{labwire}:stream:g", entryAt(n), "id", entryPos(entryAt(n)).String())
		}
	}
}

func existingGroup(r *goldenRig) {
	r.plain.do("XGROUP", "CREATE", "emq:{labwire}:stream:g", "grp", "0", "MKSTREAM")
}

func pendingFor(member string, n int) func(*goldenRig) {
	return func(r *goldenRig) {
		existingGroup(r)
		groupData(n)(r)
		r.plain.do("XREADGROUP", "GROUP", "grp", member, "STREAMS", "emq:{labwire}:stream:g", ">")
		soon(r.t, "the entry is idle", func() bool {
			return r.plain.do("XPENDING", "emq:{labwire}:stream:g", "grp", "IDLE", "60", "-", "+", "1") != "[]"
		})
	}
}

func trimmedPending(r *goldenRig) {
	pendingFor("c1", 12)(r)
	r.plain.do("XTRIM", "emq:{labwire}:stream:g", "MAXLEN", "0")
}

func archiveData(r *goldenRig) {
	for n := range 8 {
		r.plain.do("XADD", "emq:{labwire}:stream:a", entryAt(n), "id", entryPos(entryAt(n)).String())
	}
}

// appendGolden appends what the reference appended, under the ids it minted, and
// compares the stored entries as a plain client sees them.
func appendGolden(r *goldenRig) {
	l := r.log(r.op.Input.Stream)
	w := writerOf(r.t, l)
	records := r.op.Input.Records
	if records == nil {
		records = [][][2]string{r.op.Input.Fields}
	}
	want := goldenWords(r.t, r.op.Commands)
	var ids []evtid.ID
	for i, rec := range records {
		var fields []evtlog.Field
		for _, f := range rec {
			fields = append(fields, evtlog.F(f[0], f[1]))
		}
		for _, f := range r.op.Input.FieldsB64 {
			fields = append(fields, evtlog.F(fromBase64(r.t, f[0]), fromBase64(r.t, f[1])))
		}
		ids = append(ids, entryPos(want[i][2]))
		w.Append(ids[i], fields)
	}
	r.must(w.Flush())
	for _, id := range ids {
		err := w.ReceiveAppend(id)
		if r.op.Input.Stream == "wt" {
			// The reference reported success here.
			if !errors.Is(err, evtlog.ErrWrongType) {
				r.t.Fatalf("a string key: %v", err)
			}
			continue
		}
		r.must(err)
	}
	if r.op.Input.Stream == "wt" {
		return
	}
	stored := "["
	for i, words := range want {
		if i > 0 {
			stored += " "
		}
		stored += fmt.Sprintf("[%q %q]", words[2], words[3:])
	}
	if got := r.plain.do("XRANGE", l.stream.Key(), "-", "+"); got != stored+"]" {
		r.t.Fatalf("stored\n%s\nwant\n%s", got, stored+"]")
	}
}

// readGolden reads the window the reference read, and compares with what its
// command selects.
func readGolden(r *goldenRig) {
	in := r.op.Input
	w := evtlog.Window{To: evtid.Max}
	if in.From != "" && in.From != "-" {
		w.After = entryPos(in.From[1:])
	}
	if in.T0 != "" {
		since, err := evtlog.Since(goldenTime(r.t, in.T0))
		r.must(err)
		w.After = since.After
	}
	if in.T1 != "" {
		between, err := evtlog.Between(goldenTime(r.t, in.T0), goldenTime(r.t, in.T1))
		r.must(err)
		w = between
	}
	n := 100
	if in.Count > 0 {
		n = in.Count
	}
	page, _, err := r.log(in.Stream).Page(r.t.Context(), w.After, w.To, n)
	r.must(err)
	got := "["
	for i, rec := range page {
		v, _ := rec.Get("n")
		if i > 0 {
			got += " "
		}
		got += fmt.Sprintf("[%q %q]", rec.ID.Entry(), []string{"id", rec.ID.String(), "n", v})
	}
	if want := r.plain.do(r.op.Commands[0]...); got+"]" != want {
		r.t.Fatalf("selected\n%s]\nthe reference selects\n%s", got, want)
	}
}

func trimGolden(r *goldenRig) {
	in := r.op.Input
	p := TrimPolicy{MaxLen: in.MaxLen, Exact: !in.Approx}
	if in.MinID != "" {
		bound, err := evtid.Floor(goldenTime(r.t, in.MinID))
		r.must(err)
		p = TrimPolicy{MinID: bound, Exact: !in.Approx}
	}
	_, err := r.log(in.Stream).Trim(r.t.Context(), p)
	if in.Stream == "wt" && errors.Is(err, evtlog.ErrWrongType) {
		return
	}
	r.must(err)
}

func sweepGolden(r *goldenRig) {
	for _, policy := range r.op.Input.Policy {
		p := TrimPolicy{MaxLen: policy.MaxLen, Exact: !policy.Approx}
		if policy.Ago > 0 {
			bound, err := evtid.Floor(goldenTime(r.t, r.op.Input.Now).Add(-time.Duration(policy.Ago) * time.Millisecond))
			r.must(err)
			p = TrimPolicy{MinID: bound, Exact: !policy.Approx}
		}
		_, err := r.log(policy.Stream).Trim(r.t.Context(), p)
		r.must(err)
	}
}

// consumeGolden does the reference's beats: drain, claim, read, and again.
func consumeGolden(r *goldenRig) {
	in := r.op.Input
	l := r.log(in.Stream)
	start := Head()
	if in.GroupStart == "new" {
		start = New()
	}
	_, err := l.CreateGroup(r.t.Context(), in.Group, start)
	r.must(err)
	g := readerOf(r.t, l, in.Group, in.Consumer)
	handle := func(entries []Entry, err error) int {
		r.must(err)
		for _, e := range entries {
			g.Ack(e.ID)
		}
		return len(entries)
	}
	for after := (evtid.ID{}); ; {
		page, err := g.ReadPending(after, in.Count)
		if handle(page, err) == 0 {
			break
		}
		after = page[len(page)-1].ID
	}
	cursor := ""
	for r.more("XAUTOCLAIM") {
		r.must(g.FlushAcks())
		step, err := l.ClaimIdle(r.t.Context(), in.Group, in.Consumer, time.Duration(in.MinIdleMS)*time.Millisecond, cursor, in.Count)
		r.must(err)
		cursor = step.Cursor
		if len(step.Claimed) > 0 {
			handle(g.ReadPending(step.Claimed[0].ID.Prev(), len(step.Claimed)))
		}
		entries, err := g.ReadNew(in.Count, time.Duration(in.BeatMS)*time.Millisecond)
		handle(entries, err)
	}
}

// more counts the reference's commands of a verb down.
func (r *goldenRig) more(verb string) bool {
	for i, words := range r.op.Commands {
		if words[0] == verb {
			r.op.Commands = r.op.Commands[i+1:]
			return true
		}
	}
	return false
}

// cycleGolden reads what is to be folded, seals and trims.
func cycleGolden(r *goldenRig) {
	l := r.log(r.op.Input.Stream)
	words := r.op.Commands[0]
	to := evtid.Max
	if words[3] != "+" {
		to = entryPos(words[3][1:]).Prev()
	}
	_, _, err := l.Page(r.t.Context(), entryPos(words[2][1:]), to, 100)
	r.must(err)
	w := r.branded(r.op.Commands[1][2])
	r.must(l.Seal(r.t.Context(), w))
	_, err = l.TrimThrough(r.t.Context(), w)
	r.must(err)
}

func mergeGolden(r *goldenRig) {
	_, _, err := r.log(r.op.Input.Stream).Page(r.t.Context(), entryPos(r.op.Commands[0][2][1:]), evtid.Max, 100)
	r.must(err)
}
