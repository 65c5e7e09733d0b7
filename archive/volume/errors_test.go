package volume

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"go.etcd.io/bbolt"
)

// An error names what failed, the value, and the next step.
func TestErrorsSayWhatToDo(t *testing.T) {
	cause := errors.New("the cause")
	for _, tt := range []struct {
		err  error
		is   []error
		says []string
	}{
		{&CorruptError{Path: "/a.db", Reason: "torn"}, []error{archive.ErrCorrupt}, []string{"/a.db", "torn", "Quarantine"}},
		{&CorruptError{Stream: feed, LSN: 4, Page: 77, Reason: "torn"}, []error{archive.ErrCorrupt}, []string{"cm/feed", "commit 4", "page 77", "torn"}},
		{&FormatError{Path: "/a.db"}, []error{ErrFormat}, []string{"/a.db", "another program"}},
		{&FormatError{Path: "/a.db", Version: 9}, []error{ErrFormat}, []string{"/a.db", "version 9", "reads 1"}},
		{&HeadConflictError{Base: Head{Stream: feed, LSN: 3}, Head: Head{Stream: feed, LSN: 5, Watermark: id(2)}}, []error{archive.ErrConflict}, []string{"cm/feed", "3", "5", id(2).String()}},
		{&FullError{Path: "/a.db", Err: cause}, []error{ErrFull, cause}, []string{"/a.db", "the cause", "make room"}},
		{&FailedError{Path: "/a.db", Err: cause}, []error{ErrFailed, cause}, []string{"/a.db", "the cause", "open"}},
		{checkDiskAs("NFS"), []error{ErrNetworkDisk}, []string{"/a.db", "NFS", "AllowNetworkDisk"}},
	} {
		for _, target := range tt.is {
			if !errors.Is(tt.err, target) {
				t.Errorf("%v is not %v", tt.err, target)
			}
		}
		for _, part := range tt.says {
			if !strings.Contains(tt.err.Error(), part) {
				t.Errorf("%q does not say %q", tt.err, part)
			}
		}
	}
}

func checkDiskAs(kind string) error { return refuseDisk("/a.db", kind, false) }

// A fold that runs into damage while it is written does not drag along those
// that share its transaction.
func TestDamageInAGroup(t *testing.T) {
	s, err := Open(t.TempDir()+"/archive.db", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, release := holdUp(t, s)
	var wg sync.WaitGroup
	answers := make(chan error, 2)
	wg.Go(func() {
		answers <- second(s.Fold(t.Context(), evtlog.StreamName{Queue: "q", Name: "a"}, id(0), recs(1, 2)))
	})
	waitFor(t, func() bool { return queued(s) == 1 })
	// Bytes that make the writer panic, as a damaged page makes bbolt.
	bad := &request{stream: feed, data: new([]byte), done: make(chan struct{})}
	s.enqueue(bad)
	wg.Go(func() {
		answers <- second(s.Fold(t.Context(), evtlog.StreamName{Queue: "q", Name: "b"}, id(0), recs(1, 2)))
	})
	waitFor(t, func() bool { return queued(s) == 3 })
	release()
	wg.Wait()
	for range 2 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if <-bad.done; !errors.Is(bad.err, archive.ErrCorrupt) {
		t.Errorf("the fold into damage: %v", bad.err)
	}
	if heads, _ := s.Volumes(t.Context()); len(heads) != 3 {
		t.Errorf("volumes %v", heads)
	}
}

// A page number that is taken by something else is damage too.
func TestFoldOntoABucket(t *testing.T) {
	s := openFilled(t, 1, 5)
	err := s.db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.Bucket(bucketVolumes).Bucket(volumeKey(feed)).Bucket(bucketPages).CreateBucket([]byte{0, 2, 0, 0, 0, 0, 0, 6})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Fold(t.Context(), feed, id(5), recs(6, 9)); !errors.Is(err, archive.ErrCorrupt) {
		t.Errorf("fold: %v", err)
	}
	fold(t, s, other, 6, 7)
}
