package publisher_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/faultproxy"
	"github.com/evtlog/evtlog/internal/redistest"
)

// inDoubt runs one append whose answer is swallowed, does meanwhile to the stream
// what the test wants while the publisher cannot connect, and returns the
// verdict.
func inDoubt(t *testing.T, arch archive.Archive, meanwhile func(t *testing.T, server *redistest.Server, b *bench)) (*bench, evtid.ID, error) {
	t.Helper()
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr)
	b := start(t, proxy.URL(), publisher.Config{}, arch)
	appendAll(t, b, 3)
	direct := &bench{Publisher: b.Publisher, log: client(t, server.URL()).Log(feedStream(t))}
	proxy.Swallow(0, 1)
	verdict := make(chan error, 1)
	var id evtid.ID
	go func() {
		var err error
		id, err = b.Append(within(t), evtlog.F("k", "in doubt"))
		verdict <- err
	}()
	await(t, "the answer was swallowed", func() bool { return proxy.Swallowing() == 0 })
	proxy.Refuse(true)
	await(t, "the connection was given up", func() bool { return b.Stats().Unsettled == 1 })
	meanwhile(t, server, direct)
	proxy.Refuse(false)
	err := <-verdict
	return direct, id, err
}

// fold archives the whole live stream.
func fold(t *testing.T, arch archive.Archive, b *bench) []evtlog.Record {
	t.Helper()
	records := stored(t, b.log)
	name := evtlog.StreamName{Queue: "cm", Name: "feed"}
	if _, err := arch.Fold(within(t), name, evtid.ID{}, records); err != nil {
		t.Fatal(err)
	}
	return records
}

func TestARecordThatWasArchivedMeanwhileIsCommitted(t *testing.T) {
	arch := archivetest.NewMemory()
	var records []evtlog.Record
	_, id, err := inDoubt(t, arch, func(t *testing.T, server *redistest.Server, b *bench) {
		records = fold(t, arch, b)
		server.Do("XTRIM", feedStream(t).Key(), "MAXLEN", "=", "0")
	})
	if err != nil || len(records) != 4 || records[3].ID != id {
		t.Errorf("got %s, %v; archived %#v", id, err, records)
	}
}

func TestARecordThatIsNowhereIsRejected(t *testing.T) {
	b, id, err := inDoubt(t, archivetest.NewMemory(), func(t *testing.T, server *redistest.Server, b *bench) {
		// The top stays above it, so no command can bring it back.
		records := stored(t, b.log)
		server.Do("XDEL", feedStream(t).Key(), records[3].ID.Entry())
	})
	var rejected *evtlog.RejectedError
	if !errors.As(err, &rejected) || rejected.ID.IsZero() || !id.IsZero() {
		t.Errorf("neither live nor archived: %s, %v", id, err)
	}
	appendAll(t, b, 1)
}

func TestATrimmedRecordWithoutArchiveStaysUncertain(t *testing.T) {
	b, _, err := inDoubt(t, nil, func(t *testing.T, server *redistest.Server, _ *bench) {
		server.Do("XTRIM", feedStream(t).Key(), "MAXLEN", "=", "0")
	})
	var doubt *evtlog.UncertainError
	if !errors.As(err, &doubt) {
		t.Errorf("trimmed meanwhile: %v", err)
	}
	appendAll(t, b, 1)
}

func TestAnotherRecordAtTheIDIsASecondWriter(t *testing.T) {
	for name, arch := range map[string]archive.Archive{"live": nil, "archived": archivetest.NewMemory()} {
		t.Run(name, func(t *testing.T) {
			b, _, err := inDoubt(t, arch, func(t *testing.T, server *redistest.Server, b *bench) {
				records := stored(t, b.log)
				mine := records[3].ID
				server.Do("DEL", feedStream(t).Key())
				for _, r := range records[:3] {
					server.Do("XADD", feedStream(t).Key(), r.ID.Entry(), "id", r.ID.String(), "n", "0")
				}
				server.Do("XADD", feedStream(t).Key(), mine.Entry(), "id", mine.String(), "k", "of another")
				if arch != nil {
					fold(t, arch, b)
					server.Do("XTRIM", feedStream(t).Key(), "MAXLEN", "=", "0")
				}
			})
			if !errors.Is(err, evtlog.ErrNonMonotonic) {
				t.Errorf("another record has the id: %v", err)
			}
			appendAll(t, b, 1)
		})
	}
}

// The stream is deleted before anything else was appended: whether an id is in the
// log, the archive tells.
func TestResolveOfAnArchivedIDWithoutAStream(t *testing.T) {
	arch := archivetest.NewMemory()
	server := redistest.Start(t)
	b := start(t, server.URL(), publisher.Config{}, arch)
	ids := appendAll(t, b, 2)
	fold(t, arch, b)
	server.Do("DEL", feedStream(t).Key())
	if err := b.Resolve(within(t), ids[1]); err != nil {
		t.Errorf("resolve of an archived record: %v", err)
	}
	if err := b.Resolve(within(t), ids[0].Prev()); !errors.As(err, new(*evtlog.RejectedError)) {
		t.Errorf("resolve of an id that the archive has passed: %v", err)
	}
	if err := b.Resolve(within(t), ids[1].Next()); !errors.As(err, new(*evtlog.UncertainError)) {
		t.Errorf("resolve of an id that may still come: %v", err)
	}
}

// What is only in the archive is known to a new writer: it starts above.
func TestTheFirstIDIsAboveTheArchive(t *testing.T) {
	arch := archivetest.NewMemory()
	server := redistest.Start(t)
	first := start(t, server.URL(), publisher.Config{}, arch)
	appendAll(t, first, 2)
	first.stop(t)
	records := fold(t, arch, first)
	server.Do("DEL", feedStream(t).Key())
	slow := clock{}
	slow.step(-30e9)
	b := start(t, server.URL(), publisher.Config{Now: slow.now}, arch)
	if id := appendAll(t, b, 1)[0]; !records[1].ID.Less(id) {
		t.Errorf("%s is not above the archived %s", id, records[1].ID)
	}
	for i, r := range records {
		if err := b.Resolve(within(t), r.ID); err != nil {
			t.Errorf("resolve of archived record %d: %v", i, err)
		}
	}
	var rejected *evtlog.RejectedError
	if err := b.Resolve(within(t), records[0].ID.Prev()); !errors.As(err, &rejected) {
		t.Errorf("resolve of an id below the archive's first: %v", err)
	}
}

// The archive is down: a later connection does not need it, a record in doubt
// waits for it, and so does the first connection.
func TestTheArchiveIsDown(t *testing.T) {
	arch := archivetest.NewMemory()
	down := func(context.Context, archivetest.Step) error { return errors.New("archive is down") }
	b, _, err := inDoubt(t, arch, func(t *testing.T, server *redistest.Server, b *bench) {
		fold(t, arch, b)
		server.Do("XTRIM", feedStream(t).Key(), "MAXLEN", "=", "0")
		arch.SetHook(down)
		time.AfterFunc(200*time.Millisecond, func() { arch.SetHook(nil) })
	})
	if err != nil {
		t.Errorf("the record in doubt, once the archive is back: %v", err)
	}
	arch.SetHook(down)
	if err := b.Resolve(within(t), appendAll(t, b, 1)[0].Prev()); !errors.As(err, new(*evtlog.UncertainError)) {
		t.Errorf("resolve without the archive: %v", err)
	}
	late, err := publisher.New(publisher.Config{Stream: feedStream(t)}, b.log, arch)
	if err != nil {
		t.Fatal(err)
	}
	system := supervise.NewSystem(supervise.Config{})
	time.AfterFunc(200*time.Millisecond, func() { arch.SetHook(nil) })
	if _, err := system.Branch(within(t), "late", late.Spec()); err != nil {
		t.Errorf("start once the archive is back: %v", err)
	}
	if err := system.Stop(within(t)); err != nil {
		t.Error(err)
	}
}

// Somebody deletes the stream while it is written, without a word on the append
// connection: what is gone is reported, once for each time, and appends go on.
func TestTheStreamIsDeleted(t *testing.T) {
	server := redistest.Start(t)
	b := running(t, server, publisher.Config{})
	for round := 1; round <= 2; round++ {
		var last evtid.ID
		var err error
		for range 3 {
			if last, err = b.Append(within(t), evtlog.F("k", "v")); err != nil {
				t.Fatal(err)
			}
		}
		oldest := stored(t, b.log)[0].ID
		if round == 2 {
			server.Do("FLUSHALL")
		} else {
			server.Do("DEL", feedStream(t).Key())
		}
		await(t, "the loss is reported", func() bool {
			if _, err := b.Append(within(t), evtlog.F("k", "w")); err != nil {
				t.Fatal(err)
			}
			return len(seen[evtlog.Lost](&b.journal)) == round
		})
		lost := seen[evtlog.Lost](&b.journal)[round-1]
		if first := stored(t, b.log)[0].ID; !lost.After.Less(oldest) || lost.To.Less(last) || !lost.To.Less(first) {
			t.Errorf("lost are %s..%s; they were %s to %s, live is %s", lost.After, lost.To, oldest, last, first)
		}
		if told := seen[evtlog.Lost](&b.journal)[0].To; round == 2 && lost.After.Less(told) {
			t.Errorf("the second loss begins at %s; up to %s was told before", lost.After, told)
		}
	}
	if s := b.Stats(); s.Reconnects != 0 || s.Rejected != 0 {
		t.Errorf("%+v", s)
	}
}
