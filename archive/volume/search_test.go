package volume

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

// search runs firstAbove over ids and counts the reads.
func search(ids []uint64, x uint64) (got uint64, reads int) {
	last := uint64(0)
	if len(ids) > 0 {
		last = ids[len(ids)-1]
	}
	got, _ = firstAbove(x, uint64(len(ids)), last, func(n uint64) (uint64, error) {
		reads++
		return ids[n], nil
	})
	return got, reads
}

func TestFirstAbove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfDistinct(rapid.Uint64Max(math.MaxInt64), rapid.ID).Draw(t, "ids")
		slices.Sort(ids)
		x := rapid.Uint64Max(math.MaxInt64).Draw(t, "x")
		if len(ids) > 0 && rapid.Bool().Draw(t, "near") {
			x = rapid.SampledFrom(ids).Draw(t, "at") + rapid.SampledFrom([]uint64{0, 1, math.MaxUint64}).Draw(t, "off")
		}
		got, _ := search(ids, x)
		want := sort.Search(len(ids), func(i int) bool { return ids[i] > x })
		if int(got) != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}

func TestFirstAboveIsShort(t *testing.T) {
	const n = 1_000_000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	even, bursts, steep := make([]uint64, n), make([]uint64, n), make([]uint64, 62)
	for i := range even {
		even[i] = uint64(i)<<22 | rng.Uint64N(1<<22)
		bursts[i] = uint64(i/1000)<<50/1024 + uint64(i%1000)
	}
	for i := range steep {
		steep[i] = 1 << i
	}
	for _, tt := range []struct {
		name string
		ids  []uint64
		mean float64
		most int
	}{{"even", even, 14, 40}, {"bursts", bursts, 30, 60}, {"steep", steep, 13, 18}} {
		total, most := 0, 0
		for range 2000 {
			_, reads := search(tt.ids, tt.ids[rng.IntN(len(tt.ids))])
			total += reads
			most = max(most, reads)
		}
		if mean := float64(total) / 2000; mean > tt.mean || most > tt.most {
			t.Errorf("%s: %.1f reads in the mean, %d at most", tt.name, mean, most)
		}
	}
}

func TestFirstAboveStopsAtAnError(t *testing.T) {
	boom := errors.New("boom")
	for fail := range 4 {
		reads := 0
		_, err := firstAbove(40, 100, 99, func(n uint64) (uint64, error) {
			if reads++; reads > fail {
				return 0, boom
			}
			return n * n / 100, nil
		})
		if !errors.Is(err, boom) {
			t.Errorf("error at read %d: %v", fail, err)
		}
	}
}

// Ids that do not increase, as a damaged file has, must not make the search
// endless or send it out of the file.
func TestFirstAboveOverNonsense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.Uint64(), 1, 300).Draw(t, "ids")
		got, reads := search(ids, rapid.Uint64().Draw(t, "x"))
		if got > uint64(len(ids)) || reads > 3*300 {
			t.Fatalf("found %d of %d with %d reads", got, len(ids), reads)
		}
	})
}
