package replica

import (
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
)

// A parked volume serves nothing and takes no entries until it was repaired from
// a peer. The log goes on meanwhile, so the node notes the last entry it passed
// over: only a copy from a peer that had applied that entry makes the volume
// whole again.

func parkedError(stream evtlog.StreamName, reason string) error {
	return fmt.Errorf("replica: volume %s is set aside on this node: %s: %w; it is repaired from a peer", stream, reason, archive.ErrCorrupt)
}

// parkedReason says why a volume is set aside, "" when it is not.
func (s *store) parkedReason(stream evtlog.StreamName) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asideFor[stream]
}

func (s *store) allParked() []evtlog.StreamName {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []evtlog.StreamName
	for stream := range s.asideFor {
		out = append(out, stream)
	}
	slices.SortFunc(out, func(a, b evtlog.StreamName) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	return out
}

// park sets a volume aside, outside the log.
func (s *store) park(stream evtlog.StreamName, reason string) error {
	if s.parkedReason(stream) != "" {
		return nil
	}
	return s.update(func(tx *storeTx) error { return tx.park(stream, reason, 0) })
}

// unpark lets a volume serve again, if the copy it was repaired from was made by
// a node that had applied every entry that was passed over here. Otherwise ok is
// false: copy again.
func (s *store) unpark(stream evtlog.StreamName, copied uint64) (ok bool, err error) {
	err = s.update(func(tx *storeTx) error {
		b := tx.parkedBucket()
		if b == nil {
			ok = true
			return nil
		}
		if ok = passedOf(b.Get(parkedKey(stream))) <= copied; !ok {
			return nil
		}
		tx.parks[stream] = ""
		return b.Delete(parkedKey(stream))
	})
	return ok, err
}

func (t *storeTx) parkedBucket() *bbolt.Bucket {
	b := t.tx.Bucket(bucketReplica)
	if b == nil {
		return nil
	}
	return b.Bucket(bucketParked)
}

// parked says why a volume is set aside, inside the transaction.
func (t *storeTx) parked(stream evtlog.StreamName) string {
	if reason, ok := t.parks[stream]; ok {
		return reason
	}
	return t.s.parkedReason(stream)
}

// park sets a volume aside, or notes that one more entry was passed over.
func (t *storeTx) park(stream evtlog.StreamName, reason string, index uint64) error {
	b, err := t.tx.CreateBucketIfNotExists(bucketReplica)
	if err != nil {
		return err
	}
	if b, err = b.CreateBucketIfNotExists(bucketParked); err != nil {
		return err
	}
	if known := t.parked(stream); known != "" {
		reason = known
	}
	index = max(index, passedOf(b.Get(parkedKey(stream))))
	t.parks[stream] = reason
	return b.Put(parkedKey(stream), append(binary.BigEndian.AppendUint64(nil, index), reason...))
}

// parkedKey is "queue\x00name"; names hold no control bytes.
func parkedKey(s evtlog.StreamName) []byte { return []byte(s.Queue + "\x00" + s.Name) }

func parkedStream(k []byte) (evtlog.StreamName, bool) {
	for i, c := range k {
		if c == 0 {
			return evtlog.StreamName{Queue: string(k[:i]), Name: string(k[i+1:])}, true
		}
	}
	return evtlog.StreamName{}, false
}

func passedOf(v []byte) uint64 {
	if len(v) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}
