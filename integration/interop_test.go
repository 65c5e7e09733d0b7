package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/feed"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// ledger notes who handled what.
type ledger struct {
	mu   sync.Mutex
	ours map[string]int // by entry id
	them map[string]int
	lost []evtlog.Lost
}

func newLedger() *ledger { return &ledger{ours: map[string]int{}, them: map[string]int{}} }

func (l *ledger) note(book map[string]int, entry string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	book[entry]++
}

func (l *ledger) observe(e evtlog.Event) {
	if lost, ok := e.(evtlog.Lost); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lost = append(l.lost, lost)
	}
}

// check fails the test when one of the ids was handled by nobody, or a loss was
// reported.
func (l *ledger) check(t *testing.T, ids []evtid.ID) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	twice, missing := 0, 0
	for _, id := range ids {
		switch l.ours[id.Entry()] + l.them[id.Entry()] {
		case 0:
			missing++
		case 1:
		default:
			twice++
		}
	}
	if missing > 0 || len(l.lost) > 0 {
		t.Errorf("%d of %d entries were handled by nobody; reported as lost: %+v", missing, len(ids), l.lost)
	}
	t.Logf("of %d entries ours handled %d, theirs %d, %d were handled more than once", len(ids), len(l.ours), len(l.them), twice)
}

// foreign starts a foreign member of group g on q/s that works until the
// returned function is called.
func foreign(t *testing.T, srv *redistest.Server, group, name string, minIdle time.Duration, handle func(foreignEntry)) (stop func()) {
	t.Helper()
	m := &foreignMember{
		plain: dialPlain(t, srv.Addr), key: key, group: group, name: name, start: "0",
		beatMS: 200, minIdleMS: int(minIdle.Milliseconds()), count: 100, handle: handle,
	}
	if err := m.begin(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ending := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-ending:
				return
			default:
			}
			if err := m.beat(); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Errorf("foreign member %s: %v", name, err)
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ending)
		wg.Wait()
	})
}

// hardTrimmed is q/s with an archive and a small hot window.
func hardTrimmed(t *testing.T, srv *redistest.Server, hot int64) (*runtime.Log, archive.Archive) {
	t.Helper()
	store := openVolume(t)
	_, log := oneStream(t, srv, runtime.Stream{Retention: evtlog.KeepLast(hot), Durability: runtime.Commit, Archive: store})
	return log, store
}

// sweeping folds and trims all the time, until the returned function is called.
func sweeping(t *testing.T, log *runtime.Log) (stop func()) {
	t.Helper()
	var wg sync.WaitGroup
	ending := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-ending:
				return
			case <-time.After(10 * time.Millisecond):
			}
			if err := log.Sweep(context.WithoutCancel(t.Context())); err != nil {
				t.Errorf("sweep: %v", err)
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ending)
		wg.Wait()
	})
}

// appendSlowly appends n records in a hundred bursts, over about a second and a
// half. It may be called by any goroutine.
func appendSlowly(t *testing.T, log *runtime.Log, n int) (ids []evtid.ID) {
	for len(ids) < n {
		id, err := log.Append(context.WithoutCancel(t.Context()), evtlog.F("v", fmt.Sprint(len(ids))))
		if err != nil {
			t.Errorf("append: %v", err)
			return ids
		}
		if ids = append(ids, id); len(ids)%(n/100) == 0 {
			<-time.After(15 * time.Millisecond)
		}
	}
	return ids
}

// member starts our member of a group. It works on the archive too.
func member(t *testing.T, srv *redistest.Server, group string, arch archive.Archive, minIdle time.Duration, l *ledger, handle func(d evtlog.Delivery)) {
	t.Helper()
	cfg := consumerConfig(srv, "ours", func(_ context.Context, d evtlog.Delivery) error {
		handle(d)
		l.note(l.ours, d.ID.Entry())
		return nil
	})
	cfg.Consumers[0].Group, cfg.Consumers[0].Archive, cfg.Consumers[0].MinIdle = group, arch, minIdle
	cfg.Observer = l.observe
	start(t, cfg)
}

// finished waits until a group has handled and acknowledged its stream.
func finished(t *testing.T, srv *redistest.Server, group string) {
	t.Helper()
	log := client(t, srv)
	eventually(t, 30*time.Second, "group "+group+" has finished the stream", func() bool {
		done, err := runtime.CaughtUp(testContext(t), log, group)
		if err != nil {
			t.Fatal(err)
		}
		return done
	})
	if n := srv.Do("XPENDING", key, group, "-", "+", "1"); n != nothingPending {
		t.Errorf("group %s has something pending: %s", group, n)
	}
}

// TestForeignMemberSharesAGroup lets a member of the reference and one of ours
// work in one group, while an archiver trims all the time. Theirs is slower than
// MinIdle now and then, and renews nothing; a third one reads and is never seen
// again.
func TestForeignMemberSharesAGroup(t *testing.T) {
	const minIdle = 400 * time.Millisecond
	srv := redistest.Start(t)
	rnd := random(t)
	log, store := hardTrimmed(t, srv, 50)
	l := newLedger()

	gone := dialPlain(t, srv.Addr)
	first := appendN(t, log, 20)
	gone.must(t, "XGROUP", "CREATE", key, "g", "0")
	if got := ofOneStream(gone.must(t, "XREADGROUP", "GROUP", "g", "gone", "COUNT", "7", "STREAMS", key, ">")); len(got) != 7 {
		t.Fatalf("it was given %d entries", len(got))
	}
	_ = gone.conn.Close()

	slow := rnd.IntN(50) + 20
	handled := 0
	stop := foreign(t, srv, "g", "theirs", minIdle, func(e foreignEntry) {
		pause := time.Duration(handled%3) * time.Millisecond
		if handled++; handled == slow {
			pause = 2 * minIdle
		}
		<-time.After(pause)
		l.note(l.them, e.id)
	})
	defer stop()
	member(t, srv, "g", store, minIdle, l, func(evtlog.Delivery) { <-time.After(time.Millisecond) })

	rest := sweeping(t, log)
	defer rest()
	ids := append(first, appendSlowly(t, log, 2000)...)
	finished(t, srv, "g")
	rest()
	stop()
	l.check(t, ids)
	if len(l.ours) == 0 || handled < slow {
		t.Errorf("ours handled %d; theirs %d, and was to be slow at the %dth", len(l.ours), handled, slow)
	}
	if n := len(collect(t, log, evtlog.Window{})); n != len(ids) {
		t.Errorf("%d records are readable of %d", n, len(ids))
	}
}

// TestForeignMemberTakesOverFromOurs and leaves alone what ours still works on,
// although it claims from the very beginning on each beat.
func TestForeignMemberTakesOverFromOurs(t *testing.T) {
	const minIdle = 1200 * time.Millisecond // room for a busy machine
	srv := redistest.Start(t)
	_, log := oneStream(t, srv, runtime.Stream{})
	ids := appendN(t, log, 5)
	l := newLedger()

	// A member of ours that dies with three entries in hand.
	redis := client(t, srv)
	if _, err := redis.CreateGroup(testContext(t), "g", redislog.Head()); err != nil {
		t.Fatal(err)
	}
	reader, err := redis.NewGroupReader(testContext(t), "g", "dies")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := reader.ReadNew(3, 0); err != nil || len(got) != 3 {
		t.Fatalf("%d entries, %v", len(got), err)
	}
	_ = reader.Close()

	// One of ours that works on the fourth for much longer than MinIdle.
	begun, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	cfg := consumerConfig(srv, "ours", func(_ context.Context, d evtlog.Delivery) error {
		if d.ID == ids[3] {
			once.Do(func() { close(begun) })
			<-release
		}
		l.note(l.ours, d.ID.Entry())
		return nil
	})
	cfg.Consumers[0].MinIdle, cfg.Consumers[0].Count = minIdle, 1
	start(t, cfg)
	<-begun
	stop := foreign(t, srv, "g", "theirs", minIdle, func(e foreignEntry) { l.note(l.them, e.id) })
	defer stop()
	eventually(t, 10*time.Second, "theirs has taken over what the dead one had", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.them[ids[0].Entry()] == 1 && l.them[ids[1].Entry()] == 1 && l.them[ids[2].Entry()] == 1
	})
	<-time.After(2 * minIdle) // time in which a claim would have hit
	close(release)
	finished(t, srv, "g")
	stop()
	l.check(t, ids)
	if l.them[ids[3].Entry()] != 0 || l.ours[ids[3].Entry()] != 1 {
		t.Errorf("the entry in hand was handled %d times by ours and %d times by theirs", l.ours[ids[3].Entry()], l.them[ids[3].Entry()])
	}
}

// TestForeignGroupThatIsLate was made by a foreign program and is read only when
// most of the stream was trimmed. Theirs finds what is live; the rest waits for
// a member that can read the archive.
func TestForeignGroupThatIsLate(t *testing.T) {
	srv := redistest.Start(t)
	log, store := hardTrimmed(t, srv, 20)
	dialPlain(t, srv.Addr).must(t, "XGROUP", "CREATE", key, "late", "0", "MKSTREAM")
	ids := appendN(t, log, 300)
	if err := log.Sweep(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if n := srv.Do("XLEN", key); n != ":20" {
		t.Fatalf("%s entries are live", n)
	}
	l := newLedger()
	stop := foreign(t, srv, "late", "theirs", time.Second, func(e foreignEntry) { l.note(l.them, e.id) })
	defer stop()
	eventually(t, 10*time.Second, "theirs has handled what is live", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.them) == 20
	})
	member(t, srv, "late", store, time.Second, l, func(evtlog.Delivery) {})
	finished(t, srv, "late")
	stop()
	l.check(t, ids)
}

// TestForeignWriter writes entries as the reference does, and in ways that it
// does not: without an id, with a wrong one, with one that stands elsewhere, with
// bytes that are no text, and at the first and last position of a millisecond.
// All of them are folded, trimmed, handled by both kinds of members, and read
// back as they were written.
func TestForeignWriter(t *testing.T) {
	srv := redistest.Start(t)
	ops, _ := golden(t)
	binary := ops["append_id, binary-unsafe bytes"].Commands[0][5:]
	log, store := hardTrimmed(t, srv, 30)
	writer := dialPlain(t, srv.Addr)
	l, theirs := newLedger(), newLedger()
	var mu sync.Mutex
	delivered := map[evtid.ID]evtlog.Record{}
	member(t, srv, "g", store, time.Second, l, func(d evtlog.Delivery) {
		mu.Lock()
		defer mu.Unlock()
		delivered[d.ID] = d.Record
	})
	stop := foreign(t, srv, "f", "theirs", time.Second, func(e foreignEntry) { theirs.note(theirs.them, e.id) })
	defer stop()

	base := time.Now().Add(-time.Minute).UnixMilli()
	var ids []evtid.ID
	want := map[evtid.ID]written{}
	for n := range 300 {
		low := []int64{0, 1 << 12, 4194303}[n%3]
		id, err := evtid.ParseEntry(fmt.Sprintf("%d-%d", base+int64(n), low))
		if err != nil {
			t.Fatal(err)
		}
		w := written{unbranded: true}
		switch n % 6 {
		case 0: // as the reference
			w.fields, w.unbranded = []string{"n", fmt.Sprint(n)}, false
		case 1:
			w.fields = []string{"n", fmt.Sprint(n)}
		case 2:
			w.fields = []string{"id", ids[0].String(), "n", fmt.Sprint(n)}
		case 3:
			w.fields = []string{"n", fmt.Sprint(n), "id", id.String(), "n", ""}
		case 4:
			w.fields, w.unbranded = binary, false
		case 5:
			w.fields = []string{"id", "nonsense\r\n"}
		}
		stored := w.fields
		if !w.unbranded {
			stored = slices.Concat([]string{"id", id.String()}, w.fields)
		}
		writer.must(t, slices.Concat([]string{"XADD", key, id.Entry()}, stored)...)
		ids, want[id] = append(ids, id), w
	}
	finished(t, srv, "g")
	if err := log.Sweep(testContext(t)); err != nil {
		t.Fatal(err)
	}
	finished(t, srv, "g")
	l.check(t, ids)
	checkForeign(t, want, collect(t, log, evtlog.Window{}), "read back")
	mu.Lock()
	checkForeign(t, want, slices.Collect(maps.Values(delivered)), "delivered")
	mu.Unlock()
	if w := srv.Do("GET", key+":archived"); w != ids[299].String() || srv.Do("XLEN", key) != ":30" {
		t.Errorf("the watermark is %s, %s are live", w, srv.Do("XLEN", key))
	}
	// What the foreign group was too late for waits in the archive for ours.
	member(t, srv, "f", store, time.Second, theirs, func(evtlog.Delivery) {})
	finished(t, srv, "f")
	stop()
	theirs.check(t, ids)

	// Our writer goes on above.
	id, err := log.Append(testContext(t), evtlog.F("n", "300"))
	if err != nil || !ids[299].Less(id) {
		t.Errorf("append behind a foreign writer: %s, %v", id, err)
	}
}

// written is what is to be read of a foreign entry: all its fields but a leading
// id that agrees with the position.
type written struct {
	fields    []string
	unbranded bool
}

func checkForeign(t *testing.T, want map[evtid.ID]written, got []evtlog.Record, where string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d records, want %d", where, len(got), len(want))
	}
	for _, rec := range got {
		var fields []string
		for _, f := range rec.Fields {
			fields = append(fields, f.Name, f.Value)
		}
		if w := want[rec.ID]; !slices.Equal(fields, w.fields) || rec.Unbranded != w.unbranded {
			t.Errorf("%s: %s holds %q (unbranded %v), written was %+v", where, rec.ID.Entry(), fields, rec.Unbranded, w)
		}
	}
}

// TestForeignPositionHoldsOnlyTheTrimBack: an entry where no id can be, which a
// foreign writer puts there, is in no archive. It becomes a dead letter of our
// group, and as long as it is there nothing is trimmed.
func TestForeignPositionHoldsOnlyTheTrimBack(t *testing.T) {
	srv := redistest.Start(t)
	dialPlain(t, srv.Addr).must(t, "XADD", key, "5-5", "k", "v")
	log, store := hardTrimmed(t, srv, 10)
	l := newLedger()
	member(t, srv, "g", store, time.Second, l, func(evtlog.Delivery) {})
	ids := appendN(t, log, 50)
	if err := log.Sweep(testContext(t)); err == nil || !errors.Is(err, evtlog.ErrForeignEntry) {
		t.Errorf("the sweep says %v", err)
	}
	finished(t, srv, "g")
	l.check(t, ids)
	if n, dead := srv.Do("XLEN", key), srv.Do("XLEN", key+".dead"); n != ":51" || dead != ":1" {
		t.Errorf("%s entries are live, %s are dead letters", n, dead)
	}
	if w, err := store.Watermark(testContext(t), streamName); err != nil || w != ids[49] {
		t.Errorf("the watermark is %s, %v", w, err)
	}
	srv.Do("XDEL", key, "5-5")
	if err := log.Sweep(testContext(t)); err != nil || srv.Do("XLEN", key) != ":10" {
		t.Errorf("without it: %v, %s entries are live", err, srv.Do("XLEN", key))
	}
}

// TestForeignReaderOfTheWatermark: what a foreign program is told is archived is
// archived, nothing above it was trimmed, and both together are the log.
func TestForeignReaderOfTheWatermark(t *testing.T) {
	srv := redistest.Start(t)
	ops, _ := golden(t)
	log, store := hardTrimmed(t, srv, 20)
	foreignReader := dialPlain(t, srv.Addr)
	watermark := func() evtid.ID {
		text, _ := foreignReader.must(t, "GET", key+":archived").(string)
		if text == "" {
			return evtid.ID{}
		}
		id, err := evtid.Parse(text)
		if err != nil {
			t.Fatalf("the watermark %q is no id: %v", text, err)
		}
		return id
	}
	rest := sweeping(t, log)
	defer rest()
	var appended []evtid.ID
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		appended = appendSlowly(t, log, 1000)
	}()
	type sight struct{ oldest, then evtid.ID }
	var sights []sight
	for looking := true; looking; {
		select {
		case <-ended:
			looking = false
		default:
		}
		told := watermark()
		if w, err := store.Watermark(testContext(t), streamName); err != nil || w.Less(told) {
			t.Fatalf("a foreign reader was told %s, archived is %s, %v", told, w, err)
		}
		if first := entriesOf(foreignReader.must(t, "XRANGE", key, "-", "+", "COUNT", "1")); len(first) == 1 {
			oldest, err := evtid.ParseEntry(first[0].id)
			if err != nil {
				t.Fatal(err)
			}
			sights = append(sights, sight{oldest, watermark()})
		}
	}
	rest()
	trims := map[evtid.ID]bool{}
	for _, s := range sights {
		trims[s.oldest] = true
		for _, id := range appended {
			if id.Less(s.oldest) && s.then.Less(id) {
				t.Fatalf("%s was trimmed, and foreign readers were told %s", id, s.then)
			}
		}
	}
	if len(trims) < 10 {
		t.Errorf("only %d states of the stream were seen", len(trims))
	}
	if err := log.Sweep(testContext(t)); err != nil {
		t.Fatal(err)
	}
	// The merged read of the reference.
	w := watermark()
	var joined []evtid.ID
	for rec, err := range store.Read(testContext(t), streamName, archive.Range{To: w}) {
		if err != nil {
			t.Fatal(err)
		}
		joined = append(joined, rec.ID)
	}
	words := slices.Clone(ops["merge_read"].Commands[0])
	words[1], words[2] = key, "("+w.Entry()
	for _, e := range entriesOf(foreignReader.must(t, words...)) {
		id, err := evtid.ParseEntry(e.id)
		if err != nil || !slices.Equal(e.fields[:2], []string{"id", id.String()}) {
			t.Fatalf("entry %s holds %q, %v", e.id, e.fields, err)
		}
		joined = append(joined, id)
	}
	if !slices.Equal(joined, appended) {
		t.Errorf("a foreign reader joins %d records, appended were %d", len(joined), len(appended))
	}
}

// TestAnnouncementsBothWays: what ours announces a foreign subscriber reads byte
// for byte, and the other way round.
func TestAnnouncementsBothWays(t *testing.T) {
	srv := redistest.Start(t)
	ops, _ := golden(t)
	rt, log := oneStream(t, srv, runtime.Stream{})
	channel := "emq:{" + queue + "}:events"
	subscriber := dialPlain(t, srv.Addr)
	subscriber.must(t, "SUBSCRIBE", channel)
	received := func() string {
		_ = subscriber.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		reply, err := subscriber.read()
		if err != nil {
			t.Fatal(err)
		}
		return reply.([]any)[2].(string)
	}

	in := ops["publish event"]
	var extra []evtlog.Field
	for _, e := range in.Input.Extra {
		value, _, _ := strings.Cut(e[1], " ") // "1 (integer)"
		extra = append(extra, evtlog.F(e[0], value))
	}
	if n, err := rt.Publish(testContext(t), queue, feed.Announcement{Event: in.Input.Event, Job: in.Input.Job, Extra: extra}); err != nil || n != 1 {
		t.Fatalf("%d subscribers, %v", n, err)
	}
	if got, want := received(), in.Commands[0][2]; got != want {
		t.Errorf("published %q, the reference publishes %q", got, want)
	}

	prev, err := log.Append(testContext(t), evtlog.F("n", "0"))
	if err != nil {
		t.Fatal(err)
	}
	id, err := log.Announce(testContext(t), "scored", "JOB0KHTOWnGLuC", evtlog.F("pct", "83"))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`{"event":"scored","job":"JOB0KHTOWnGLuC","evt":"%s","prev":"%s","pct":"83"}`, id, prev)
	if got := received(); got != want {
		t.Errorf("announced %q, want %q", got, want)
	}

	raw, err := os.ReadFile("testdata/events.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Encode []struct {
			Payload string `json:"payload_b64"`
			Note    string
		}
	}
	if err := json.Unmarshal(raw, &vectors); err != nil || len(vectors.Encode) < 30 {
		t.Fatalf("%d vectors, %v", len(vectors.Encode), err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	announcements, err := rt.Subscribe(ctx, queue)
	if err != nil {
		t.Fatal(err)
	}
	publisher := dialPlain(t, srv.Addr)
	for _, v := range vectors.Encode {
		publisher.must(t, "PUBLISH", channel, decoded(t, v.Payload))
	}
	n := 0
	for a, err := range announcements {
		payload := decoded(t, vectors.Encode[n].Payload)
		if err != nil || string(a.AppendTo(nil)) != payload {
			t.Errorf("%s: %q was read as %+v, %v", vectors.Encode[n].Note, payload, a, err)
		}
		if n++; n == len(vectors.Encode) {
			break
		}
	}
	if n != len(vectors.Encode) {
		t.Errorf("%d of %d announcements came", n, len(vectors.Encode))
	}
}

// TestFenceIsShared: whoever comes first sets it, and both accept it.
func TestFenceIsShared(t *testing.T) {
	_, fence := golden(t)
	srv := redistest.Start(t)
	srv.Do("SET", fence[0], fence[1], "NX")
	oneStream(t, srv, runtime.Stream{})
	fresh := redistest.Start(t)
	oneStream(t, fresh, runtime.Stream{})
	if got := fresh.Do("GET", fence[0]); got != fence[1] {
		t.Errorf("the fence is %q, the reference looks for %q", got, fence[1])
	}
	fresh.Do("SET", fence[0], "echomq:4")
	if _, err := runtime.Start(testContext(t), runtime.Config{Redis: redislog.Config{URL: fresh.URL()}}); !errors.Is(err, evtlog.ErrForeignFormat) {
		t.Errorf("another format is answered with %v", err)
	}
}

// TestOurGroupIsOrdinary: a foreign member can go on with a group that ours made,
// from where ours left off.
func TestOurGroupIsOrdinary(t *testing.T) {
	srv := redistest.Start(t)
	_, log := oneStream(t, srv, runtime.Stream{})
	ids := appendN(t, log, 10)
	l := newLedger()
	cfg := consumerConfig(srv, "ours", func(_ context.Context, d evtlog.Delivery) error {
		l.note(l.ours, d.ID.Entry())
		return nil
	})
	cfg.Consumers[0].Start = streamconsumer.FromHead
	rt := start(t, cfg)
	finished(t, srv, "g")
	stop(t, rt)
	ids = append(ids, appendN(t, log, 10)...)
	end := foreign(t, srv, "g", "theirs", time.Second, func(e foreignEntry) { l.note(l.them, e.id) })
	defer end()
	finished(t, srv, "g")
	end()
	l.check(t, ids)
	if len(l.ours) != 10 || len(l.them) != 10 {
		t.Errorf("ours handled %d, theirs %d", len(l.ours), len(l.them))
	}
}
