package trimline

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/internal/fakelog"
	"github.com/evtlog/evtlog/evtid"
)

func locate(t *testing.T, log *fakelog.Log, keep evtlog.Keep, slack int64) Line {
	t.Helper()
	info, err := log.Info(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	line, err := Locate(context.Background(), log, Query{Keep: keep, Now: epoch.Add(time.Hour), Length: info.Length, Slack: slack})
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func TestLocateByCountReadsOnlyWhatIsCheaper(t *testing.T) {
	for _, c := range []struct{ length, keep, through, reads int }{
		{10, 10, 0, 0},
		{10, 9, 1, 1},
		{2500, 100, 2400, 101},
		{2500, 1200, 1300, 1201},
		{2500, 2400, 100, 100},
		{2500, 1, 2499, 2},
	} {
		log := &fakelog.Log{}
		log.Append(1, c.length)
		var want evtid.ID
		if c.through > 0 {
			want = fakelog.ID(c.through)
		}
		if got := locate(t, log, evtlog.KeepLast(int64(c.keep)), 1); got.Through != want || got.More {
			t.Errorf("%+v: got %v", c, got)
		}
		if log.Reads() != c.reads {
			t.Errorf("%+v: read %d records", c, log.Reads())
		}
	}
}

func TestLocateByTime(t *testing.T) {
	log := &fakelog.Log{}
	log.Append(1, 300)
	log.Add(fakelog.ID(1000))
	since := func(n int) evtlog.Keep { return evtlog.KeepSince(epoch.Add(time.Duration(n) * time.Millisecond)) }
	for _, c := range []struct {
		keep  evtlog.Keep
		slack int64
		want  evtid.ID
	}{
		{since(1), 1, evtid.ID{}},
		{since(2), 1, fakelog.ID(1)},
		{since(100), 100, evtid.ID{}}, // 99 are due, less than a node
		{since(101), 100, fakelog.ID(100)},
		{since(900), 1, fakelog.ID(300)},   // an id that is there, not the bound
		{since(5000), 1, fakelog.ID(1000)}, // never above the top
	} {
		if got := locate(t, log, c.keep, c.slack); got.Through != c.want {
			t.Errorf("%v slack %d: got %s, want %s", c.keep.Since, c.slack, got.Through, c.want)
		}
	}
}

// Whatever is appended and trimmed by others while the line is looked for, at
// least as many records as are to be kept lie above it.
func TestLocateKeepsEnoughWhileOthersWork(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		log := &fakelog.Log{}
		top := 1 + rnd.IntN(200)
		log.Append(1, top)
		keep := int64(1 + rnd.IntN(150))
		log.Hook = func(_ context.Context, _ string, _ bool) error {
			switch rnd.IntN(4) {
			case 0:
				log.Append(top+1, top+3)
				top += 3
			case 1:
				if n := len(log.IDs()) - int(keep); n > 0 {
					log.Remove(1 + rnd.IntN(n))
				}
			}
			return nil
		}
		line := locate(t, log, evtlog.KeepLast(keep), 1)
		above := 0
		for _, id := range log.IDs() {
			if line.Through.Less(id) {
				above++
			}
		}
		if !line.Through.IsZero() && above < int(keep) {
			t.Fatalf("keep %d: only %d above %s", keep, above, line.Through)
		}
	}
}

func TestLocateReportsErrors(t *testing.T) {
	boom := errors.New("boom")
	for _, op := range []string{"page", "pagebefore", "info"} {
		for _, keep := range []evtlog.Keep{evtlog.KeepLast(10), evtlog.KeepLast(190), evtlog.KeepSince(epoch.Add(150 * time.Millisecond))} {
			log := &fakelog.Log{}
			log.Append(1, 200)
			met := false
			log.Hook = func(_ context.Context, o string, _ bool) error {
				if o == op {
					met = true
					return boom
				}
				return nil
			}
			_, err := Locate(context.Background(), log, Query{Keep: keep, Now: epoch, Length: 200, Slack: 1})
			if met != errors.Is(err, boom) {
				t.Errorf("%s, %+v: met %v, error %v", op, keep, met, err)
			}
		}
	}
}
