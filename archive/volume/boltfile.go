package volume

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// The layout of bbolt's file. bbolt itself reads it through a memory map and
// trusts it, so damage ends in a panic at best. This reader takes the same file
// apart with bounds on everything, before bbolt is let near it. Numbers are in
// the machine's byte order.
const (
	boltMagic       = 0xED0CDAED
	boltVersion     = 2
	boltHeader      = 16
	boltMeta        = 64
	boltElement     = 16
	boltBucket      = 16
	flagBranch      = 0x01
	flagLeaf        = 0x02
	flagMeta        = 0x04
	flagFreelist    = 0x10
	flagBucketValue = 0x01
	boltMaxKey      = 32768
	// boltMaxDepth is far above the depth of any tree that fits a disk.
	boltMaxDepth = 64
)

// shallow is the depth of buckets that a quick check reads whole: the root, the
// tables of volumes, and the volumes. Of the trees of pages and commits below
// them it reads all but the leaves, so that no pointer leads in a circle.
const shallow = 2

// deep looks into everything.
const deep = 1 << 30

type boltMetaPage struct {
	pageSize             uint32
	root, freelist, high uint64
	txid                 uint64
}

// boltFile is one file under examination.
type boltFile struct {
	r        io.ReaderAt
	size     int64
	pageSize int64
	meta     boltMetaPage
	// depth is how deep buckets are read whole.
	depth int
	// used and free are sets of pages.
	used, free bitset
	buf        []byte
	// spare are buffers of one page each, for page.
	spare [][]byte
}

// checkBolt examines a file of bbolt and says what is wrong with it, "" for
// nothing. One broken meta page is an error too unless torn allows it: bbolt
// would fall back to the other one, and with it to the state before the last
// commit. An I/O error is returned as such.
func checkBolt(r io.ReaderAt, size int64, depth int, torn bool) (reason string, err error) {
	f := &boltFile{r: r, size: size, depth: depth}
	for _, step := range []func() error{
		func() error { return f.readMeta(torn) },
		f.readFreelist,
		func() error { return f.walk(f.meta.root, place{rest: whole}) },
		f.account,
	} {
		if err := step(); err != nil {
			var bad boltDamage
			if errors.As(err, &bad) {
				return string(bad), nil
			}
			return "", err
		}
	}
	return "", nil
}

// boltDamage is what does not fit.
type boltDamage string

// Error implements error.
func (d boltDamage) Error() string { return string(d) }

func damaged(format string, args ...any) error { return boltDamage(fmt.Sprintf(format, args...)) }

// read returns n bytes at off. They are valid until the next read.
func (f *boltFile) read(off int64, n int) ([]byte, error) {
	if off < 0 || off+int64(n) > f.size {
		return nil, damaged("the file ends before byte %d", off+int64(n))
	}
	if cap(f.buf) < n {
		f.buf = make([]byte, max(n, 1<<16))
	}
	b := f.buf[:n]
	if _, err := f.r.ReadAt(b, off); err != nil && err != io.EOF {
		return nil, err
	}
	return b, nil
}

func (f *boltFile) readMeta(torn bool) error {
	size, err := f.findPageSize()
	if err != nil {
		return err
	}
	f.pageSize = size
	m0, err0 := f.metaAt(0)
	m1, err1 := f.metaAt(size)
	switch {
	case err0 != nil && err1 != nil:
		return err0
	case !torn && (err0 != nil || err1 != nil):
		return damaged("%v, so the last commit may be lost; AcceptTornMeta opens the state before it", cmp.Or(err0, err1))
	case err0 == nil && (err1 != nil || m0.txid > m1.txid):
		f.meta = m0
	default:
		f.meta = m1
	}
	if err0 == nil && err1 == nil && m0.txid+1 != m1.txid && m1.txid+1 != m0.txid {
		return damaged("the two meta pages are of transactions %d and %d, which do not follow each other", m0.txid, m1.txid)
	}
	if f.meta.high < 2 || f.meta.high > uint64(f.size/f.pageSize) {
		return damaged("the file has %d bytes, but its pages reach to byte %d: it was cut short", f.size, f.meta.high*uint64(f.pageSize))
	}
	f.used, f.free = newBitset(f.meta.high), newBitset(f.meta.high)
	return nil
}

// findPageSize looks where bbolt looks: at the start, then at every place where
// a second meta page can be.
func (f *boltFile) findPageSize() (int64, error) {
	m, err := f.metaAt(0)
	if err == nil {
		return int64(m.pageSize), nil
	}
	var bad boltDamage
	if !errors.As(err, &bad) {
		return 0, err
	}
	for size := int64(1024); size <= 1024<<14 && size+boltHeader+boltMeta <= f.size; size *= 2 {
		if m, err := f.metaAt(size); err == nil && int64(m.pageSize) == size {
			return size, nil
		}
	}
	return 0, err
}

func (f *boltFile) metaAt(off int64) (m boltMetaPage, err error) {
	b, err := f.read(off, boltHeader+boltMeta)
	if err != nil {
		return m, err
	}
	u32, u64 := binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	if id := u64(b); id > 1 || (id == 0) != (off == 0) || binary.NativeEndian.Uint16(b[8:]) != flagMeta {
		return m, damaged("there is no meta page at byte %d", off)
	}
	b = b[boltHeader:]
	sum := fnv.New64a()
	_, _ = sum.Write(b[:boltMeta-8])
	if u32(b) != boltMagic || u32(b[4:]) != boltVersion || u64(b[56:]) != sum.Sum64() {
		return m, damaged("the meta page at byte %d does not match its checksum", off)
	}
	m = boltMetaPage{pageSize: u32(b[8:]), root: u64(b[16:]), freelist: u64(b[32:]), high: u64(b[40:]), txid: u64(b[48:])}
	if m.pageSize < 1024 || m.pageSize > 1024<<14 || m.pageSize&(m.pageSize-1) != 0 {
		return m, damaged("the meta page at byte %d has an impossible page size", off)
	}
	return m, nil
}

// boltPage is a page; b are its first pageSize bytes.
type boltPage struct {
	id, flags, count uint64
	// length is the size with all overflow pages.
	length uint64
	b      []byte
}

// page reads the head of a page and checks that the page lies inside the file.
// The caller gives its buffer back with release.
func (f *boltFile) page(id uint64) (p boltPage, err error) {
	if id < 2 || id >= f.meta.high {
		return p, damaged("a pointer leads to page %d of %d", id, f.meta.high)
	}
	b, err := f.read(int64(id)*f.pageSize, int(f.pageSize))
	if err != nil {
		return p, err
	}
	b = append(f.takeBuffer(), b...)
	overflow := uint64(binary.NativeEndian.Uint32(b[12:]))
	p = boltPage{
		id: binary.NativeEndian.Uint64(b), flags: uint64(binary.NativeEndian.Uint16(b[8:])), count: uint64(binary.NativeEndian.Uint16(b[10:])),
		length: (overflow + 1) * uint64(f.pageSize), b: b,
	}
	if p.id != id {
		return p, damaged("page %d says it is page %d", id, p.id)
	}
	if id+overflow >= f.meta.high {
		return p, damaged("page %d reaches beyond the end of the file", id)
	}
	return p, nil
}

func (f *boltFile) takeBuffer() []byte {
	if n := len(f.spare); n > 0 {
		b := f.spare[n-1]
		f.spare = f.spare[:n-1]
		return b[:0]
	}
	return make([]byte, 0, f.pageSize)
}

func (f *boltFile) release(p boltPage) { f.spare = append(f.spare, p.b) }

// bytesOf returns n bytes at off inside the page.
func (f *boltFile) bytesOf(p boltPage, off, n uint64) ([]byte, error) {
	if off > p.length || n > p.length-off {
		return nil, damaged("an element of page %d reaches out of it", p.id)
	}
	if off+n <= uint64(len(p.b)) {
		return p.b[off : off+n], nil
	}
	b, err := f.read(int64(p.id)*f.pageSize+int64(off), int(n))
	return bytes.Clone(b), err
}
