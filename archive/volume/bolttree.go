package volume

import (
	"bytes"
	"encoding/binary"
)

// boltElem is one element of a branch or leaf page.
type boltElem struct {
	key []byte
	// child is a branch element's page.
	child uint64
	// bucket: the value at off, of size bytes, is a bucket.
	bucket    bool
	off, size uint64
}

// elem takes element i of a page apart and checks that it lies inside.
func (f *boltFile) elem(p boltPage, i uint64) (e boltElem, err error) {
	at := boltHeader + i*boltElement
	b, err := f.bytesOf(p, at, boltElement)
	if err != nil {
		return e, err
	}
	u32 := binary.NativeEndian.Uint32
	var pos, keySize uint64
	if p.flags == flagBranch {
		pos, keySize, e.child = uint64(u32(b)), uint64(u32(b[4:])), binary.NativeEndian.Uint64(b[8:])
	} else {
		pos, keySize, e.size = uint64(u32(b[4:])), uint64(u32(b[8:])), uint64(u32(b[12:]))
		e.bucket = u32(b)&flagBucketValue != 0
	}
	if keySize == 0 || keySize > boltMaxKey {
		return e, damaged("element %d of page %d has a key of %d bytes", i, p.id, keySize)
	}
	if pos < (p.count-i)*boltElement {
		return e, damaged("element %d of page %d points into the table", i, p.id)
	}
	e.off = at + pos + keySize
	if _, err := f.bytesOf(p, e.off, 0); err != nil || e.size > p.length-e.off {
		return e, damaged("the value of element %d of page %d reaches out of it", i, p.id)
	}
	e.key, err = f.bytesOf(p, at+pos, keySize)
	return e, err
}

// place is where a page stands in the file.
type place struct {
	// All keys must be at or above low and below high; nil is no bound.
	low, high []byte
	// level counts the buckets around the page, height the pages above it.
	level, height int
	// rest is how many levels of branch pages there are from here on, when the
	// leaves are not to be read, else whole.
	rest int
}

const whole = -1

// walk checks the tree below a page.
func (f *boltFile) walk(id uint64, at place) error {
	if at.height > boltMaxDepth {
		return damaged("the tree through page %d is endless", id)
	}
	p, err := f.page(id)
	if err != nil {
		return err
	}
	defer f.release(p)
	if p.flags != flagBranch && (p.flags != flagLeaf || at.rest > 0) {
		return damaged("page %d is in a tree but has type %#x", id, p.flags)
	}
	if err := f.use(id, p.length/uint64(f.pageSize)); err != nil {
		return err
	}
	if p.flags == flagBranch && p.count == 0 {
		return damaged("branch page %d is empty", id)
	}
	return f.walkElems(p, at)
}

func (f *boltFile) walkElems(p boltPage, at place) error {
	var next boltElem
	low := at.low
	for i := range p.count {
		e, err := next, error(nil)
		if i == 0 {
			e, err = f.elem(p, 0)
		}
		if err != nil {
			return err
		}
		if i > 0 && bytes.Compare(low, e.key) >= 0 || i == 0 && low != nil && bytes.Compare(low, e.key) > 0 || at.high != nil && bytes.Compare(e.key, at.high) >= 0 {
			return damaged("the keys of page %d are out of order", p.id)
		}
		low = e.key
		below := place{low: e.key, high: at.high, level: at.level, height: at.height + 1, rest: at.rest - 1}
		if i+1 < p.count {
			if next, err = f.elem(p, i+1); err != nil {
				return err
			}
			below.high = next.key
		}
		if at.rest == whole {
			below.rest = whole
		}
		if err := f.descend(p, e, below); err != nil {
			return err
		}
	}
	return nil
}

// descend follows an element down.
func (f *boltFile) descend(p boltPage, e boltElem, at place) error {
	switch {
	case p.flags == flagBranch && at.rest == 0:
		if e.child < 2 || e.child >= f.meta.high {
			return damaged("a pointer leads to page %d of %d", e.child, f.meta.high)
		}
		return f.use(e.child, 1)
	case p.flags == flagBranch:
		return f.walk(e.child, at)
	case !e.bucket:
		return nil
	case e.size < boltBucket:
		return damaged("a bucket in page %d is too short", p.id)
	}
	value, err := f.bytesOf(p, e.off, e.size)
	if err != nil {
		return err
	}
	root := binary.NativeEndian.Uint64(value)
	if root == 0 {
		return checkInline(p.id, value[boltBucket:])
	}
	inside := place{level: at.level + 1, rest: whole}
	if inside.level > f.depth {
		if inside.rest, err = f.branches(root); err != nil {
			return err
		}
	}
	return f.walk(root, inside)
}

// branches returns how many levels of branch pages a tree has. All of its
// leaves are at one depth.
func (f *boltFile) branches(id uint64) (int, error) {
	for n := 0; n <= boltMaxDepth; n++ {
		p, err := f.page(id)
		if err != nil {
			return 0, err
		}
		if p.flags != flagBranch {
			f.release(p)
			return n, nil
		}
		e, err := f.elem(p, 0)
		f.release(p)
		if err != nil {
			return 0, err
		}
		id = e.child
	}
	return 0, damaged("the tree through page %d is endless", id)
}

// checkInline checks a bucket that is small enough to be kept in its parent.
func checkInline(id uint64, b []byte) error {
	if len(b) < boltHeader || uint64(binary.NativeEndian.Uint16(b[8:])) != flagLeaf {
		return damaged("an inline bucket in page %d is no leaf", id)
	}
	p := boltPage{id: id, flags: flagLeaf, count: uint64(binary.NativeEndian.Uint16(b[10:])), length: uint64(len(b)), b: b}
	f := &boltFile{}
	var last []byte
	for i := range p.count {
		e, err := f.elem(p, i)
		if err != nil {
			return err
		}
		if e.bucket || last != nil && bytes.Compare(last, e.key) >= 0 {
			return damaged("the keys of an inline bucket in page %d are out of order", id)
		}
		last = e.key
	}
	return nil
}

// use marks pages as part of a tree.
func (f *boltFile) use(id, n uint64) error {
	for i := id; i < id+n; i++ {
		if f.free.has(i) {
			return damaged("page %d is in use and in the free list", i)
		}
		if !f.used.add(i) {
			return damaged("page %d is used twice", i)
		}
	}
	return nil
}

// readFreelist reads the list of free pages. A file written without one has
// nothing to check.
func (f *boltFile) readFreelist() error {
	const none = 1<<64 - 1
	if f.meta.freelist == none {
		return nil
	}
	p, err := f.page(f.meta.freelist)
	if err != nil {
		return err
	}
	defer f.release(p)
	if p.flags != flagFreelist {
		return damaged("page %d should be the free list but has type %#x", p.id, p.flags)
	}
	count, off := p.count, uint64(boltHeader)
	if count == 0xFFFF {
		b, err := f.bytesOf(p, off, 8)
		if err != nil {
			return err
		}
		count, off = binary.NativeEndian.Uint64(b), off+8
	}
	if count > p.length/8 {
		return damaged("the free list is longer than its page")
	}
	ids, err := f.bytesOf(p, off, count*8)
	if err != nil {
		return err
	}
	last := uint64(1)
	for i := range count {
		id := binary.NativeEndian.Uint64(ids[i*8:])
		if id <= last || id >= f.meta.high {
			return damaged("the free list names page %d behind page %d", id, last)
		}
		f.free.add(id)
		last = id
	}
	return f.use(p.id, p.length/uint64(f.pageSize))
}

// account checks that every page is either used or free. It can only be told
// after a deep walk, and with a free list.
func (f *boltFile) account() error {
	if f.depth < deep || f.meta.freelist == 1<<64-1 {
		return nil
	}
	for id := uint64(2); id < f.meta.high; id++ {
		if !f.used.has(id) && !f.free.has(id) {
			return damaged("page %d is neither in use nor free", id)
		}
	}
	return nil
}

// bitset is a set of page numbers.
type bitset []uint64

func newBitset(n uint64) bitset { return make(bitset, n/64+1) }

func (s bitset) has(i uint64) bool { return s[i/64]&(1<<(i%64)) != 0 }

// add reports whether i was not yet in the set.
func (s bitset) add(i uint64) bool {
	if s.has(i) {
		return false
	}
	s[i/64] |= 1 << (i % 64)
	return true
}
