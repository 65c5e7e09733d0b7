package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

// raft keeps its term and its vote as bare values. A flipped bit there would be a
// forgotten vote that nobody notices, so each is stored with a checksum, in one
// value so that no crash can separate the two.

// currentTerm is the key under which raft keeps its term; the other two are its
// vote.
const currentTerm = "CurrentTerm"

var voteKeys = []string{currentTerm, "LastVoteTerm", "LastVoteCand"}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal appends the checksum of key and value to the value.
func seal(key, val []byte) []byte {
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, val)
	return binary.BigEndian.AppendUint32(append([]byte(nil), val...), sum)
}

// unseal returns the value, or errDamaged.
func unseal(key, sealed []byte) ([]byte, error) {
	n := len(sealed) - 4
	if n < 0 || string(seal(key, sealed[:n])) != string(sealed) {
		return nil, fmt.Errorf("replica: value %q of %s: %w", key, raftFile, errDamaged)
	}
	return sealed[:n], nil
}

// Set implements raft.StableStore.
func (s *raftStore) Set(key, val []byte) error {
	return s.write(func() error { return s.bolt.Set(key, seal(key, val)) })
}

// Get implements raft.StableStore.
func (s *raftStore) Get(key []byte) (val []byte, err error) {
	err = guard(func() error { val, err = s.bolt.Get(key); return err })
	if err != nil {
		return nil, err
	}
	return unseal(key, val)
}

// SetUint64 implements raft.StableStore. raft panics when the term cannot be
// stored. Therefore a failed write of the term is reported, which stops the
// node, and waits for that; then it answers nil although nothing was written.
// That is safe, because from then on neither a vote nor an entry of that term
// can be stored, and so none is acknowledged.
func (s *raftStore) SetUint64(key []byte, val uint64) error {
	err := s.Set(key, binary.BigEndian.AppendUint64(nil, val))
	if err != nil && string(key) == currentTerm {
		<-s.stopped
		return nil
	}
	return err
}

// GetUint64 implements raft.StableStore.
func (s *raftStore) GetUint64(key []byte) (uint64, error) {
	val, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(val) != 8 {
		return 0, fmt.Errorf("replica: value %q of %s has %d bytes: %w", key, raftFile, len(val), errDamaged)
	}
	return binary.BigEndian.Uint64(val), nil
}

// verifyVote checks the term and the vote, and that the term is not below that
// of the last entry: then it was lost.
func (s *raftStore) verifyVote() error {
	for _, key := range voteKeys {
		if _, err := s.Get([]byte(key)); err != nil && !isNotFound(err) {
			return err
		}
	}
	last, err := s.LastIndex()
	if err != nil || last == 0 {
		return err
	}
	var l raft.Log
	err = s.read(last, &l)
	if errors.Is(err, raft.ErrLogNotFound) {
		// Cut meanwhile.
		return nil
	}
	if err != nil {
		return err
	}
	// The term after the entry: raft stores them the other way round.
	term, err := s.GetUint64([]byte(currentTerm))
	if err != nil && !isNotFound(err) {
		return err
	}
	if term < l.Term {
		return fmt.Errorf("replica: term %d of %s is below that of entry %d: %w", term, raftFile, last, errDamaged)
	}
	return nil
}
