package volume

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// fillPercent is how full bbolt fills its pages: keys only ever grow, so a
// split never has to leave room behind.
const fillPercent = 0.95

// Result is what became of a commit.
type Result struct {
	Verdict Verdict
	// Head is the volume's head afterwards.
	Head Head
	// Watermark is what a caller of Fold is to be told when the verdict is
	// Applied or Duplicate.
	Watermark evtid.ID
	// Err says why, for Malformed and Corrupt: a *CorruptError, or a
	// *keyspace.NameError for a stream that cannot be.
	Err error
}

// vol is one volume inside a transaction.
type vol struct {
	stream   evtlog.StreamName
	key      []byte
	rowSeed  uint32
	pageSeed uint32
	// The buckets are nil when the volume does not exist.
	bucket, pages, commits *bbolt.Bucket
}

// openVol finds the volume of a stream. A volume that does not exist is not an
// error. The error is a *CorruptError.
func openVol(tx *bbolt.Tx, stream evtlog.StreamName) (*vol, error) {
	v := newVol(stream)
	all := tx.Bucket(bucketVolumes)
	if all == nil {
		return nil, v.corrupt(0, 0, "the table of volumes is missing")
	}
	return v, v.attach(all.Bucket(v.key))
}

func newVol(stream evtlog.StreamName) *vol {
	v := &vol{stream: stream, key: volumeKey(stream)}
	v.rowSeed, v.pageSeed = rowSeed(v.key), pageSeed(v.key)
	return v
}

func (v *vol) attach(b *bbolt.Bucket) error {
	if b == nil {
		return nil
	}
	v.bucket, v.pages, v.commits = b, b.Bucket(bucketPages), b.Bucket(bucketCommits)
	if v.pages == nil || v.commits == nil {
		return v.corrupt(0, 0, "the volume lacks its pages or its commits")
	}
	return nil
}

func (v *vol) corrupt(lsn, page uint64, reason string) error {
	return &CorruptError{Stream: v.stream, LSN: lsn, Page: page, Reason: reason}
}

// create makes the volume's buckets.
func (v *vol) create(tx *bbolt.Tx) (err error) {
	if v.bucket != nil {
		return nil
	}
	if v.bucket, err = tx.Bucket(bucketVolumes).CreateBucket(v.key); err != nil {
		return err
	}
	if err := enter(tx, v.key, +1); err != nil {
		return err
	}
	if v.pages, err = v.bucket.CreateBucket(bucketPages); err != nil {
		return err
	}
	v.commits, err = v.bucket.CreateBucket(bucketCommits)
	return err
}

// last returns the row of the head; the zero row when nothing was committed. It
// is kept twice, and both copies are compared.
func (v *vol) last() (row, error) {
	if v.bucket == nil {
		return row{}, nil
	}
	head := v.bucket.Get(keyHead)
	key, value := v.commits.Cursor().Last()
	if head == nil || !bytes.Equal(head, value) {
		return row{}, v.corrupt(0, 0, "the head is not the last commit")
	}
	r, reason := parseRow(head, v.rowSeed)
	if reason == "" && !isKey(key, r.lsn) {
		reason = "the last commit has another number than its row"
	}
	if reason != "" {
		return row{}, v.corrupt(r.lsn, 0, reason)
	}
	return r, nil
}

// rowAt returns the row of a commit that must exist.
func (v *vol) rowAt(lsn uint64) (row, error) {
	var key [8]byte
	binary.BigEndian.PutUint64(key[:], lsn)
	value := v.commits.Get(key[:])
	if value == nil {
		return row{}, v.corrupt(lsn, 0, "the commit is missing")
	}
	r, reason := parseRow(value, v.rowSeed)
	if reason == "" && r.lsn != lsn {
		reason = "the commit has another number than its row"
	}
	if reason != "" {
		return row{}, v.corrupt(lsn, 0, reason)
	}
	return r, nil
}

// isKey reports whether a key is the number n.
func isKey(key []byte, n uint64) bool {
	return len(key) == 8 && binary.BigEndian.Uint64(key) == n
}

// append writes a commit behind the row of the head and returns its own.
func (v *vol) append(tx *bbolt.Tx, last row, c commitView, at Position) (row, error) {
	if err := v.create(tx); err != nil {
		return row{}, err
	}
	r := last.next(c, at.Index, at.Term)
	v.pages.FillPercent, v.commits.FillPercent = fillPercent, fillPercent
	var key [8]byte
	n := r.first
	for page := range c.pages() {
		binary.BigEndian.PutUint64(key[:], n)
		if err := v.pages.Put(key[:], page); errors.Is(err, berrors.ErrIncompatibleValue) {
			return row{}, v.corrupt(r.lsn, n, "the page is taken")
		} else if err != nil {
			return row{}, err
		}
		n++
	}
	line := appendRow(make([]byte, 0, rowSize), v.rowSeed, &r)
	binary.BigEndian.PutUint64(key[:], r.lsn)
	if err := v.commits.Put(key[:], line); err != nil {
		return row{}, err
	}
	return r, v.bucket.Put(keyHead, line)
}

// rebuild appends the canonical bytes of a commit to dst, checking every page.
func (v *vol) rebuild(dst []byte, r row) ([]byte, error) {
	if r.size > MaxCommitBytes || r.count*pageLenSize > r.size {
		return dst, v.corrupt(r.lsn, 0, "the size of the commit is impossible")
	}
	start, last := len(dst), r.prev
	dst = appendCommitHeader(slices.Grow(dst, int(r.size)), r.prev, r.watermark, int(r.count))
	var key [8]byte
	binary.BigEndian.PutUint64(key[:], r.first)
	c := v.pages.Cursor()
	k, page := c.Seek(key[:])
	for n := r.first; n < r.end(); n++ {
		if !isKey(k, n) {
			return dst, v.corrupt(r.lsn, n, "the page is missing")
		}
		if reason := checkPage(v.pageSeed, page); reason != "" {
			return dst, v.corrupt(r.lsn, n, reason)
		}
		id, ok := pageID(page)
		if !ok || !last.Less(id) {
			return dst, v.corrupt(r.lsn, n, "the ids do not increase")
		}
		last = id
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(page)))
		dst = append(dst, page...)
		k, page = c.Next()
	}
	if last != r.watermark || uint64(len(dst)-start) != r.size {
		return dst, v.corrupt(r.lsn, 0, "the pages do not add up to the commit")
	}
	return dst, nil
}

// holds reports whether the volume has a commit with exactly these bytes.
func (v *vol) holds(last row, c commitView) (bool, error) {
	if last.lsn == 0 || !c.prev.Less(last.watermark) {
		return false, nil
	}
	// Watermarks grow along the commits, so the one that starts at prev is found
	// by halving.
	low, high := uint64(1), last.lsn
	for low < high {
		mid := low + (high-low)/2
		r, err := v.rowAt(mid)
		if err != nil {
			return false, err
		}
		if r.prev.Less(c.prev) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	r, err := v.rowAt(low)
	if err != nil || r.prev != c.prev || r.watermark != c.watermark || r.size != uint64(len(c.data)) {
		return false, err
	}
	stored, err := v.rebuild(nil, r)
	return bytes.Equal(stored, c.data), err
}

// Apply appends a commit inside tx, which the caller commits or rolls back; the
// caller must not touch data before that. data are canonical bytes, which are
// checked first. at is the commit's position in the replicated log; the zero
// Position is none.
//
// Apply compares and sets: a commit that does not start from the watermark
// changes nothing. It is idempotent by position: one at or below the volume's
// is Skipped. Given the same volume and the same arguments the verdict is
// always the same, Corrupt excepted. An error is one of bbolt: roll back.
func Apply(tx *bbolt.Tx, stream evtlog.StreamName, data []byte, at Position) (Result, error) {
	if err := checkName(stream); err != nil {
		return Result{Verdict: Malformed, Head: Head{Stream: stream}, Err: err}, nil
	}
	return apply(tx, stream, at, func(v *vol) (commitView, string) { return parseCommit(data, v.pageSeed) })
}

// apply is Apply for bytes that parse takes apart.
func apply(tx *bbolt.Tx, stream evtlog.StreamName, at Position, parse func(*vol) (commitView, string)) (Result, error) {
	v, last, err := openLast(tx, stream)
	if err != nil {
		return Result{Verdict: decideApply(applyFacts{}), Head: Head{Stream: stream}, Err: err}, nil
	}
	c, reason := parse(v)
	f := applyFacts{
		intact: true, wellFormed: reason == "", at: at, own: Position{Index: last.index, Term: last.term},
		prev: c.prev, watermark: last.watermark,
	}
	if f.wellFormed && f.prev != f.watermark {
		err = guardVolume(stream, func() (err error) {
			f.repeated, err = v.holds(last, c)
			return err
		})
		f.intact = err == nil
	}
	res := Result{Verdict: decideApply(f), Watermark: c.watermark, Err: err}
	return res.settle(tx, v, last, c, at, reason)
}

// openLast opens a volume and reads the row of its head.
func openLast(tx *bbolt.Tx, stream evtlog.StreamName) (v *vol, last row, err error) {
	err = guardVolume(stream, func() (err error) {
		if v, err = openVol(tx, stream); err == nil {
			last, err = v.last()
		}
		return err
	})
	return v, last, err
}

// settle does what the verdict says and fills in the result.
func (res Result) settle(tx *bbolt.Tx, v *vol, last row, c commitView, at Position, reason string) (Result, error) {
	switch res.Verdict {
	case Applied:
		err := guardVolume(v.stream, func() (err error) {
			last, err = v.append(tx, last, c, at)
			return err
		})
		if err != nil {
			return Result{}, err
		}
	case Malformed:
		res.Err = &CorruptError{Stream: v.stream, Reason: "refused " + reason}
	}
	res.Head = last.head(v.stream)
	return res, nil
}

// Adopt appends a commit copied from another volume of the same stream inside
// tx, with its number, its position in the replicated log and its chain, all of
// which must fit. Copying the commits of a volume one by one makes a volume
// with the same chain, and may be interrupted and repeated at will. Errors are
// those of Apply. The caller must not touch c.Data before tx has ended.
func Adopt(tx *bbolt.Tx, stream evtlog.StreamName, c Commit) (Result, error) {
	if err := checkName(stream); err != nil {
		return Result{Verdict: Malformed, Head: Head{Stream: stream}, Err: err}, nil
	}
	v, last, err := openLast(tx, stream)
	f := adoptFacts{intact: err == nil, lsn: c.LSN, head: last.lsn, watermark: last.watermark, chain: c.Chain}
	if err != nil {
		return Result{Verdict: decideAdopt(f), Head: Head{Stream: stream}, Err: err}, nil
	}
	view, reason := parseCommit(c.Data, v.pageSeed)
	f.wellFormed, f.prev = reason == "", view.prev
	switch {
	case c.LSN == last.lsn+1:
		f.own = nextChain(last.chain, c.Data)
	case c.LSN != 0 && c.LSN <= last.lsn:
		err = guardVolume(stream, func() error {
			r, err := v.rowAt(c.LSN)
			f.own = r.chain
			return err
		})
		f.intact = err == nil
	}
	res := Result{Verdict: decideAdopt(f), Watermark: view.watermark, Err: err}
	return res.settle(tx, v, last, view, Position{Index: c.Index, Term: c.Term}, reason)
}

// HeadOf returns the head of one volume. The error is a *CorruptError.
func HeadOf(tx *bbolt.Tx, stream evtlog.StreamName) (Head, error) {
	_, last, err := openLast(tx, stream)
	return last.head(stream), err
}

// HeadAt returns the head that a volume had after commit lsn; ok is false when
// the volume has not got that far. lsn 0 is the empty volume. The error is a
// *CorruptError.
func HeadAt(tx *bbolt.Tx, stream evtlog.StreamName, lsn uint64) (h Head, ok bool, err error) {
	v, last, err := openLast(tx, stream)
	if err != nil || lsn > last.lsn {
		return Head{Stream: stream}, false, err
	}
	var r row
	if lsn > 0 {
		err = guardVolume(stream, func() (err error) {
			r, err = v.rowAt(lsn)
			return err
		})
	}
	return r.head(stream), err == nil, err
}

// Heads returns the heads of all volumes, ordered by queue and name. A volume
// whose head cannot be read has only Stream set, and its *CorruptError is
// joined into the error; the others are still returned.
func Heads(tx *bbolt.Tx) ([]Head, error) {
	all := tx.Bucket(bucketVolumes)
	if all == nil {
		return nil, &CorruptError{Path: tx.DB().Path(), Reason: "the table of volumes is missing"}
	}
	var heads []Head
	var errs []error
	err := all.ForEachBucket(func(key []byte) error {
		stream, ok := streamOf(key)
		if !ok {
			errs = append(errs, &CorruptError{Path: tx.DB().Path(), Reason: "a volume has a name that is none"})
			return nil
		}
		h, err := HeadOf(tx, stream)
		heads, errs = append(heads, h), append(errs, err)
		return nil
	})
	slices.SortFunc(heads, func(a, b Head) int { return compareStreams(a.Stream, b.Stream) })
	return heads, errors.Join(append(errs, err)...)
}

func compareStreams(a, b evtlog.StreamName) int {
	if c := strings.Compare(a.Queue, b.Queue); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}
