package volume

import (
	"context"
	"iter"

	"github.com/evtlog/evtlog"
)

// copyChunk is about how many bytes of commits are taken out of the file in one
// transaction.
const copyChunk = 1 << 20

// Report is what Verify has found to be right.
type Report struct {
	// Head is the state that was verified.
	Head Head
	// Commits, Records and Bytes (of the pages) were read.
	Commits, Records, Bytes uint64
}

// Verify reads a whole volume, as it is when the call begins, and computes
// every checksum and the chain anew. The error is a *CorruptError that names
// the first commit that does not fit, and the volume serves nothing more until
// it was repaired. The Report then tells how far all was right. Folds and reads
// go on meanwhile.
func (s *Store) Verify(ctx context.Context, stream evtlog.StreamName) (Report, error) {
	w := &walk{stream: stream}
	for !w.ended {
		err := s.ready(ctx, stream)
		if err == nil {
			err = s.viewRaw(stream, func(v *vol, last row) error {
				size := 0
				return w.forward(v, last, func(r row, data []byte) bool {
					w.report.Commits, w.report.Records, w.report.Bytes = r.lsn, r.end()-ArchiveBase, r.total
					size += len(data)
					return size < copyChunk
				})
			})
		}
		if err != nil {
			return w.report, err
		}
	}
	return w.report, nil
}

// walk goes through the commits of a volume in order and checks each against
// the one before it.
type walk struct {
	stream evtlog.StreamName
	// report.Head is the head when the walk began.
	report  Report
	started bool
	ended   bool
	// prev is the row of the commit before the next one.
	prev row
	buf  []byte
}

// forward visits commits until visit has enough. data is valid until the next
// visit.
func (w *walk) forward(v *vol, last row, visit func(r row, data []byte) bool) (err error) {
	if !w.started {
		w.started = true
		w.report.Head = last.head(w.stream)
	}
	if err := w.resume(v, last); err != nil {
		return err
	}
	for more := true; more; {
		if w.prev.lsn >= w.report.Head.LSN {
			w.ended = true
			return w.end(v)
		}
		r, err := v.rowAt(w.prev.lsn + 1)
		if err != nil {
			return err
		}
		if w.buf, err = v.rebuild(w.buf[:0], r); err != nil {
			return err
		}
		if reason := follows(w.prev, r, w.buf); reason != "" {
			return v.corrupt(r.lsn, 0, reason)
		}
		w.prev = r
		more = visit(r, w.buf)
	}
	return nil
}

// resume checks that the volume is still the one that the walk began with.
func (w *walk) resume(v *vol, last row) error {
	if last.lsn < w.report.Head.LSN {
		return replaced(w.stream)
	}
	if w.prev.lsn == 0 {
		return nil
	}
	r, err := v.rowAt(w.prev.lsn)
	if err == nil && r != w.prev {
		err = replaced(w.stream)
	}
	return err
}

// follows says why r, with its canonical bytes, cannot stand behind prev.
func follows(prev, r row, data []byte) string {
	view, ok := parseCommitHeader(data)
	if !ok {
		return "the commit cannot be rebuilt"
	}
	switch want := prev.next(view, r.index, r.term); {
	case r.prev != prev.watermark:
		return "the commit does not start from the watermark before it"
	case r.chain != want.chain:
		return "the chain does not match"
	case r != want:
		return "the row does not match its commit"
	case r.index != 0 && (r.index <= prev.index || r.term < prev.term):
		return "the position in the replicated log does not increase"
	}
	return ""
}

// end checks that nothing lies behind the end of a volume that has not grown.
func (w *walk) end(v *vol) error {
	if w.prev.head(w.stream) != w.report.Head {
		return v.corrupt(w.prev.lsn, 0, "the head is not the last commit")
	}
	if v.pages == nil {
		return nil
	}
	last, err := v.last()
	if err != nil || last.lsn != w.prev.lsn {
		return err
	}
	if key, _ := v.pages.Cursor().Last(); !isKey(key, last.end()-1) {
		return v.corrupt(last.lsn, last.end(), "pages lie behind the last commit")
	}
	return nil
}

// Commits returns the commits with after < LSN <= to in order; to 0 means the
// head when the call begins. Every page, and the chain from one commit to the
// next, is checked, so that no damage is copied on. The sequence ends after the
// first error, a *CorruptError for damage. Data belongs to the receiver. No
// transaction is open while the receiver works.
func (s *Store) Commits(ctx context.Context, stream evtlog.StreamName, after, to uint64) iter.Seq2[Commit, error] {
	return func(yield func(Commit, error) bool) {
		w := &walk{stream: stream}
		for !w.ended {
			var chunk []Commit
			err := s.ready(ctx, stream)
			if err == nil {
				err = s.viewVolume(stream, func(v *vol, last row) (err error) {
					chunk, err = w.copy(v, last, after, to)
					return err
				})
			}
			for _, c := range chunk {
				if !yield(c, nil) {
					return
				}
			}
			if err != nil {
				yield(Commit{}, err)
				return
			}
		}
	}
}

// copy copies about copyChunk bytes of commits.
func (w *walk) copy(v *vol, last row, after, to uint64) (chunk []Commit, err error) {
	if !w.started {
		if to > 0 && to < last.lsn {
			if last, err = v.rowAt(to); err != nil {
				return nil, err
			}
		}
		if after >= last.lsn {
			w.ended = true
			return nil, nil
		}
		if after > 0 {
			if w.prev, err = v.rowAt(after); err != nil {
				return nil, err
			}
		}
	}
	size := 0
	err = w.forward(v, last, func(r row, data []byte) bool {
		// The next commit needs a buffer of its own.
		w.buf = nil
		chunk = append(chunk, Commit{
			LSN: r.lsn, Prev: r.prev, Watermark: r.watermark, Count: int(r.count),
			Index: r.index, Term: r.term, Chain: r.chain, Data: data,
		})
		size += len(data)
		return size < copyChunk
	})
	return chunk, err
}
