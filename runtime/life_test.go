package runtime

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/evtlog/evtlog"
)

// What a stop breaks under way keeps its own error and says that it was the stop.
func TestExplain(t *testing.T) {
	ctx, end := context.WithCancel(context.Background())
	l := life{ctx}
	broken := errors.New("the socket is closed")
	if err := l.explain("read", broken); err != broken { //nolint:errorlint // the very same, not wrapped
		t.Errorf("while it runs: %v", err)
	}
	end()
	err := l.explain("read", &net.OpError{Op: "read", Err: broken})
	if !errors.Is(err, evtlog.ErrStopped) || !errors.Is(err, broken) {
		t.Errorf("after the stop: %v", err)
	}
	if again := l.explain("read", err); again != err { //nolint:errorlint // the very same, not wrapped
		t.Errorf("said twice: %v", again)
	}
	if err := l.explain("read", nil); err != nil {
		t.Errorf("of nothing: %v", err)
	}
}
