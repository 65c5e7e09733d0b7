package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
)

// TestWindowEdges puts records at chosen instants, several into the same
// millisecond, folds the older ones, and reads windows across the seam.
func TestWindowEdges(t *testing.T) {
	srv := redistest.Start(t)
	log := client(t, srv)
	store := openVolume(t)
	ctx := testContext(t)
	base := time.Date(2026, 3, 1, 14, 30, 0, 0, time.UTC)

	var all []evtid.ID
	at := func(offset time.Duration, node, seq int) {
		id, err := evtid.Make(base.Add(offset).UnixMilli(), node, seq)
		if err != nil {
			t.Fatal(err)
		}
		if got := srv.Do("XADD", key, id.Entry(), "id", id.String(), "v", fmt.Sprint(len(all))); got != id.Entry() {
			t.Fatalf("XADD: %s", got)
		}
		all = append(all, id)
	}
	at(0, 0, 0)
	at(0, 3, 0) // the same millisecond: other nodes and sequences
	at(0, 3, 1)
	at(0, evtid.MaxNode, evtid.MaxSeq)
	at(time.Millisecond, 0, 0)
	at(time.Second, 5, 7)
	at(time.Second, 5, 8)
	at(2*time.Second, 0, 0)

	reader := archive.NewReader(streamName, log, store)
	expect := func(what string, from, to time.Time, want []evtid.ID) {
		t.Helper()
		w, err := evtlog.Between(from, to)
		if err != nil {
			t.Fatal(err)
		}
		for _, reverse := range []bool{false, true} {
			w.Reverse = reverse
			var got []evtid.ID
			for _, r := range collect(t, reader, w) {
				got = append(got, r.ID)
			}
			if reverse {
				slices.Reverse(got)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s (reverse %v): got %v, want %v", what, reverse, got, want)
			}
		}
	}
	check := func(state string) {
		t.Helper()
		ms := time.Millisecond
		expect(state+": everything", base, base.Add(2*time.Second), all)
		expect(state+": equal instants are all of one millisecond", base, base, all[:4])
		expect(state+": digits below the millisecond round down", base.Add(999*time.Microsecond), base.Add(999*time.Microsecond), all[:4])
		expect(state+": straddling the seam", base.Add(ms), base.Add(time.Second), all[4:7])
		expect(state+": both edges included", base.Add(time.Second), base.Add(2*time.Second), all[5:])
		expect(state+": just inside", base.Add(time.Second+ms), base.Add(2*time.Second-ms), nil)
		expect(state+": before the first", base.Add(-time.Hour), base.Add(-ms), nil)
		expect(state+": before any id", time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), nil)
		expect(state+": from before any id", time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), base, all[:4])
		expect(state+": behind the last", base.Add(3*time.Second), base.Add(time.Hour), nil)
	}
	check("all live")

	// The seam inside a millisecond, then between milliseconds.
	var folded evtid.ID
	for _, upTo := range []int{3, 6} {
		records, _, err := log.Page(ctx, folded, all[upTo-1], 100)
		if err != nil {
			t.Fatal(err)
		}
		if folded, err = store.Fold(ctx, streamName, folded, records); err != nil {
			t.Fatal(err)
		}
		if err := log.Seal(ctx, folded); err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprintf("%d archived, still live too", upTo))
		if _, err := log.TrimThrough(ctx, folded); err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprintf("%d archived and trimmed", upTo))
	}
}
