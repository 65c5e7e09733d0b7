package runtime

import (
	"context"
	"log/slog"

	"github.com/evtlog/evtlog"
)

// logged returns an observer that writes each event as a log line before it
// passes it on. What the component that noticed it has written with the same
// logger already is not written twice. A panic of next ends here: it runs in the
// goroutine of the component that reports, and would restart it for ever.
func logged(log *slog.Logger, next evtlog.Observer) evtlog.Observer {
	return func(e evtlog.Event) {
		switch e.(type) {
		case evtlog.SecondWriter, evtlog.StateChanged, evtlog.Restarted:
		default:
			level, msg, attrs := line(e)
			log.Log(context.Background(), level, msg, attrs...)
		}
		defer func() {
			if v := recover(); v != nil {
				log.Error("observer panicked", "event", e, "panic", v)
			}
		}()
		next.Emit(e)
	}
}

// line says an event in words: what happened, and on which level an operator
// wants to hear of it.
func line(e evtlog.Event) (level slog.Level, msg string, attrs []any) {
	switch e := e.(type) {
	case evtlog.Folded:
		return slog.LevelDebug, "folded", []any{"stream", e.Stream, "records", e.Records, "watermark", e.To, "took", e.Took}
	case evtlog.Trimmed:
		return slog.LevelDebug, "trimmed", []any{"stream", e.Stream, "through", e.Through, "removed", e.Removed}
	case evtlog.Lost:
		return slog.LevelError, "records lost", []any{"stream", e.Stream, "group", e.Group, "after", e.After, "to", e.To, "reason", e.Reason}
	case evtlog.Drained:
		return slog.LevelInfo, "own pending entries drained", []any{"stream", e.Stream, "group", e.Group, "consumer", e.Consumer, "entries", e.Entries}
	case evtlog.Reclaimed:
		return slog.LevelInfo, "entries of dead peers taken over", []any{"stream", e.Stream, "group", e.Group, "consumer", e.Consumer, "entries", e.Entries}
	case evtlog.HandlerFailed:
		return slog.LevelWarn, "handler failed", []any{"stream", e.Stream, "group", e.Group, "id", e.ID, "attempts", e.Attempts, "panicked", e.Panicked, "err", e.Err}
	case evtlog.DeadLettered:
		return slog.LevelError, "entry moved to the dead stream", []any{"stream", e.Stream, "group", e.Group, "entry", e.Entry, "attempts", e.Attempts, "reason", e.Reason}
	case evtlog.GroupRecreated:
		return slog.LevelWarn, "group had vanished and was made anew", []any{"stream", e.Stream, "group", e.Group, "at", e.At}
	case evtlog.ServerWarning:
		if e.Cleared {
			return slog.LevelInfo, "setting of redis was corrected", []any{"warning", e.Warning}
		}
		return slog.LevelWarn, "setting of redis", []any{"warning", e.Warning}
	case evtlog.Unbranded:
		return slog.LevelWarn, "entry without its id", []any{"stream", e.Stream, "id", e.ID, "stored", e.Stored}
	}
	return slog.LevelInfo, "event", []any{"event", e}
}
