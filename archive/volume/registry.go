package volume

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"

	"go.etcd.io/bbolt"
)

// registry says which volumes there are, besides the table itself. Without it a
// flipped bit in a volume's name would make the volume vanish without a sound:
// its stream would look as if nothing had ever been archived.
type registry struct {
	count uint64
	// sum is the exclusive or of the SHA-256 of the volumes' keys.
	sum [sha256.Size]byte
}

const registrySize = 8 + sha256.Size + crcSize

// toggle puts a volume in, or takes it out with by = -1.
func (g *registry) toggle(key []byte, by int) {
	g.count += uint64(by)
	for i, b := range sha256.Sum256(key) {
		g.sum[i] ^= b
	}
}

func (g *registry) encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, registrySize), g.count)
	b = append(b, g.sum[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Update(seed('R', nil), castagnoli, b))
}

func parseRegistry(b []byte) (g registry, ok bool) {
	if len(b) != registrySize || crc32.Update(seed('R', nil), castagnoli, b[:registrySize-crcSize]) != binary.BigEndian.Uint32(b[registrySize-crcSize:]) {
		return g, false
	}
	g.count = binary.BigEndian.Uint64(b)
	copy(g.sum[:], b[8:])
	return g, true
}

// enter notes in the file that a volume has come, or gone with by = -1.
func enter(tx *bbolt.Tx, key []byte, by int) error {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		return &CorruptError{Path: tx.DB().Path(), Reason: "the format is missing"}
	}
	g, ok := parseRegistry(meta.Get(keyRegistry))
	if !ok {
		return &CorruptError{Path: tx.DB().Path(), Reason: "the register of volumes does not match its checksum"}
	}
	g.toggle(key, by)
	return meta.Put(keyRegistry, g.encode())
}
