package portable

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
)

// Source is what can be exported. client.Client is one with the address of a
// node; FromNode makes it.
type Source interface {
	// Volumes returns the heads up to which is exported.
	Volumes(ctx context.Context) ([]api.Volume, error)
	// Commits yields the stored commits up to and including LSN to, encoded.
	Commits(ctx context.Context, stream evtlog.StreamName, to uint64) iter.Seq2[[]byte, error]
}

// Node is the part of client.Client that FromNode needs.
type Node interface {
	Heads(ctx context.Context, address string) ([]api.Volume, error)
	Commits(ctx context.Context, address string, stream evtlog.StreamName, after, to uint64) iter.Seq2[[]byte, error]
}

// FromNode exports from one node of a running cluster, by its HTTP address.
func FromNode(n Node, address string) Source { return nodeSource{n, address} }

type nodeSource struct {
	n       Node
	address string
}

func (s nodeSource) Volumes(ctx context.Context) ([]api.Volume, error) {
	return s.n.Heads(ctx, s.address)
}

func (s nodeSource) Commits(ctx context.Context, stream evtlog.StreamName, to uint64) iter.Seq2[[]byte, error] {
	return s.n.Commits(ctx, s.address, stream, 0, to)
}

// Summary is what an export holds.
type Summary struct {
	Volumes          []api.Volume
	Commits, Records uint64
}

// Export writes everything that src holds when the call begins. Folding goes on
// meanwhile; what is folded later is not in the file. Every commit is checked on
// the way, so an export that returned nil is sound.
func Export(ctx context.Context, src Source, w io.Writer) (Summary, error) {
	heads, err := src.Volumes(ctx)
	if err != nil {
		return Summary{}, err
	}
	f := newFrameWriter(w)
	if err := f.raw(binary.BigEndian.AppendUint16([]byte(magic), version)); err != nil {
		return Summary{}, fmt.Errorf("portable: write: %w", err)
	}
	var sum Summary
	for _, h := range heads {
		if h.Parked != "" {
			return sum, fmt.Errorf("portable: volume %s is set aside on this node (%s): export from another one: %w", h.Stream, h.Parked, archive.ErrCorrupt)
		}
		if err := exportVolume(ctx, src, f, h, &sum); err != nil {
			return sum, err
		}
	}
	if err := f.end(sum.Commits); err != nil {
		return sum, fmt.Errorf("portable: write: %w", err)
	}
	return sum, nil
}

func exportVolume(ctx context.Context, src Source, f *frameWriter, h api.Volume, sum *Summary) error {
	if err := f.frame(frameVolume, encodeVolume(h)); err != nil {
		return fmt.Errorf("portable: write: %w", err)
	}
	c := checker{want: h}
	for b, err := range src.Commits(ctx, h.Stream, h.LSN) {
		if err != nil {
			return err
		}
		if _, err := c.next(b); err != nil {
			return err
		}
		if err := f.frame(frameCommit, b); err != nil {
			return fmt.Errorf("portable: write: %w", err)
		}
	}
	if err := c.end(); err != nil {
		return err
	}
	sum.add(c)
	return nil
}

func (s *Summary) add(c checker) {
	v := c.want
	v.Watermark = c.last // the header does not hold it
	s.Volumes = append(s.Volumes, v)
	s.Commits += c.lsn
	s.Records += c.records
}

// checker follows the commits of one volume and computes its chain anew.
type checker struct {
	want         api.Volume
	lsn, records uint64
	chain        [sha256.Size]byte
	last         evtid.ID
}

func (c *checker) next(b []byte) (volume.Commit, error) {
	var commit volume.Commit
	if err := commit.UnmarshalBinary(b); err != nil {
		return commit, err
	}
	h := sha256.New()
	h.Write(c.chain[:])
	h.Write(commit.Data)
	h.Sum(c.chain[:0])
	if commit.LSN != c.lsn+1 || commit.Prev != c.last || commit.Chain != c.chain {
		return commit, fmt.Errorf("portable: %w: commit %d of %s does not continue the one before it", ErrBadFile, commit.LSN, c.want.Stream)
	}
	c.lsn, c.last = commit.LSN, commit.Watermark
	c.records += uint64(commit.Count)
	return commit, nil
}

func (c *checker) end() error {
	if c.want.Stream == (evtlog.StreamName{}) {
		return nil
	}
	if c.lsn != c.want.LSN || c.chain != c.want.Chain || c.records != c.want.Records {
		return fmt.Errorf("portable: %w: volume %s ends at commit %d, not %d, or with another chain", ErrBadFile, c.want.Stream, c.lsn, c.want.LSN)
	}
	return nil
}

// Check reads a whole file and checks everything in it.
func Check(ctx context.Context, r io.Reader) (Summary, error) {
	return walk(ctx, r, func(evtlog.StreamName, volume.Commit) error { return nil })
}

// importChunk bounds what is folded at a time: less than the limit of one entry
// of a replicated log.
const importChunk = 384 << 10

// Import folds what a file holds into an archive, and returns what the file
// holds. It may be interrupted and repeated: records at or below the archive's
// watermark are passed over, so import into an archive that holds nothing of
// these streams, or what an import of the same file has left. Errors of the
// archive come back as they are; ErrBadFile is a damaged file.
func Import(ctx context.Context, r io.Reader, into archive.Archive) (Summary, error) {
	marks := map[evtlog.StreamName]evtid.ID{}
	return walk(ctx, r, func(stream evtlog.StreamName, c volume.Commit) error {
		w, known := marks[stream]
		if !known {
			var err error
			if w, err = into.Watermark(ctx, stream); err != nil {
				return err
			}
		}
		records, err := c.Records(stream)
		if err != nil {
			return err
		}
		marks[stream], err = foldAbove(ctx, into, stream, w, records)
		return err
	})
}

// foldAbove folds the records above w in pieces of at most importChunk.
func foldAbove(ctx context.Context, into archive.Archive, stream evtlog.StreamName, w evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	for len(records) > 0 && !w.Less(records[0].ID) {
		records = records[1:]
	}
	for len(records) > 0 {
		n, size := 0, 0
		for n < len(records) && (n == 0 || size < importChunk) {
			size += evtlog.Size(records[n].Fields) + 16*len(records[n].Fields) + 32
			n++
		}
		if n > 1 && size > importChunk {
			n--
		}
		var err error
		if w, err = into.Fold(ctx, stream, w, records[:n]); err != nil {
			return w, err
		}
		records = records[n:]
	}
	return w, nil
}

// walk reads a file and hands out each commit after it was checked.
func walk(ctx context.Context, r io.Reader, visit func(evtlog.StreamName, volume.Commit) error) (Summary, error) {
	var sum Summary
	f, err := newFrameReader(r)
	if err != nil {
		return sum, err
	}
	var c checker
	for {
		if err := ctx.Err(); err != nil {
			return sum, err
		}
		kind, payload, before, err := f.next()
		if err != nil {
			return sum, err
		}
		if kind != frameCommit {
			if err := c.end(); err != nil {
				return sum, err
			}
			if c.want.Stream != (evtlog.StreamName{}) {
				sum.add(c)
			}
		}
		switch kind {
		case frameVolume:
			v, err := decodeVolume(payload)
			if err != nil {
				return sum, err
			}
			c = checker{want: v}
		case frameCommit:
			commit, err := c.next(payload)
			if err != nil {
				return sum, errors.Join(ErrBadFile, err)
			}
			if err := visit(c.want.Stream, commit); err != nil {
				return sum, err
			}
		case frameEnd:
			return sum, checkEnd(payload, before, sum.Commits)
		default:
			return sum, fmt.Errorf("portable: %w: a frame of kind %q", ErrBadFile, kind)
		}
	}
}

func checkEnd(payload, before []byte, commits uint64) error {
	if len(payload) != 8+sha256.Size || binary.BigEndian.Uint64(payload) != commits || string(payload[8:]) != string(before) {
		return fmt.Errorf("portable: %w: the last frame does not match what came before it", ErrBadFile)
	}
	return nil
}
