package streamconsumer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

// The child process is a member whose handler ends the process, or hangs, when
// it meets the record whose field n is the one named. It prints its deliveries.
const (
	childEnv     = "EVTLOG_STREAMCONSUMER_CHILD" // member's name
	childURLEnv  = "EVTLOG_STREAMCONSUMER_URL"
	childKillEnv = "EVTLOG_STREAMCONSUMER_KILL" // value of field n; "hang" before it: never return
	childMaxEnv  = "EVTLOG_STREAMCONSUMER_MAX"
	childArchEnv = "EVTLOG_STREAMCONSUMER_ARCHIVE" // ids of its records
)

const childExit = 42

func runChild(name string) {
	if err := consumeInChild(name); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

func consumeInChild(name string) error {
	ctx := context.Background()
	client, err := redislog.Open(ctx, redislog.Config{URL: os.Getenv(childURLEnv)})
	if err != nil {
		return err
	}
	stream, err := keyspace.NewStream("cm", "feed")
	if err != nil {
		return err
	}
	log := client.Log(stream)
	minter, err := evtid.NewMinter(evtid.MinterConfig{Node: 8})
	if err != nil {
		return err
	}
	arch, err := childArchive(ctx, stream)
	if err != nil {
		return err
	}
	cfg := Config{Stream: stream, Group: testGroup, Name: name, Start: FromHead, Handler: childHandler}
	quick(&cfg)
	if _, err := fmt.Sscan(os.Getenv(childMaxEnv), &cfg.MaxDeliveries); err != nil {
		return err
	}
	c, err := newConsumer(cfg, ports{
		log: log, rnd: rand.Float64, arch: arch,
		dial: func(ctx context.Context, name string) (groupReader, error) {
			return log.NewGroupReader(ctx, testGroup, name)
		},
		dead: func(ctx context.Context, fields ...evtlog.Field) (evtid.ID, error) {
			id, err := minter.Mint()
			if err != nil {
				return id, err
			}
			return id, putRecord(ctx, client.Log(stream.Dead()), id, fields...)
		},
	})
	if err != nil {
		return err
	}
	// The parent kills a child that does not end by itself.
	return newRunner(c).Run(ctx, func() { fmt.Println("ready") })
}

func childArchive(ctx context.Context, stream keyspace.Stream) (archive.Archive, error) {
	a := archivetest.NewMemory()
	var records []evtlog.Record
	for i, text := range strings.Fields(os.Getenv(childArchEnv)) {
		id, err := evtid.Parse(text)
		if err != nil {
			return nil, err
		}
		records = append(records, evtlog.Record{ID: id, Fields: []evtlog.Field{evtlog.F("n", fmt.Sprint(i))}})
	}
	if len(records) == 0 {
		return nil, nil
	}
	_, err := a.Fold(ctx, evtlog.StreamName{Queue: stream.Queue(), Name: stream.Name()}, evtid.ID{}, records)
	return a, err
}

func childHandler(_ context.Context, d evtlog.Delivery) error {
	n, _ := d.Get("n")
	fmt.Println("delivered", n, d.Attempts)
	switch os.Getenv(childKillEnv) {
	case n:
		os.Exit(childExit)
	case "hang" + n:
		select {}
	}
	return nil
}

// child runs the child until its handler ends it, or until done, and kills it
// then. killed tells which; out is what it printed.
func (w *world) child(name, kill string, max int, done func(out string) bool, env ...string) (killed bool) {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+name, childURLEnv+"="+w.server.URL(),
		childKillEnv+"="+kill, fmt.Sprintf("%s=%d", childMaxEnv, max))
	cmd.Env = append(cmd.Env, env...)
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	over := func() bool {
		select {
		case <-ended:
			return true
		default:
			return done(out.String())
		}
	}
	until(w.t, "child "+name+" is done", over)
	_ = cmd.Process.Kill()
	<-ended
	if text := out.String(); strings.Contains(text, "error") || !strings.Contains(text, "ready") {
		w.t.Fatalf("child %s: %v\n%s", name, cmd.ProcessState, text)
	}
	return cmd.ProcessState.ExitCode() == childExit
}

// output collects what a process prints.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// allDone reports whether the group has been given everything and has nothing
// pending.
func (w *world) allDone(last evtid.ID) bool {
	groups, err := w.log.Groups(w.t.Context())
	return err == nil && len(groups) == 1 && groups[0].LastDelivered == last && groups[0].Pending == 0
}

func TestKilledProcessLosesNothing(t *testing.T) {
	w := newWorld(t)
	ids := w.append(20)
	if w.child("a", "hang11", 10, func(out string) bool { return strings.Contains(out, "delivered 11 1\n") }) {
		t.Fatal("the child's handler ended it")
	}
	var j journal
	m := w.start("b", j.handle)
	until(t, "a peer has taken everything over", func() bool { return w.allDone(ids[19]) })
	// What the child had handled was not acknowledged yet, so it comes again.
	equalIDs(t, "handled by the peer", j.ids(), ids)
	for _, d := range j.deliveries() {
		if d.Attempts != 2 {
			t.Errorf("entry %s has Attempts %d, want 2", d.ID, d.Attempts)
		}
	}
	if n := m.Stats().Reclaimed; n != 20 {
		t.Errorf("Stats.Reclaimed = %d, want 20", n)
	}
	if got := eventsOf[evtlog.Reclaimed](m.events); len(got) == 0 {
		t.Error("no Reclaimed event")
	}
}

// An entry that ends the process k times is dead-lettered by the server's count,
// and its neighbours, read together with it every time, are handled.
func TestDeadlyEntryIsDeadLettered(t *testing.T) {
	for _, tc := range []struct {
		name string
		max  int
		// names are the members' names in turn: the same one restarts, or each
		// start has a new one and takes the work over from the dead one.
		member func(try int) string
	}{
		{"restarting member", 4, func(int) string { return "a" }},
		{"two attempts", 2, func(int) string { return "a" }},
		{"only one attempt", 1, func(int) string { return "a" }},
		{"members die one after the other", 4, func(try int) string { return fmt.Sprint("m", try) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ids := w.append(8)
			kills := 0
			for try := 0; try < tc.max+3; try++ {
				if !w.child(tc.member(try), "3", tc.max, func(string) bool { return w.allDone(ids[7]) }) {
					break
				}
				kills++
			}
			if kills != tc.max {
				t.Errorf("the deadly entry ended the process %d times, want %d", kills, tc.max)
			}
			letters := w.records(w.deadLog())
			if len(letters) != 1 {
				t.Fatalf("%d dead letters, want the deadly entry only: %v", len(letters), letters)
			}
			if origin, _ := letters[0].Get(FieldOrigin); origin != ids[3].String() {
				t.Errorf("dead letter of %s, want %s", origin, ids[3])
			}
			if n, _ := letters[0].Get(FieldAttempts); n != fmt.Sprint(tc.max) {
				t.Errorf("dead letter after %s attempts, want %d", n, tc.max)
			}
		})
	}
}

// The same holds for a record that a trim took out of the stream, which no
// pending list counts.
func TestDeadlyRecordOfARangeIsDeadLettered(t *testing.T) {
	for _, max := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(max, " attempts"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if _, err := w.log.CreateGroup(t.Context(), testGroup, redislog.Head()); err != nil {
				t.Fatal(err)
			}
			ids := w.append(8)
			w.fold(newMemory(), ids[5])
			env := childArchEnv + "="
			for _, id := range ids[:6] {
				env += id.String() + " "
			}
			kills := 0
			for try := 0; try < max+3; try++ {
				if !w.child("a", "3", max, func(string) bool { return w.settledAt(ids[7]) }, env) {
					break
				}
				kills++
			}
			if kills != max {
				t.Errorf("the deadly record ended the process %d times, want %d", kills, max)
			}
			letters := w.records(w.deadLog())
			if len(letters) != 1 {
				t.Fatalf("%d dead letters, want the deadly record only: %v", len(letters), letters)
			}
			if origin, _ := letters[0].Get(FieldOrigin); origin != ids[3].String() {
				t.Errorf("dead letter of %s, want %s", origin, ids[3])
			}
			if n, _ := letters[0].Get(FieldAttempts); n != fmt.Sprint(max) {
				t.Errorf("dead letter after %s attempts, want %d", n, max)
			}
		})
	}
}
