package archive_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
)

// A reader joins what was archived and what is still live.
func ExampleReader() {
	ctx := context.Background()
	stream := evtlog.StreamName{Queue: "cm", Name: "feed"}
	live, arch := new(archivetest.MemoryLive), archivetest.NewMemory()

	// Five records; the first three are folded and then trimmed.
	_ = live.Append(archivetest.Records(1, 5)...)
	w, _ := arch.Fold(ctx, stream, evtid.ID{}, archivetest.Records(1, 3))
	live.Seal(w)
	live.TrimThrough(w)

	reader := archive.NewReader(stream, live, arch)
	for rec, err := range reader.Read(ctx, evtlog.Window{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(rec.Fields[0].Value, rec.Source)
	}
	// Output:
	// 1 archive
	// 2 archive
	// 3 archive
	// 4 live
	// 5 live
}

// The newest records of a window, newest first.
func ExampleReader_Read_reverse() {
	live := new(archivetest.MemoryLive)
	_ = live.Append(archivetest.Records(1, 9)...)
	reader := archive.NewReader(evtlog.StreamName{Queue: "cm", Name: "feed"}, live, nil)
	for rec, err := range reader.Read(context.Background(), evtlog.Window{Reverse: true, Limit: 2}) {
		fmt.Println(rec.Fields[0].Value, err)
	}
	// Output:
	// 9 <nil>
	// 8 <nil>
}

// Without the archive that the older records went to, a read names what it
// cannot have; the caller may go on behind it.
func ExampleGapError() {
	ctx := context.Background()
	live := new(archivetest.MemoryLive)
	_ = live.Append(archivetest.Records(1, 5)...)
	live.Seal(archivetest.ID(3))
	live.TrimThrough(archivetest.ID(3))
	reader := archive.NewReader(evtlog.StreamName{Queue: "cm", Name: "feed"}, live, nil)

	window := evtlog.Window{}
	for range 2 {
		for rec, err := range reader.Read(ctx, window) {
			var gap *archive.GapError
			if errors.As(err, &gap) {
				fmt.Println("missing up to", gap.To)
				window.After = gap.To
				break
			}
			fmt.Println(rec.Fields[0].Value, rec.Source)
		}
	}
	// Output:
	// missing up to EVT0000000quqe
	// 4 live
	// 5 live
}

// A fold on a watermark that has moved changes nothing and says where it is.
func ExampleConflictError() {
	ctx := context.Background()
	stream := evtlog.StreamName{Queue: "cm", Name: "feed"}
	arch := archivetest.NewMemory()
	_, _ = arch.Fold(ctx, stream, evtid.ID{}, archivetest.Records(1, 3))

	_, err := arch.Fold(ctx, stream, evtid.ID{}, archivetest.Records(1, 4))
	var conflict *archive.ConflictError
	if errors.As(err, &conflict) {
		w, err := arch.Fold(ctx, stream, conflict.Watermark, archivetest.Records(4, 4))
		fmt.Println(w == archivetest.ID(4), err)
	}
	// Output: true <nil>
}

func ExampleCheckFold() {
	records := archivetest.Records(4, 6)
	records[1], records[2] = records[2], records[1]
	err := archive.CheckFold(evtlog.StreamName{Queue: "cm", Name: "feed"}, archivetest.ID(3), records)
	fmt.Println(errors.Is(err, archive.ErrRejected))
	// Output: true
}
