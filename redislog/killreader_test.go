package redislog

import (
	"errors"
	"testing"

	"github.com/evtlog/evtlog"
)

func TestKillReaderEndsOnlyTheMembersOwnConnection(t *testing.T) {
	_, l := realLog(t)
	createGroup(t, l, "g", Head())
	g := readerOf(t, l, "g", "c")
	alive := func() error { _, err := g.ReadNew(1, 0); return err }
	// After a restart another connection may have the number.
	for _, other := range [][2]string{{"g", "d"}, {"h", "c"}, {"g", "cc"}} {
		if err := l.KillReader(t.Context(), other[0], other[1], g.ClientID()); err != nil {
			t.Fatal(err)
		}
		if err := alive(); err != nil {
			t.Fatalf("the reader of g/c was ended as one of %v: %v", other, err)
		}
	}
	if err := l.KillReader(t.Context(), "g", "c", g.ClientID()); err != nil {
		t.Fatal(err)
	}
	if err := alive(); !errors.Is(err, evtlog.ErrUnavailable) {
		t.Errorf("after it was ended: %v", err)
	}
	if err := l.KillReader(t.Context(), "g", "c", g.ClientID()); err != nil {
		t.Errorf("of a connection that is gone: %v", err)
	}
	for _, err := range []error{
		l.KillReader(t.Context(), "g", "c", 0),
		l.KillReader(t.Context(), "", "c", 1),
		l.KillReader(t.Context(), "g", "", 1),
	} {
		if Classify(err) != Caller {
			t.Errorf("got %v", err)
		}
	}
}
