package archivetest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
)

// A fold whose reply is lost is simply done again: the archive knows it.
func ExampleMemory() {
	ctx := context.Background()
	feed := evtlog.StreamName{Queue: "cm", Name: "feed"}
	arch := archivetest.NewMemory()

	arch.SetHook(func(_ context.Context, step archivetest.Step) error {
		if step == archivetest.AfterFold {
			return errors.New("the reply was lost")
		}
		return nil
	})
	_, err := arch.Fold(ctx, feed, evtid.ID{}, archivetest.Records(1, 3))
	fmt.Println(err)

	arch.SetHook(nil)
	w, err := arch.Fold(ctx, feed, evtid.ID{}, archivetest.Records(1, 3))
	fmt.Println(w, err)
	// Output:
	// the reply was lost
	// EVT0000000quqe <nil>
}

// A hook lets another client act between two commands of a read.
func ExampleMemoryLive() {
	var live archivetest.MemoryLive
	_ = live.Append(archivetest.Records(1, 3)...)
	live.SetHook(func(_ context.Context, step archivetest.Step) error {
		if step == archivetest.BeforeFloor {
			live.Seal(archivetest.ID(2))
			live.TrimThrough(archivetest.ID(2))
		}
		return nil
	})
	page, floor, err := live.Page(context.Background(), evtid.ID{}, evtid.Max, 10)
	fmt.Println(len(page), floor == archivetest.ID(2), err)
	fmt.Println(len(live.Records()))
	// Output:
	// 3 true <nil>
	// 1
}
