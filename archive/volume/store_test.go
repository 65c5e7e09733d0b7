package volume

import (
	"testing"

	"github.com/evtlog/evtlog/archive"
)

func child(string) int { return 0 }

func TestSmoke(t *testing.T) {
	s := open(t)
	fold(t, s, feed, 1, 10)
	fold(t, s, feed, 11, 2000)
	fold(t, s, other, 1, 3)
	wantRead(t, s, feed, archive.Range{}, recs(1, 2000))
	wantRead(t, s, feed, archive.Range{Reverse: true}, reversed(recs(1, 2000)))
	wantRead(t, s, feed, archive.Range{After: id(500), To: id(1500), Reverse: true}, reversed(recs(501, 1500)))
	wantRead(t, s, feed, archive.Range{After: id(500), To: id(1500)}, recs(501, 1500))
	n := 0
	for c, err := range s.Commits(t.Context(), feed, 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		n += c.Count
	}
	if n != 2000 {
		t.Fatal(n)
	}
}
