package volume

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"go.etcd.io/bbolt"
)

// update writes testdata/v1.db anew. A file of a released version is never
// written again: a new version gets a file of its own.
var update = flag.Bool("update", false, "write the golden file anew")

func mustID(t testing.TB, s string) evtid.ID {
	t.Helper()
	v, err := evtid.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// docExample are the records of the worked example in the format page.
func docExample(t testing.TB) []evtlog.Record {
	first := mustID(t, "EVT0KHTOWnGLuC")
	return []evtlog.Record{
		{ID: first, Fields: []evtlog.Field{evtlog.F("event", "scored"), evtlog.F("pct", "83")}},
		{ID: first.Next(), Unbranded: true},
	}
}

// The worked example of the format page is what the code writes.
func TestFormatPageExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats/volume.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks [][]byte
	for _, block := range regexp.MustCompile("(?s)```hex\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		var b []byte
		for line := range strings.Lines(block[1]) {
			// The hex digits stand in the first 37 columns.
			digits := strings.Join(strings.Fields(line[:min(37, len(line))]), "")
			raw, err := hex.DecodeString(digits)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			b = append(b, raw...)
		}
		blocks = append(blocks, b)
	}
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of hex, want 2", len(blocks))
	}
	data := encode(t, feed, evtid.ID{}, docExample(t))
	if !bytes.Equal(blocks[0], data) {
		t.Errorf("the page says\n%x, the code writes\n%x", blocks[0], data)
	}
	s := open(t)
	if _, err := s.Fold(t.Context(), feed, evtid.ID{}, docExample(t)); err != nil {
		t.Fatal(err)
	}
	err = s.viewVolume(feed, func(v *vol, last row) error {
		if line := v.bucket.Get(keyHead); !bytes.Equal(blocks[1], line) {
			t.Errorf("the page says\n%x, the code writes\n%x", blocks[1], line)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// goldenFolds are the folds in testdata/v1.db.
func goldenFolds(t testing.TB) map[evtlog.StreamName][][]evtlog.Record {
	odd := []evtlog.Record{
		{ID: mustID(t, "EVT00000000000"), Fields: []evtlog.Field{evtlog.F("", ""), evtlog.F("\x00\xff", "bytes \xfe"), evtlog.F("long", strings.Repeat("é", 5000))}},
		{ID: evtid.Max, Fields: []evtlog.Field{evtlog.F("same", "1"), evtlog.F("same", "2")}},
	}
	return map[evtlog.StreamName][][]evtlog.Record{
		feed:                          {docExample(t)},
		{Queue: "cm", Name: "odd"}:    {odd[:1], odd[1:]},
		{Queue: "größe", Name: "n-1"}: {recs(1, 3), recs(4, 4), recs(5, 60)},
	}
}

const (
	goldenFile = "testdata/v1.db"
	goldenID   = "578c32b5a19834ddc5d9f119d0a1182d"
)

func TestGoldenFile(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	path := filepath.Join(t.TempDir(), "v1.db")
	b, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path, Options{})
	if s.ID() != goldenID {
		t.Errorf("store id %s", s.ID())
	}
	volumes := len(goldenFolds(t))
	for stream, folds := range goldenFolds(t) {
		all := slices.Concat(folds...)
		wantRead(t, s, stream, archive.Range{}, all)
		h, err := s.Begin(t.Context(), stream)
		if err != nil || h.LSN != uint64(len(folds)) {
			t.Errorf("%s: %+v %v", stream, h, err)
		}
		if want := goldenChains[stream]; hex.EncodeToString(h.Chain[:]) != want {
			t.Errorf("%s: chain %x, want %s", stream, h.Chain, want)
		}
		lsn := 0
		for c, err := range s.Commits(t.Context(), stream, 0, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if got, err := c.Records(stream); err != nil || !same(got, folds[lsn]) {
				t.Errorf("%s: commit %d: %v %v", stream, c.LSN, got, err)
			}
			lsn++
		}
	}
	if heads, err := s.Volumes(t.Context()); err != nil || len(heads) != volumes {
		t.Errorf("volumes %v %v", heads, err)
	}
	err = s.View(func(tx *bbolt.Tx) error {
		list, err := ListQuarantined(tx)
		if err != nil || !slices.Equal(list, []Quarantined{{ID: 1, Stream: other}}) {
			t.Errorf("set aside: %v %v", list, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// It is not only read but gone on with.
	fold(t, s, evtlog.StreamName{Queue: "größe", Name: "n-1"}, 61, 99)
	fold(t, s, other, 1, 3)
}

func writeGolden(t *testing.T) {
	if err := os.Remove(goldenFile); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	s, err := Open(goldenFile, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for stream, folds := range goldenFolds(t) {
		var w evtid.ID
		for _, records := range folds {
			if w, err = s.Fold(t.Context(), stream, w, records); err != nil {
				t.Fatal(err)
			}
		}
		h, _ := s.Begin(t.Context(), stream)
		t.Logf("%s: %x", stream, h.Chain)
	}
	if _, err := s.Fold(t.Context(), other, id(0), recs(1, 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Quarantine(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	t.Logf("id %s", s.ID())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

var goldenChains = map[evtlog.StreamName]string{
	feed:                          "921bf85e8153a2cdb49cb02aa7baaa6834cd8bfa26778758625e265ae709878f",
	{Queue: "cm", Name: "odd"}:    "39adc66bb890f82928229df5da3af9948154f85949399816d283b75609f7fd50",
	{Queue: "größe", Name: "n-1"}: "1fb4db0cfc2e18a16cd955d41c569b963fe6ff31fc62837fb4074e1c978a4c61",
}
