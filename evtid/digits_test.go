package evtid_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/evtlog/evtlog/evtid"
)

// slowly writes both forms one digit at a time.
func slowly(t *testing.T, id evtid.ID) (branded, entry string) {
	t.Helper()
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	v := id.Snowflake()
	for len(branded) < 11 {
		branded = string(digits[v%62]) + branded
		v /= 62
	}
	return "EVT" + branded, strconv.FormatInt(id.UnixMilli(), 10) + "-" + strconv.FormatUint(id.Snowflake()&evtid.MaxTail, 10)
}

// Digits in pairs are the same digits, at each length of the tail, at the seams
// between the parts, and anywhere else.
func TestDigitsInPairs(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	payloads := []uint64{0, evtid.MaxSnowflake, evtid.MaxSnowflake - 1}
	for _, base := range []uint64{10, 62} {
		for power := uint64(1); power <= evtid.MaxSnowflake/base; power *= base {
			payloads = append(payloads, power-1, power, power+1, 2*power-1)
		}
	}
	for range 100_000 {
		payloads = append(payloads, rnd.Uint64N(evtid.MaxSnowflake+1)>>rnd.IntN(63))
	}
	for _, v := range payloads {
		if v > evtid.MaxSnowflake {
			continue
		}
		id, err := evtid.FromSnowflake(v)
		if err != nil {
			t.Fatal(err)
		}
		branded, entry := slowly(t, id)
		if got := string(id.AppendTo([]byte("x"))); got != "x"+branded {
			t.Errorf("%d is written %s, want x%s", v, got, branded)
		}
		if got := string(id.AppendEntry([]byte("x"))); got != "x"+entry {
			t.Errorf("%d is written %s, want x%s", v, got, entry)
		}
	}
}

// What stands in front is kept, whether or not there is room behind it.
func TestAppendEntryKeepsWhatStandsInFront(t *testing.T) {
	id := parse(t, "EVT0KHTOWnGLuC")
	for room := range 40 {
		dst := append(make([]byte, 0, 3+room), "abc"...)
		if got := string(id.AppendEntry(dst)); got != "abc"+id.Entry() || !strings.HasPrefix(got, "abc1") {
			t.Errorf("with room for %d: %s", room, got)
		}
	}
}
