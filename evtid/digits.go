package evtid

import (
	"encoding/binary"
	"math/bits"
)

// Numbers are written in pairs of digits that stand in tables, from parts that
// fit in 32 bits and do not wait for each other. One digit at a time, each needs
// the quotient of the one before.

const (
	// pair62 is the number of pairs of base62 digits, five62 that of five digits.
	pair62 = 62 * 62
	five62 = pair62 * pair62 * 62

	// millisLen is the length of every millisecond of an id in decimal.
	millisLen = 13
	// entryRoom is what writing an entry form may touch: the millisecond, a '-',
	// and eight digits, of which MaxTail leaves the last free.
	entryRoom = millisLen + 1 + 8
)

// pairs62 and pairs10 are all two-digit numbers as they stand in memory: the
// first digit in the lower byte.
var (
	pairs62 = [pair62]uint16(pairsOf(digits))
	pairs10 = [100]uint16(pairsOf(digits[:10]))
)

func pairsOf(digits string) []uint16 {
	table := make([]uint16, 0, len(digits)*len(digits))
	for _, first := range []byte(digits) {
		for _, second := range []byte(digits) {
			table = append(table, uint16(first)|uint16(second)<<8)
		}
	}
	return table
}

// putBase62 writes the 11 digits of a payload.
func putBase62(dst []byte, v uint64) {
	_ = dst[10]
	rest := v / five62
	dst[0] = digits[rest/five62]
	putFive62(dst[1:6], uint32(rest%five62))
	putFive62(dst[6:11], uint32(v%five62))
}

func putFive62(dst []byte, v uint32) {
	_ = dst[4]
	dst[0] = digits[v/pair62/pair62]
	binary.LittleEndian.PutUint16(dst[1:], pairs62[v/pair62%pair62])
	binary.LittleEndian.PutUint16(dst[3:], pairs62[v%pair62])
}

// putMillis writes the 13 digits of an id's millisecond.
func putMillis(dst []byte, ms uint64) {
	_ = dst[millisLen-1]
	high, low := uint32(ms/1e8), uint32(ms%1e8)
	dst[0] = '0' + byte(high/1e4)
	binary.LittleEndian.PutUint32(dst[1:], four10(high%1e4))
	binary.LittleEndian.PutUint64(dst[5:], eight10(low))
}

// putTail writes a number below 100,000,000 without leading zeros and returns
// how many digits it has. It touches eight bytes.
func putTail(dst []byte, v uint32) int {
	all := eight10(v)
	// The last digit stays, also when it is 0.
	zeros := bits.TrailingZeros64(all^'0'*0x0101010101010101|1<<56) / 8
	binary.LittleEndian.PutUint64(dst, all>>(8*zeros))
	return 8 - zeros
}

// eight10 and four10 are that many digits as they stand in memory.
func eight10(v uint32) uint64 {
	return uint64(four10(v/1e4)) | uint64(four10(v%1e4))<<32
}

func four10(v uint32) uint32 {
	return uint32(pairs10[v/100]) | uint32(pairs10[v%100])<<16
}
