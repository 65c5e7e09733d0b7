package evtid_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/evtlog/evtlog/evtid"
)

// noon is an instant that the tests start at.
var noon = time.Date(2025, 6, 11, 12, 0, 0, 0, time.UTC).UnixMilli()

func newMinter(t testing.TB, cfg evtid.MinterConfig) *evtid.Minter {
	t.Helper()
	m, err := evtid.NewMinter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// fixed is a clock that stands still until it is set.
type fixed struct{ atomic.Int64 }

func clock(ms int64) *fixed {
	c := new(fixed)
	c.Store(ms)
	return c
}

func mint(t testing.TB, m *evtid.Minter) evtid.ID {
	t.Helper()
	id, err := m.Mint()
	return must(t, id, err)
}

func TestMintTellsTimeAndNode(t *testing.T) {
	m := newMinter(t, evtid.MinterConfig{Node: 7, Now: clock(noon).Load})
	for seq := range 3 {
		id := mint(t, m)
		if id.UnixMilli() != noon || id.Node() != 7 || id.Seq() != seq {
			t.Errorf("got %d, node %d, sequence %d", id.UnixMilli(), id.Node(), id.Seq())
		}
	}
}

func TestMintOnTheSystemClock(t *testing.T) {
	m := newMinter(t, evtid.MinterConfig{})
	before := time.Now().UnixMilli()
	id := mint(t, m)
	if id.UnixMilli() < before || id.UnixMilli() > time.Now().UnixMilli() {
		t.Errorf("%s was not minted now", id.Time())
	}
}

func TestBurstCarriesIntoTheNextMillisecond(t *testing.T) {
	const burst = 100_000
	m := newMinter(t, evtid.MinterConfig{Node: evtid.MaxNode, Now: clock(noon).Load})
	last := evtid.ID{}
	for range burst {
		id := mint(t, m)
		if !last.Less(id) || id.Node() != evtid.MaxNode {
			t.Fatalf("%s after %s", id, last)
		}
		last = id
	}
	if want := noon + (burst-1)/(evtid.MaxSeq+1); last.UnixMilli() != want {
		t.Errorf("the burst ends at %d, want %d: sequence numbers were left out", last.UnixMilli(), want)
	}
}

// together runs f for each of eight callers at once.
func together(f func(caller int)) {
	begin := make(chan struct{})
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			<-begin
			f(caller)
		})
	}
	close(begin)
	group.Wait()
}

const callers = 8

// Eight callers and a clock that stands still get each position once and leave
// none out.
func TestConcurrentMintsShareNoID(t *testing.T) {
	const each = 500_000
	m := newMinter(t, evtid.MinterConfig{Now: clock(noon).Load})
	got := make([][]uint32, callers)
	together(func(caller int) {
		positions := make([]uint32, each)
		for i := range positions {
			id, err := m.Mint()
			if err != nil {
				t.Error(err)
				return
			}
			positions[i] = uint32(id.UnixMilli()-noon)<<12 | uint32(id.Seq())
		}
		got[caller] = positions
	})
	times := make([]uint8, callers*each)
	for caller, positions := range got {
		for i, p := range positions {
			if i > 0 && p <= positions[i-1] {
				t.Fatalf("caller %d: position %d after %d", caller, p, positions[i-1])
			}
			if int(p) >= len(times) {
				t.Fatalf("caller %d: position %d of %d: some were left out", caller, p, len(times))
			}
			if times[p]++; times[p] > 1 {
				t.Fatalf("position %d was minted twice", p)
			}
		}
	}
}

// Eight callers, a clock that steps by seconds and by an hour both ways, and a
// seed in the middle: no id twice, none out of a caller's order, none at or
// below the seed once a caller has set it.
func TestConcurrentMintsUnderAClockThatSteps(t *testing.T) {
	const each = 20_000
	c := clock(noon)
	m := newMinter(t, evtid.MinterConfig{Node: 3, MaxSkew: 4 * time.Hour, Now: c.Load})
	top, err := evtid.Make(noon+2*3_600_000, 9, 17)
	must(t, top, err)
	steps := []int64{0, 5_000, -5_000, 3_600_000, -3_600_000, 1}

	minted := make([][]evtid.ID, callers)
	together(func(caller int) {
		for i := range each {
			if i%997 == caller {
				c.Store(noon + steps[(i/997+caller)%len(steps)])
			}
			if i == each/2 {
				if err := m.Seed(top); err != nil {
					t.Error(err)
				}
			}
			id, err := m.Mint()
			if err != nil {
				t.Error(err)
				return
			}
			minted[caller] = append(minted[caller], id)
		}
	})
	var all []evtid.ID
	for caller, ids := range minted {
		for i := range ids {
			if i > 0 && !ids[i-1].Less(ids[i]) {
				t.Fatalf("caller %d: %s after %s", caller, ids[i], ids[i-1])
			}
			if i >= each/2 && !top.Less(ids[i]) {
				t.Fatalf("caller %d: %s is not above the seed %s", caller, ids[i], top)
			}
		}
		all = append(all, ids...)
	}
	slices.SortFunc(all, evtid.ID.Compare)
	if n := len(slices.Compact(all)); n != callers*each {
		t.Errorf("%d ids, %d of them different", callers*each, n)
	}
	if all[0].UnixMilli() >= top.UnixMilli() {
		t.Error("nothing was minted below the seed: the test did not see it work")
	}
}

// Any sequence of clock steps, seeds and mints: every id lies above all former
// ids and all accepted seeds, and never further ahead of the clock than allowed.
func TestMintAgainstItsRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := clock(noon)
		maxSkew := rapid.SampledFrom([]int64{1, 50, 60_000}).Draw(t, "max skew")
		m, err := evtid.NewMinter(evtid.MinterConfig{
			Node: rapid.SampledFrom([]int{0, 5, evtid.MaxNode}).Draw(t, "node"), MaxSkew: time.Duration(maxSkew) * time.Millisecond, Now: c.Load,
		})
		if err != nil {
			t.Fatal(err)
		}
		var high evtid.ID
		t.Repeat(map[string]func(*rapid.T){
			"step": func(t *rapid.T) { c.Add(rapid.Int64Range(-2*maxSkew, 2*maxSkew).Draw(t, "by")) },
			"seed": func(t *rapid.T) {
				top, err := evtid.Make(c.Load()+rapid.Int64Range(-maxSkew, 2*maxSkew).Draw(t, "ahead"), rapid.IntRange(0, evtid.MaxNode).Draw(t, "top node"), rapid.IntRange(0, evtid.MaxSeq).Draw(t, "top seq"))
				if err != nil {
					t.Fatal(err)
				}
				err = m.Seed(top)
				if tooFar := top.UnixMilli()-c.Load() > maxSkew; tooFar != (err != nil) {
					t.Fatalf("seed %d ms ahead of the clock, limit %d: %v", top.UnixMilli()-c.Load(), maxSkew, err)
				}
				if err == nil && high.Less(top) {
					high = top
				}
			},
			"mint": func(t *rapid.T) {
				id, err := m.Mint()
				var skew *evtid.SkewError
				switch {
				case errors.As(err, &skew):
					if !high.Less(skew.ID) || skew.ID.UnixMilli()-c.Load() <= maxSkew {
						t.Fatalf("refused %s above %s at %d: %v", skew.ID, high, c.Load(), err)
					}
				case err != nil:
					t.Fatal(err)
				case !high.Less(id) || id.UnixMilli()-c.Load() > maxSkew:
					t.Fatalf("minted %s above %s at %d", id, high, c.Load())
				default:
					high = id
				}
			},
		})
	})
}

func TestSeedStartsALaterMillisecond(t *testing.T) {
	const node = 5
	for _, topNode := range []int{0, node - 1, node, node + 1, evtid.MaxNode} {
		for _, seq := range []int{0, evtid.MaxSeq} {
			top, err := evtid.Make(noon, topNode, seq)
			must(t, top, err)
			m := newMinter(t, evtid.MinterConfig{Node: node, Now: clock(noon - 5_000).Load})
			if err := m.Seed(top); err != nil {
				t.Fatal(err)
			}
			if id := mint(t, m); id.UnixMilli() != noon+1 || id.Seq() != 0 || id.Node() != node {
				t.Errorf("after %s comes %d, node %d, sequence %d", top.Entry(), id.UnixMilli(), id.Node(), id.Seq())
			}
		}
	}
}

func TestSeedBelowChangesNothing(t *testing.T) {
	m := newMinter(t, evtid.MinterConfig{Now: clock(noon).Load})
	first := mint(t, m)
	for _, top := range []evtid.ID{{}, parse(t, "EVT00000000000"), first.Prev()} {
		if err := m.Seed(top); err != nil {
			t.Fatal(err)
		}
	}
	old, err := evtid.Make(noon-1, evtid.MaxNode, evtid.MaxSeq)
	if err := m.Seed(must(t, old, err)); err != nil {
		t.Fatal(err)
	}
	if next := mint(t, m); next != first.Next() {
		t.Errorf("after %s comes %s", first, next)
	}
}

func TestSeedTooFarAhead(t *testing.T) {
	c := clock(noon)
	m := newMinter(t, evtid.MinterConfig{Now: c.Load})
	top, err := evtid.Make(noon+evtid.DefaultMaxSkew.Milliseconds()+1, 42, 0)
	must(t, top, err)
	err = m.Seed(top)
	var skew *evtid.SkewError
	if !errors.As(err, &skew) || skew.ID != top || skew.Skew != evtid.DefaultMaxSkew+time.Millisecond || skew.Max != evtid.DefaultMaxSkew {
		t.Fatalf("%v", err)
	}
	if !strings.Contains(err.Error(), top.String()) || !strings.Contains(err.Error(), "node 42") || !strings.Contains(err.Error(), "1m0.001s") {
		t.Errorf("the message hides the id, its node or the skew: %v", err)
	}
	if id := mint(t, m); id.UnixMilli() != noon {
		t.Errorf("the refused seed was taken: %s", id.Entry())
	}
	c.Add(1)
	if err := m.Seed(top); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}

// A clock that is set back by more than MaxSkew stops the mint; when it is near
// enough again, minting goes on above everything minted before.
func TestMintStopsAndGoesOn(t *testing.T) {
	c := clock(noon)
	m := newMinter(t, evtid.MinterConfig{MaxSkew: time.Second, Now: c.Load})
	last := mint(t, m)
	c.Store(noon - 3_600_000)
	for range 3 {
		_, err := m.Mint()
		var skew *evtid.SkewError
		if !errors.As(err, &skew) || skew.Skew != time.Hour || !last.Less(skew.ID) {
			t.Fatalf("an hour back: %v", err)
		}
	}
	c.Store(noon - 1_000)
	if id := mint(t, m); id != last.Next() {
		t.Errorf("after %s comes %s", last, id)
	}
}

func TestClockOutsideTheRange(t *testing.T) {
	for _, now := range []int64{math.MinInt64, -1, 0, evtid.EpochMillis - 60_001} {
		m := newMinter(t, evtid.MinterConfig{Now: clock(now).Load})
		_, err := m.Mint()
		var skew *evtid.SkewError
		if !errors.As(err, &skew) || skew.Skew < evtid.DefaultMaxSkew {
			t.Errorf("clock at %d, long before 2024: %v", now, err)
		}
		if err := m.Seed(parse(t, "EVT0KHTOWnGLuC")); !errors.As(err, &skew) || skew.Skew < evtid.DefaultMaxSkew {
			t.Errorf("clock at %d: seed: %v", now, err)
		}
	}
	m := newMinter(t, evtid.MinterConfig{Now: clock(evtid.EpochMillis - 60_000).Load})
	if id := mint(t, m); id.UnixMilli() != evtid.EpochMillis {
		t.Errorf("within the limit before 2024: %s", id.Entry())
	}
	for _, now := range []int64{evtid.MaxMillis + 1, evtid.EpochMillis + 1<<52, math.MaxInt64} {
		m := newMinter(t, evtid.MinterConfig{Now: clock(now).Load})
		if id, err := m.Mint(); !errors.Is(err, evtid.ErrOverflow) {
			t.Errorf("clock at %d, after 2093: %s, %v", now, id, err)
		}
	}
	m = newMinter(t, evtid.MinterConfig{Now: clock(evtid.MaxMillis).Load})
	if err := m.Seed(evtid.Max); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if id, err := m.Mint(); !errors.Is(err, evtid.ErrOverflow) {
			t.Errorf("above the largest id: %s, %v", id, err)
		}
	}
}

func TestNewMinterRefuses(t *testing.T) {
	for _, node := range []int{-1, evtid.MaxNode + 1, math.MinInt, math.MaxInt} {
		_, err := evtid.NewMinter(evtid.MinterConfig{Node: node})
		var ne *evtid.NodeError
		if !errors.As(err, &ne) || ne.Node != node {
			t.Errorf("node %d: %v", node, err)
		}
	}
	_, err := evtid.NewMinter(evtid.MinterConfig{MaxSkew: -time.Second})
	var se *evtid.SkewLimitError
	if !errors.As(err, &se) || se.MaxSkew != -time.Second {
		t.Errorf("negative MaxSkew: %v", err)
	}
}
