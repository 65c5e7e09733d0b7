package replica

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/manifest"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
)

// What the node keeps in the file of the volumes, beside them, so that it
// changes in the same transactions.
var (
	bucketReplica  = []byte("replica")
	bucketParked   = []byte("parked")
	keyCluster     = []byte("cluster")
	keyIncarnation = []byte("incarnation")
)

// store is the volumes of a node with the little that replication adds: whose
// they are, and which of them are set aside.
type store struct {
	vol   *volume.Store
	fault func() error
	note  *notifier

	// writing is held over a transaction and over what memory repeats of it: the
	// next one must not decide on what this one has changed.
	writing sync.Mutex

	mu sync.Mutex
	// asideFor repeats the parked volumes of the file.
	asideFor map[evtlog.StreamName]string
	who      api.Identity
	inc      [16]byte
}

// openStore opens the volumes. A file that is damaged as a whole is moved aside
// and a new one begun: the peers have what was in it.
func openStore(path string, log *slog.Logger, fault func() error, alarm func(Alarm)) (*store, error) {
	opts := volume.Options{Logger: log, AcceptTornMeta: true}
	v, err := volume.Open(path, opts)
	if errors.Is(err, archive.ErrCorrupt) {
		name, qerr := volume.Quarantine(path)
		if qerr != nil {
			return nil, errors.Join(err, qerr)
		}
		alarm(Alarm{Kind: "corrupt", Err: fmt.Errorf("replica: the file of the volumes was moved to %s and is pulled anew: %w", name, err)})
		v, err = volume.Open(path, opts)
	}
	if err != nil {
		return nil, err
	}
	s := &store{vol: v, fault: fault, note: newNotifier(), asideFor: map[evtlog.StreamName]string{}}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return s, nil
}

func (s *store) close() error { return s.vol.Close() }

// load reads what the file says of the node.
func (s *store) load() error {
	return s.vol.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketReplica)
		if b == nil {
			return nil
		}
		s.remember(api.Identity{Cluster: string(b.Get(keyCluster)), Incarnation: string(b.Get(keyIncarnation))})
		p := b.Bucket(bucketParked)
		if p == nil {
			return nil
		}
		return p.ForEach(func(k, v []byte) error {
			if stream, ok := parkedStream(k); ok && len(v) >= 8 {
				s.asideFor[stream] = string(v[8:])
			}
			return nil
		})
	})
}

func (s *store) remember(id api.Identity) {
	s.who = id
	// One that is not 16 bytes in hex leaves the zero value, which matches nothing.
	if raw, err := hex.DecodeString(id.Incarnation); err == nil && len(raw) == len(s.inc) {
		s.inc = [16]byte(raw)
	}
}

func (s *store) identity() api.Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.who
}

func (s *store) incarnation() [16]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inc
}

func (s *store) setIdentity(id api.Identity) error {
	if s.identity() == id {
		return nil
	}
	err := s.vol.Update(func(tx *bbolt.Tx) error { return putIdentity(tx, id) })
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remember(id)
	return nil
}

func putIdentity(tx *bbolt.Tx, id api.Identity) error {
	b, err := tx.CreateBucketIfNotExists(bucketReplica)
	if err != nil {
		return err
	}
	if err := b.Put(keyCluster, []byte(id.Cluster)); err != nil {
		return err
	}
	return b.Put(keyIncarnation, []byte(id.Incarnation))
}

// heads returns the heads of all volumes. One that cannot be read fails the
// whole: a manifest or a comparison without it would be a lie.
func (s *store) heads() ([]manifest.Volume, error) {
	var out []manifest.Volume
	err := s.vol.View(func(tx *bbolt.Tx) error {
		heads, err := volume.Heads(tx)
		for _, h := range heads {
			if h.LSN > 0 {
				out = append(out, volumeOf(h))
			}
		}
		return err
	})
	return out, err
}

func volumeOf(h volume.Head) manifest.Volume {
	return manifest.Volume{
		Stream: h.Stream, LSN: h.LSN, Count: h.Count, Watermark: h.Watermark, Chain: h.Chain,
		RaftIndex: h.Index, RaftTerm: h.Term,
	}
}

func (s *store) head(stream evtlog.StreamName) (v manifest.Volume, err error) {
	err = s.vol.View(func(tx *bbolt.Tx) error {
		h, err := volume.HeadOf(tx, stream)
		v = volumeOf(h)
		return err
	})
	return v, err
}

// chainAt returns the chain of a volume after commit lsn; ok is false when it
// has not got that far.
func (s *store) chainAt(stream evtlog.StreamName, lsn uint64) (chain [32]byte, ok bool, err error) {
	err = s.vol.View(func(tx *bbolt.Tx) error {
		var h volume.Head
		h, ok, err = volume.HeadAt(tx, stream, lsn)
		chain = h.Chain
		return err
	})
	return chain, ok, err
}

// missing returns what the node lacks of a manifest. A volume whose rows cannot
// be read is lacking as a whole.
func (s *store) missing(m manifest.Manifest) ([]manifest.Gap, error) {
	have := map[evtlog.StreamName]manifest.Have{}
	err := s.vol.View(func(tx *bbolt.Tx) error {
		for _, want := range m.Volumes {
			h, err := volume.HeadOf(tx, want.Stream)
			if errors.Is(err, archive.ErrCorrupt) {
				have[want.Stream] = manifest.Have{LSN: want.LSN}
				continue
			}
			if err != nil {
				return err
			}
			at, _, err := volume.HeadAt(tx, want.Stream, want.LSN)
			if err != nil && !errors.Is(err, archive.ErrCorrupt) {
				return err
			}
			have[want.Stream] = manifest.Have{LSN: h.LSN, Chain: at.Chain}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return manifest.Missing(m, have), nil
}

func (s *store) watermark(stream evtlog.StreamName) (evtid.ID, error) {
	if reason := s.parkedReason(stream); reason != "" {
		return evtid.ID{}, parkedError(stream, reason)
	}
	return s.vol.Watermark(context.Background(), stream)
}

// changed returns a channel that is closed by the next change of any volume.
func (s *store) changed() <-chan struct{} { return s.note.next() }

func (s *store) read(ctx context.Context, stream evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
	if reason := s.parkedReason(stream); reason != "" {
		return func(yield func(evtlog.Record, error) bool) { yield(evtlog.Record{}, parkedError(stream, reason)) }
	}
	return s.vol.Read(ctx, stream, r)
}

// commits yields the stored commits with after < LSN <= to in their travelling
// form; to 0 means all there are. Each is checked as it is read.
func (s *store) commits(ctx context.Context, stream evtlog.StreamName, after, to uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if reason := s.parkedReason(stream); reason != "" {
			yield(nil, parkedError(stream, reason))
			return
		}
		for c, err := range s.vol.Commits(ctx, stream, after, to) {
			if err != nil {
				yield(nil, err)
				return
			}
			b, err := c.MarshalBinary()
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// errOtherHistory: the commits of another node do not continue this one's.
var errOtherHistory = errors.New("the volume has another history than its copy")

// importCommits appends commits of another node in one transaction. Each must
// continue the chain; what is here already is passed over.
func (s *store) importCommits(stream evtlog.StreamName, encoded [][]byte) error {
	commits := make([]volume.Commit, len(encoded))
	for i, b := range encoded {
		if err := commits[i].UnmarshalBinary(b); err != nil {
			return err
		}
	}
	return s.update(func(tx *storeTx) error {
		for _, c := range commits {
			res, err := volume.Adopt(tx.tx, stream, c)
			if err != nil {
				return err
			}
			switch res.Verdict {
			case volume.Applied, volume.Duplicate:
			case volume.Diverged, volume.Corrupt:
				return fmt.Errorf("%w: %s at LSN %d: %s", errOtherHistory, stream, c.LSN, res.Verdict)
			default:
				return fmt.Errorf("replica: copy of %s at LSN %d: %s: %w", stream, c.LSN, res.Verdict, errors.Join(res.Err, archive.ErrCorrupt))
			}
		}
		return nil
	})
}

// quarantine sets a volume aside inside the file.
func (s *store) quarantine(stream evtlog.StreamName) error {
	_, err := s.vol.Quarantine(context.Background(), stream)
	return err
}

// verifyOne computes the chain of one volume anew.
func (s *store) verifyOne(ctx context.Context, stream evtlog.StreamName) error {
	_, err := s.vol.Verify(ctx, stream)
	return err
}

// storeTx is one write transaction.
type storeTx struct {
	tx *bbolt.Tx
	s  *store
	// parks are the changes that take effect with the transaction.
	parks map[evtlog.StreamName]string
	// adopted is an identity that takes effect with the transaction.
	adopted *api.Identity
}

// update runs fn in one fsynced transaction.
func (s *store) update(fn func(*storeTx) error) error {
	if s.fault != nil {
		if err := s.fault(); err != nil {
			return err
		}
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	t := &storeTx{s: s, parks: map[evtlog.StreamName]string{}}
	err := s.vol.Update(func(tx *bbolt.Tx) error {
		t.tx = tx
		return fn(t)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	for stream, reason := range t.parks {
		if reason == "" {
			delete(s.asideFor, stream)
		} else {
			s.asideFor[stream] = reason
		}
	}
	if t.adopted != nil {
		s.remember(*t.adopted)
	}
	s.mu.Unlock()
	s.note.fire()
	return nil
}

// adoptIncarnation reports whether an entry is of the volumes' own incarnation.
// Volumes that have none yet take the entry's.
func (t *storeTx) adoptIncarnation(inc [16]byte) (bool, error) {
	own := t.s.incarnation()
	if own == inc {
		return true, nil
	}
	if own != ([16]byte{}) || t.adopted != nil {
		return t.adopted != nil && t.adopted.Incarnation == hex.EncodeToString(inc[:]), nil
	}
	id := t.s.identity()
	id.Incarnation = hex.EncodeToString(inc[:])
	t.adopted = &id
	return true, putIdentity(t.tx, id)
}

func (t *storeTx) apply(stream evtlog.StreamName, data []byte, at volume.Position) (volume.Result, error) {
	return volume.Apply(t.tx, stream, data, at)
}

func (t *storeTx) chainAt(stream evtlog.StreamName, lsn uint64) ([32]byte, bool, error) {
	h, ok, err := volume.HeadAt(t.tx, stream, lsn)
	if errors.Is(err, archive.ErrCorrupt) {
		// It cannot be told: another chain than the leader's, then.
		return [32]byte{}, false, nil
	}
	return h.Chain, ok, err
}

// notifier wakes all who wait for a change.
type notifier struct {
	mu sync.Mutex
	ch chan struct{}
}

func newNotifier() *notifier { return &notifier{ch: make(chan struct{})} }

func (n *notifier) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ch
}

func (n *notifier) fire() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.ch)
	n.ch = make(chan struct{})
}
