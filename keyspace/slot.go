package keyspace

import "strings"

// Slots is the number of slots of a Redis Cluster.
const Slots = 16384

// Slot returns the cluster slot of a key: CRC16 (XMODEM: polynomial 0x1021,
// initial value 0) of its hash tag, modulo 16384. The hash tag is what stands
// between the first '{' and the next '}' when that is not empty, else the whole
// key. Source: Redis Cluster specification, "Hash tags".
func Slot(key string) uint16 {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return crc % Slots
}

var crcTable = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		t[i] = crc
	}
	return t
}()
