package redislog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// reaches is an archive of which only the watermark is asked.
type reaches struct {
	to  evtid.ID
	err error
}

func (r reaches) Watermark(context.Context) (evtid.ID, error) { return r.to, r.err }

func TestJoinFloor(t *testing.T) {
	none := evtid.ID{}
	for name, c := range map[string]struct{ floor, top, archived, want evtid.ID }{
		"nothing anywhere":                 {},
		"a floor and no archive":           {floor: at(4), top: at(9), archived: none, want: at(4)},
		"the archive is ahead of the trim": {floor: at(4), top: at(9), archived: at(8), want: at(4)},
		"the floor key is gone":            {top: at(9), archived: at(8), want: at(8)},
		"everything is gone":               {archived: at(8), want: at(8)},
		"the stream was set back":          {floor: at(4), top: at(6), archived: at(8), want: at(8)},
		"archived to the top":              {floor: at(4), top: at(9), archived: at(9), want: at(4)},
		"an older copy of the archive":     {floor: at(8), top: at(9), archived: at(5), want: at(8)},
		"another, older copy, and no top":  {floor: at(8), archived: at(5), want: at(8)},
	} {
		if got := joinFloor(c.floor, c.top, c.archived); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A group is moved to the head while the floor key is gone: what was trimmed is
// owed as a range, because the archive is asked. Without it nobody could know.
func TestSeekWithoutAFloorAsksTheArchive(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 10)
	createGroup(t, l, "g", New())
	if err := l.Seal(t.Context(), at(6)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.TrimThrough(t.Context(), at(6)); err != nil {
		t.Fatal(err)
	}
	srv.Do("DEL", l.stream.Floor())
	behind := l.Behind(reaches{to: at(6)})
	plan, err := behind.PlanSeek(t.Context(), "g", evtid.ID{})
	if err != nil || plan.At != at(6) || plan.Floor != at(6) || !slices.Equal(plan.Ranges, []SkippedRange{{To: at(6)}}) {
		t.Errorf("plan = %+v, %v", plan, err)
	}
	if plan, err = behind.Seek(t.Context(), "g", evtid.ID{}); err != nil {
		t.Fatal(err)
	}
	if err := behind.CheckSeek(t.Context(), plan); err != nil {
		t.Error(err)
	}
	ranges, err := l.SkippedRanges(t.Context(), "g")
	if err != nil || !slices.Equal(ranges, []SkippedRange{{To: at(6)}}) {
		t.Errorf("recorded %v, %v; want all that was trimmed", ranges, err)
	}
	entries, err := readerOf(t, l, "g", "m").ReadNew(10, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, idsOf(entries), 7, 8, 9, 10)
}

// The stream is gone with everything else, and a group was made anew: the head is
// what the archive holds, and its end is the end of the log.
func TestSeekAfterAFlush(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 10)
	srv.Do("FLUSHALL")
	createGroup(t, l, "g", New().Behind(reaches{to: at(10)}))
	behind := l.Behind(reaches{to: at(10)})
	plan, err := behind.Seek(t.Context(), "g", evtid.ID{})
	if err != nil || plan.At != at(10) || !slices.Equal(plan.Repeated, []SkippedRange{{To: at(10)}}) {
		t.Fatalf("to the head: %+v, %v", plan, err)
	}
	if plan, err = behind.Seek(t.Context(), "g", evtid.Max); err != nil || plan.Target != at(10) || len(plan.Ranges) != 0 {
		t.Errorf("to the end: %+v, %v", plan, err)
	}
	down := errors.New("no node answers")
	if _, err := l.Behind(reaches{err: down}).Seek(t.Context(), "g", evtid.ID{}); !errors.Is(err, down) {
		t.Errorf("with an archive that does not answer: %v", err)
	}
	if groups, err := l.Groups(t.Context()); err != nil || groups[0].LastDelivered != at(10) {
		t.Errorf("it was moved all the same: %+v, %v", groups, err)
	}
}

// A floor that is no stream is named by its own key.
func TestWrongFloorIsNamed(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 2)
	createGroup(t, l, "g", Head())
	srv.Do("SET", l.stream.Floor(), "x")
	_, _, errPage := l.Page(t.Context(), evtid.ID{}, evtid.Max, 10)
	_, errSeek := l.Seek(t.Context(), "g", evtid.ID{})
	_, errGroup := l.CreateGroup(t.Context(), "h", Head())
	errSeal := l.Seal(t.Context(), at(1))
	for what, err := range map[string]error{"Page": errPage, "Seek": errSeek, "CreateGroup": errGroup, "Seal": errSeal} {
		if !errors.Is(err, evtlog.ErrWrongType) || !strings.Contains(err.Error(), l.stream.Floor()) {
			t.Errorf("%s: %v; want one that names %s", what, err, l.stream.Floor())
		}
	}
}

// Redis came back with an old snapshot: a group that is made then is given what the
// archive has above the end of the stream.
func TestNewGroupOfAStreamThatWasSetBack(t *testing.T) {
	_, l := realLog(t)
	fill(t, l, 1, 6)
	if err := l.Seal(t.Context(), at(4)); err != nil {
		t.Fatal(err)
	}
	created, err := l.CreateGroup(t.Context(), "head", Head().Behind(reaches{to: at(9)}))
	if err != nil || !created {
		t.Fatal(created, err)
	}
	if ranges, err := l.SkippedRanges(t.Context(), "head"); err != nil || !slices.Equal(ranges, []SkippedRange{{To: at(9)}}) {
		t.Errorf("recorded %v, %v; want all that is archived", ranges, err)
	}
	down := errors.New("no node answers")
	if _, err := l.CreateGroup(t.Context(), "h", Head().Behind(reaches{err: down})); !errors.Is(err, down) {
		t.Errorf("from the head, with an archive that does not answer: %v", err)
	}
	if _, err := l.CreateGroup(t.Context(), "n", New().Behind(reaches{err: down})); err != nil {
		t.Errorf("what is new needs no archive: %v", err)
	}
	if created, err := l.CreateGroup(t.Context(), "head", Head().Behind(reaches{err: down})); created || err != nil {
		t.Errorf("a group that is there needs no archive: %v, %v", created, err)
	}
}
