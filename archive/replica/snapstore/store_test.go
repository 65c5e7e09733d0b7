package snapstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/manifest"
)

// node is what the store is told about the volumes: covered up to an LSN.
type node struct{ lsn uint64 }

func (n *node) missing(m manifest.Manifest) ([]manifest.Gap, error) {
	var gaps []manifest.Gap
	for _, v := range m.Volumes {
		if v.LSN > n.lsn {
			gaps = append(gaps, manifest.Gap{Want: v, After: n.lsn})
		}
	}
	return gaps, nil
}

func open(t *testing.T, dir string, n *node) *Store {
	t.Helper()
	s, err := Open(Config{Dir: dir, Missing: n.missing})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t *testing.T, s *Store, index, lsn uint64, own bool) string {
	t.Helper()
	sink, err := s.Create(1, index, 1, raft.Configuration{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if own {
		sink.(*Sink).MarkOwn()
	}
	m := manifest.Manifest{Volumes: []manifest.Volume{{Stream: evtlog.StreamName{Queue: "q", Name: "s"}, LSN: lsn}}}
	if _, err := sink.Write(m.Encode()); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	return sink.ID()
}

func listed(t *testing.T, s *Store) (out []uint64) {
	t.Helper()
	metas, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range metas {
		out = append(out, m.Index)
	}
	return out
}

func TestReceivedStaysPendingUntilCovered(t *testing.T) {
	n := &node{lsn: 10}
	dir := t.TempDir()
	s := open(t, dir, n)
	write(t, s, 100, 10, true)
	id := write(t, s, 500, 50, false)
	if got := fmt.Sprint(listed(t, s)); got != "[100]" {
		t.Fatalf("listed %s while the content of 500 is missing", got)
	}
	// raft opens it all the same, to restore from it.
	_, r, err := s.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if m, derr := manifest.Decode(b); err != nil || derr != nil || m.Volumes[0].LSN != 50 {
		t.Fatalf("%v, %v, %v", m, err, derr)
	}
	// Failed installs, one after the other, never push the node's own out.
	for i := range uint64(5) {
		write(t, s, 600+i, 60+i, false)
	}
	if got := fmt.Sprint(listed(t, open(t, dir, n))); got != "[100]" {
		t.Fatalf("listed %s after failed installs", got)
	}
	n.lsn = 64
	if got := fmt.Sprint(listed(t, s)); got != "[604 100]" {
		t.Fatalf("listed %s once the content is there", got)
	}
}

// After a failed install, a new leader may send a snapshot older than the one that
// is pending. It was deleted at once, and the node could not catch up until the
// leader took another.
func TestOlderThanThePendingCanBeOpened(t *testing.T) {
	s := open(t, t.TempDir(), &node{lsn: 10})
	write(t, s, 100, 10, true)
	write(t, s, 290, 50, false)
	id := write(t, s, 288, 48, false)
	if _, _, err := s.Open(id); err != nil {
		t.Fatalf("raft could not open what it had just received: %v", err)
	}
}

func TestOwnSnapshotsReplaceEachOther(t *testing.T) {
	s := open(t, t.TempDir(), &node{lsn: 100})
	for i := range uint64(6) {
		write(t, s, 10+i, i, true)
	}
	if got := fmt.Sprint(listed(t, s)); got != "[15 14]" {
		t.Errorf("listed %s", got)
	}
}

func TestDamagedFileIsSetAside(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &node{lsn: 100})
	write(t, s, 10, 1, true)
	id := write(t, s, 20, 1, true)
	path := filepath.Join(dir, id)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-100] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if files, bad := Check(dir); files != 2 || len(bad) != 1 || !errors.Is(bad[0], ErrBadFile) {
		t.Errorf("check: %d, %v", files, bad)
	}
	if got := fmt.Sprint(listed(t, s)); got != "[10]" {
		t.Errorf("listed %s", got)
	}
	if _, err := os.Stat(path + ".damaged"); err != nil {
		t.Errorf("the damaged file was not kept: %v", err)
	}
}

func TestSinkRefusesWhatIsNoManifest(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir(), Missing: (&node{}).missing, Accept: func(m manifest.Manifest) error {
		return api.Identity{Cluster: "ours"}.Matches(m.Identity)
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"rubbish":              []byte("rubbish"),
		"another cluster's":    manifest.Manifest{Identity: api.Identity{Cluster: "theirs"}}.Encode(),
		"a manifest cut short": manifest.Manifest{}.Encode()[:20],
	} {
		sink, err := s.Create(1, 5, 1, raft.Configuration{}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sink.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := sink.Close(); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	sink, err := s.Create(1, 5, 1, raft.Configuration{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sink.Cancel(), sink.Close()); err != nil {
		t.Error(err)
	}
	if got := listed(t, s); len(got) != 0 {
		t.Errorf("listed %v", got)
	}
	if _, _, err := s.Open("../x.snapshot"); err == nil {
		t.Error("a path was taken for an id")
	}
}

func TestReapable(t *testing.T) {
	own := func(i uint64, covered bool) entry {
		return entry{name: fmt.Sprint("o", i), index: i, own: true, covered: covered}
	}
	recv := func(i uint64, covered bool) entry { return entry{name: fmt.Sprint("r", i), index: i, covered: covered} }
	for _, c := range []struct {
		name string
		in   []entry
		// written is the newest file.
		written string
		want    string
	}{
		{"own ones that the volumes lost", []entry{own(5, false), own(4, false), own(3, false)}, "o5", "[o3]"},
		{"covered install above the own", []entry{recv(9, true), own(5, true), own(4, true)}, "r9", "[]"},
		{"old installs", []entry{recv(9, true), recv(8, true), recv(7, false), own(5, true)}, "r9", "[r8 r7]"},
		{"pending above all", []entry{recv(12, false), recv(11, false), recv(9, true), own(5, true)}, "r12", "[r11]"},
		{"a new leader sends an older one", []entry{recv(12, false), recv(11, false), own(5, true)}, "r11", "[]"},
		{"an older one of which the content is there", []entry{recv(12, false), recv(9, true), recv(8, true), own(5, true)}, "r8", "[]"},
	} {
		var got []string
		for _, e := range reapable(c.in, 2, c.written) {
			got = append(got, e.name)
		}
		if s := fmt.Sprint(got); s != c.want {
			t.Errorf("%s: reaped %s, want %s", c.name, s, c.want)
		}
	}
}
