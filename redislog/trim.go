package redislog

import (
	"context"
	"errors"
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// TrimPolicy says what a plain trim may remove. Exactly one of MaxLen and MinID
// is set.
type TrimPolicy struct {
	// MaxLen keeps the newest so many entries.
	MaxLen int64
	// MinID keeps this position and everything above it.
	MinID evtid.Bound
	// Exact trims to the entry. Otherwise Redis removes whole nodes only and
	// keeps up to one node, about 100 entries, more than asked.
	Exact bool
}

func (p TrimPolicy) words(key string) (command, error) {
	byID := p.MinID != evtid.Bound{}
	switch {
	case p.MaxLen < 0:
		return nil, badArgument("Trim", "MaxLen", "it is negative")
	case p.MaxLen == 0 && !byID:
		return nil, badArgument("Trim", "policy", "it is empty, which would remove everything; set MaxLen or MinID")
	case p.MaxLen > 0 && byID:
		return nil, badArgument("Trim", "policy", "it has both MaxLen and MinID")
	}
	mode := "~"
	if p.Exact {
		mode = "="
	}
	if byID {
		return command{"XTRIM", key, "MINID", mode, p.MinID.String()}, nil
	}
	return command{"XTRIM", key, "MAXLEN", mode, p.MaxLen}, nil
}

// trimStep is how many removals tell that an approximate trim stopped at the
// server's own limit per call (100 nodes) and has more to do.
const trimStep = 1000

// Trim removes the oldest entries by policy and returns how many went. It
// records nothing: a group that has not been given them never sees them. Use
// TrimThrough where groups read. It works when the server is out of memory.
func (l *Log) Trim(ctx context.Context, p TrimPolicy) (removed int64, err error) {
	cmd, err := p.words(l.stream.Key())
	if err != nil {
		return 0, err
	}
	for {
		var n int64
		err := l.ask(ctx, "XTRIM", cmd, func(reply any) (err error) {
			n, err = integer(reply)
			return err
		})
		removed += n
		if err != nil || n < trimStep || p.Exact {
			return removed, err
		}
	}
}

// Seal publishes the archive's watermark w: first the floor, the proof that
// readers rely on and that never goes down, then the string for foreign readers.
// It is called after the archive has w for good and before anything at or below
// it is trimmed; repeating it is harmless. When the floor is above w already,
// the string follows the floor.
func (l *Log) Seal(ctx context.Context, w evtid.ID) error {
	if w.IsZero() {
		return badArgument("Seal", "watermark", "it is the zero id")
	}
	return l.with(ctx, "seal", func(s *session) error {
		replies, err := s.write(l.stream, l.floorCommand(w), l.archivedCommand(w))
		if err != nil {
			return err
		}
		err = s.refusalAt(replies[0], "XADD "+l.stream.Floor())
		switch {
		case errors.Is(lookUpErr(err), evtlog.ErrNonMonotonic):
			return l.followFloor(s, w)
		case err != nil:
			return err
		}
		return s.firstRefusal(replies)
	})
}

func (l *Log) floorCommand(w evtid.ID) command {
	return command{"XADD", l.stream.Floor(), "MAXLEN", "=", 1, w.Entry(), "w", "1"}
}

func (l *Log) archivedCommand(w evtid.ID) command {
	return command{"SET", l.stream.Archived(), w.String()}
}

// followFloor sets the string again when the floor turns out to be above w.
func (l *Log) followFloor(s *session, w evtid.ID) error {
	floor, found, err := l.readFloor(s)
	if err != nil || !found || !w.Less(floor) {
		return err
	}
	replies, err := s.write(l.stream, l.archivedCommand(floor))
	if err != nil {
		return err
	}
	return s.firstRefusal(replies)
}

func (l *Log) readFloor(s *session) (floor evtid.ID, found bool, err error) {
	reply, err := s.do(command{"XREVRANGE", l.stream.Floor(), "+", "-", "COUNT", 1})
	if err != nil {
		return evtid.ID{}, false, err
	}
	floor, _, found, err = firstID(reply)
	if err != nil {
		return evtid.ID{}, false, err
	}
	return floor, found, nil
}

// lookUpErr returns the sentinel of a refusal, nil for anything else.
func lookUpErr(err error) error {
	if err == nil {
		return nil // before anything is allocated: every reply comes this way
	}
	var server *ServerError
	if errors.As(err, &server) {
		return server.sentinel
	}
	return nil
}

// TrimEffectError says that a trim did not leave what it should have: the
// server removed entries above the target, or none at all. Stop trimming and
// upgrade the server; compare the stream with the archive.
type TrimEffectError struct {
	Stream evtlog.StreamName
	// Through is the newest entry that was to go.
	Through evtid.ID
	// Want is the entry id that should be the oldest now, Got the one that is;
	// "" is none.
	Want, Got string
}

// Error implements error.
func (e *TrimEffectError) Error() string {
	return fmt.Sprintf("redislog: after the trim of %s through %s the oldest entry is %q, not %q: the server trims wrongly; stop trimming and upgrade it", e.Stream, e.Through, e.Got, e.Want)
}
