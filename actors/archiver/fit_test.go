package archiver

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/command"
	"github.com/evtlog/evtlog/archive/volume"
)

// Whatever the records are, a fold of several fits into one entry of the
// replicated log; one that does not fit would be refused for ever.
func TestFoldsFitTheReplicatedLog(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	name := evtlog.StreamName{Queue: strings.Repeat("q", 128), Name: strings.Repeat("s", 128)}
	body := strings.Repeat("x", 1<<20)
	largest := 0
	for range 60 {
		page := make([]evtlog.Record, 1+rnd.IntN(30))
		// Sizes from nothing to a whole fold, many of them just about a part of one.
		most := maxBytes / (1 + rnd.IntN(5))
		for i := range page {
			page[i] = evtlog.Record{ID: id(i + 1), Unbranded: rnd.IntN(2) == 0}
			for range rnd.IntN(4) {
				page[i].Fields = append(page[i].Fields, evtlog.F(body[:rnd.IntN(3)], body[:max(0, most-rnd.IntN(300))/3]))
			}
		}
		for chunk := range chunks(page, maxBytes) {
			if len(chunk) == 1 {
				continue
			}
			commit, err := volume.EncodeCommit(nil, name, none, chunk)
			if err != nil {
				t.Fatal(err)
			}
			size := len(command.Command{Op: command.OpFold, Stream: name, Body: commit}.Append(nil))
			if largest = max(largest, size); size > command.MaxBytes {
				t.Fatalf("%d records make an entry of %d bytes, the limit is %d", len(chunk), size, command.MaxBytes)
			}
		}
	}
	if largest < command.MaxBytes*9/10 {
		t.Errorf("the largest entry had %d bytes: the limit was not tried", largest)
	}
}

// An entry of many empty fields is the worst case of the estimate.
func TestStoredIsNeverTooLittle(t *testing.T) {
	r := evtlog.Record{ID: id(1), Fields: make([]evtlog.Field, 10_000)}
	commit, err := volume.EncodeCommit(nil, feed, none, []evtlog.Record{r})
	if err != nil {
		t.Fatal(err)
	}
	if got := stored(r); got < len(commit) {
		t.Errorf("estimated %d bytes, stored as %d", got, len(commit))
	}
}
