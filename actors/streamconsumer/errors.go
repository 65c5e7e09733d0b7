package streamconsumer

import (
	"errors"
	"fmt"

	"github.com/evtlog/evtlog/evtid"
)

// ErrNotOwner is the cause in a handler's context when the member has lost the
// entry to another one, which handles it now. Stop working on it; whatever the
// handler returns, the entry is not acknowledged here.
var ErrNotOwner = errors.New("the entry belongs to another member")

func errNotOwner(id evtid.ID) error {
	return fmt.Errorf("streamconsumer: delivery of %s cancelled: %w; stop working on it", id, ErrNotOwner)
}
