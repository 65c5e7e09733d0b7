package redislog

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/keyspace"
)

// goldenOp is one operation of the reference implementation and the commands it
// sent for it.
type goldenOp struct {
	Op    string
	Input struct {
		Queue, Stream, ID, W, From, To, T0, T1, MinID, Now string
		Fields                                             [][2]string
		FieldsB64                                          [][2]string `json:"fields_b64"`
		Records                                            [][][2]string
		Count                                              int
		MaxLen                                             int64
		Approx                                             bool
		Policy                                             []struct {
			Stream string
			MaxLen int64
			Ago    int64 `json:"minid_ago_ms"`
			Approx bool
		}
		Group, Consumer string
		BeatMS          int64  `json:"beat_ms"`
		MinIdleMS       int64  `json:"min_idle_ms"`
		GroupStart      string `json:"group_start"`
	}
	Commands [][]string
}

// The differences by design. Each names what this implementation sends instead,
// and turns the reference's commands into that.
type difference struct {
	why  string
	turn func(words []string, at int) [][]string
}

func onVerb(verb string, f func(words []string) [][]string) func([]string, int) [][]string {
	return func(words []string, _ int) [][]string {
		if words[0] != verb {
			return [][]string{words}
		}
		return f(words)
	}
}

func drop([]string) [][]string { return nil }

var (
	boundedReads = difference{
		"a read is bounded by the range that ids can have and by a pinned top, its lower bound is exclusive, and it comes in pages",
		onVerb("XRANGE", func(w []string) [][]string {
			from, to, count := w[2], w[3], "100"
			switch {
			case from == "-":
				from = firstEntry
			case !strings.HasPrefix(from, "("):
				from = "(" + entryPos(from).Prev().Entry()
			}
			switch {
			case to == "+":
				to = evtid.Max.Entry()
			case strings.HasPrefix(to, "("):
				to = entryPos(to[1:]).Prev().Entry()
			}
			if len(w) == 6 {
				count = w[5]
			}
			return [][]string{{"XRANGE", w[1], from, to, "COUNT", count}}
		}),
	}
	noAttemptQuestions = difference{"the delivery count is not asked for entry by entry", onVerb("XPENDING", drop)}
	lookFirst          = difference{"a group that exists is seen by looking, not by a refused creation", onVerb("XGROUP", drop)}
	drainByCursor      = difference{
		"the own pending list is read by cursor, so that an entry that fails is offered once",
		func(w []string, at int) [][]string {
			if w[0] == "XREADGROUP" && w[len(w)-1] == "0" && at > 1 {
				w = append(slices.Clone(w[:len(w)-1]), "1746090000010-0")
			}
			return [][]string{w}
		},
	}
	sweepByHand = difference{
		"the sweep begins to claim at the oldest live entry, because XAUTOCLAIM drops trimmed ones also of a member that works on them, and neither reads nor counts",
		onVerb("XAUTOCLAIM", func(w []string) [][]string { return [][]string{lookForPending(w)} }),
	}
	watermarkOfArchive = difference{"the watermark is the archive's; the string is for foreign readers, never read or cleared", func([]string, int) [][]string { return nil }}
)

// lookForPending is what a step of a sweep begins with, and with nothing pending
// all of it.
func lookForPending(w []string) []string { return []string{"XPENDING", w[1], w[2]} }

// sweepOver is what the first step of a sweep sends in place of XAUTOCLAIM when
// the oldest live entry is first and an entry is idle.
func sweepOver(first string) func(w []string) [][]string {
	return func(w []string) [][]string {
		count, err := strconv.Atoi(w[len(w)-1])
		if err != nil {
			panic(err)
		}
		return [][]string{
			lookForPending(w),
			{"XRANGE", w[1], "-", "+", "COUNT", "1"},
			{"XPENDING", w[1], w[2], "-", positionBefore(first), strconv.Itoa(sweepFactor * count)},
			{"XAUTOCLAIM", w[1], w[2], w[3], w[4], first, "COUNT", w[7], "JUSTID"},
			{"XREADGROUP", "GROUP", w[2], w[3], "COUNT", "1", "STREAMS", w[1], entryPos(first).Prev().Entry()},
		}
	}
}

// sweepOverTrimmed is the same when the one pending entry was trimmed.
func sweepOverTrimmed(entry string) func(w []string) [][]string {
	return func(w []string) [][]string {
		list := []string{"XPENDING", w[1], w[2], "-", "+", "100"}
		return [][]string{lookForPending(w), {"XRANGE", w[1], "-", "+", "COUNT", "1"}, list, list, {"XACK", w[1], w[2], entry}}
	}
}

// firstSweep is the difference where the first step finds something.
func firstSweep(step func(w []string) [][]string) difference {
	return difference{sweepByHand.why, func(w []string, at int) [][]string {
		switch {
		case w[0] != "XAUTOCLAIM":
			return [][]string{w}
		case at > 1:
			return [][]string{lookForPending(w)}
		}
		return step(w)
	}}
}

// trimThrough is the difference of an archive cycle whose watermark is w.
func trimThrough(w string) difference {
	return difference{
		"the trim goes through the committed watermark, never to a count or a clock, and looks at both ends of the stream",
		onVerb("XTRIM", func(words []string) [][]string {
			key := words[1]
			return [][]string{
				{"XRANGE", key, "-", "+", "COUNT", "1"},
				{"XREVRANGE", key, w, "-", "COUNT", "1"},
				{"XRANGE", key, entryPos(w).Next().Entry(), "+", "COUNT", "1"},
				{"XTRIM", key, "MINID", "=", entryPos(w).Next().Entry()},
				{"XRANGE", key, "-", "+", "COUNT", "1"},
			}
		}),
	}
}

func entryPos(s string) evtid.ID {
	id, err := evtid.ParseEntry(s)
	if err != nil {
		panic(err)
	}
	return id
}

// mergeAcks turns the reference's XACK per entry into the one that rides with the
// next read.
func mergeAcks(cmds [][]string) (merged [][]string) {
	for _, w := range cmds {
		if last := len(merged) - 1; w[0] == "XACK" && last >= 0 && merged[last][0] == "XACK" {
			merged[last] = append(slices.Clone(merged[last]), w[3:]...)
			continue
		}
		merged = append(merged, w)
	}
	return merged
}

// goldenRig drives one operation.
type goldenRig struct {
	t     *testing.T
	c     *Client
	plain *plain
	op    goldenOp
}

func (r *goldenRig) log(name string) *Log { return r.c.Log(stream(r.t, r.op.Input.Queue, name)) }

func (r *goldenRig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func TestGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/wire.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Ops          []goldenOp
		VersionFence struct{ Key, Value string } `json:"version_fence"`
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	if golden.VersionFence.Key != keyspace.VersionKey || golden.VersionFence.Value != keyspace.VersionValue {
		t.Fatalf("the fence is %+v", golden.VersionFence)
	}
	if len(golden.Ops) != len(goldenDrives) {
		t.Fatalf("%d operations in the file, %d known here", len(golden.Ops), len(goldenDrives))
	}
	srv := redistest.Start(t)
	rec := &recorder{}
	c := openAt(t, Config{URL: srv.URL(), Dialer: rec.dial})
	for _, op := range golden.Ops {
		t.Run(op.Op, func(t *testing.T) {
			drive, ok := goldenDrives[op.Op]
			if !ok {
				t.Fatal("an operation that is not known here")
			}
			srv.Do("FLUSHALL")
			r := &goldenRig{t: t, c: c, plain: dialPlain(t, srv.Addr), op: op}
			if drive.setup != nil {
				drive.setup(r)
			}
			rec.take()
			drive.run(r)
			got := shared(rec.take())
			want := goldenWords(t, op.Commands)
			for _, d := range drive.differences {
				t.Log("differs by design:", d.why)
				var turned [][]string
				for i, w := range want {
					turned = append(turned, d.turn(w, i)...)
				}
				want = turned
			}
			want = mergeAcks(want)
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
				t.Fatalf("sent\n%s\nwant\n%s", lines(got), lines(want))
			}
		})
	}
}

// shared leaves out what the reference does not know: transactions, looks at the
// groups, and own keys.
func shared(cmds [][]string) (rest [][]string) {
	for _, w := range cmds {
		if len(w) > 1 && (strings.Contains(w[1], ":lease:") || strings.Contains(w[1], ":skipped:")) {
			continue
		}
		own := slices.Contains([]string{"WATCH", "UNWATCH", "MULTI", "EXEC", "XINFO", "INCR"}, w[0])
		own = own || len(w) > 1 && strings.HasSuffix(w[1], ":floor") || len(w) == 2 && w[0] == "GET" && strings.HasSuffix(w[1], ":epoch")
		if !own {
			rest = append(rest, w)
		}
	}
	return rest
}

func goldenWords(t *testing.T, cmds [][]string) [][]string {
	t.Helper()
	decoded := make([][]string, len(cmds))
	for i, cmd := range cmds {
		for _, w := range cmd {
			if text, ok := strings.CutPrefix(w, "b64:"); ok {
				w = fromBase64(t, text)
			}
			decoded[i] = append(decoded[i], w)
		}
	}
	return decoded
}

func fromBase64(t *testing.T, s string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func lines(cmds [][]string) string {
	var b strings.Builder
	for _, w := range cmds {
		fmt.Fprintf(&b, "  %q\n", w)
	}
	return b.String()
}

func goldenTime(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
