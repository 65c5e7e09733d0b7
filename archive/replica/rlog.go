package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// raftLogger returns an hclog.Logger whose lines go to l. raft writes nothing to
// stderr by itself.
func raftLogger(l *slog.Logger) hclog.Logger {
	base := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Level: hclog.Off, Output: io.Discard})
	base.RegisterSink(slogSink{l})
	return base
}

type slogSink struct{ l *slog.Logger }

// Accept implements hclog.SinkAdapter.
func (s slogSink) Accept(name string, level hclog.Level, msg string, args ...any) {
	lvl := raftLevel(level)
	if slices.ContainsFunc(args, nothingNew) {
		lvl = slog.LevelDebug
	}
	if !s.l.Enabled(context.Background(), lvl) {
		return
	}
	attrs := make([]any, 0, len(args)+2)
	attrs = append(attrs, "component", name)
	for i, a := range args {
		// hclog.Fmt is a format with its arguments, made for hclog only.
		if f, ok := a.(hclog.Format); ok && i%2 == 1 {
			a = formatted(f)
		}
		attrs = append(attrs, a)
	}
	s.l.Log(context.Background(), lvl, msg, attrs...)
}

// nothingNew recognises what raft calls an error at each snapshot interval of a
// node that has installed a snapshot and has not applied an entry since.
func nothingNew(arg any) bool {
	err, ok := arg.(error)
	return ok && errors.Is(err, raft.ErrNothingNewToSnapshot)
}

// raftLevel maps raft's levels. Its "info" tells of every snapshot and vote; it
// becomes debug, so that a quiet cluster is quiet.
func raftLevel(level hclog.Level) slog.Level {
	switch {
	case level >= hclog.Error:
		return slog.LevelError
	case level == hclog.Warn:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func formatted(f hclog.Format) any {
	if len(f) == 0 {
		return ""
	}
	pattern, ok := f[0].(string)
	if !ok {
		return fmt.Sprint(f...)
	}
	return fmt.Sprintf(pattern, f[1:]...)
}
