package portable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/portable"
)

// nothing is a node that holds no volume.
type nothing struct{}

func (nothing) Volumes(context.Context) ([]api.Volume, error) { return nil, nil }

func (nothing) Commits(context.Context, evtlog.StreamName, uint64) iter.Seq2[[]byte, error] {
	return func(func([]byte, error) bool) {}
}

func ExampleExport() {
	ctx := context.Background()
	var file bytes.Buffer
	sum, err := portable.Export(ctx, nothing{}, &file)
	fmt.Println(sum.Commits, err)

	_, err = portable.Check(ctx, bytes.NewReader(file.Bytes()))
	fmt.Println(err)
	_, err = portable.Check(ctx, bytes.NewReader(file.Bytes()[:file.Len()-1]))
	fmt.Println(errors.Is(err, portable.ErrBadFile))
	// Output:
	// 0 <nil>
	// <nil>
	// true
}
