package evtid_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/evtlog/evtlog/evtid"
)

func ExampleParse() {
	id, err := evtid.Parse("EVT0KHTOWnGLuC")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(id.Time().Format(time.RFC3339Nano), "node", id.Node(), "sequence", id.Seq())
	fmt.Println(id.Entry())

	_, err = evtid.Parse("JOB0KHTOWnGLuC")
	fmt.Println(errors.Is(err, evtid.ErrWrongKind), err)
	// Output:
	// 2026-01-27T15:11:37.641Z node 0 sequence 0
	// 1769526697641-0
	// true evtid: id of another kind "JOB0KHTOWnGLuC": the namespace is not EVT
}

func ExampleParseEntry() {
	id, _ := evtid.ParseEntry("1769526697641-0")
	fmt.Println(id)

	_, err := evtid.ParseEntry("7-1") // put there by XADD with an id of its own
	fmt.Println(errors.Is(err, evtid.ErrOverflow), err)
	// Output:
	// EVT0KHTOWnGLuC
	// true evtid: id out of range "7-1": no EVT id has this position
}

func ExampleMinter() {
	stopped := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	m, _ := evtid.NewMinter(evtid.MinterConfig{Node: 7, Now: func() int64 { return stopped }})

	// The stream already holds an id of a writer whose clock is 2 ms ahead.
	top, _ := evtid.Make(stopped+2, 3, 0)
	if err := m.Seed(top); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		id, _ := m.Mint()
		fmt.Println(id.Entry(), top.Less(id))
		top = id
	}
	// Output:
	// 1767225600003-28672 true
	// 1767225600003-28673 true
}

func ExampleMinter_Seed_skew() {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	m, _ := evtid.NewMinter(evtid.MinterConfig{Now: func() int64 { return now }})
	top, _ := evtid.Make(now+90_000, 3, 0)
	fmt.Println(m.Seed(top))
	// Output: evtid: id EVT0JZGr3BdJYW of node 3 is 1m30s ahead of this clock (limit 1m0s): correct the slow or fast clock, or raise MaxSkew
}

func ExampleFloor() {
	from := time.Date(2025, 6, 11, 14, 30, 0, 0, time.UTC)
	to := time.Date(2025, 6, 11, 14, 32, 0, 0, time.UTC)
	floor, _ := evtid.Floor(from)
	ceil, _ := evtid.Ceil(to)
	fmt.Println("XRANGE emq:{cm}:stream:feed", floor, ceil)
	fmt.Println("ids after", floor.Before(), "up to", ceil.Last())
	// Output:
	// XRANGE emq:{cm}:stream:feed 1749652200000-0 1749652320000-4194303
	// ids after EVT0E7gWWmS7Rv up to EVT0E7gfOB4NJv
}
