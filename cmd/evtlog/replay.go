package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

func (a *app) replayCommand() *cobra.Command {
	var (
		where    streamFlags
		from, to string
		join     joinFlags
		w        evtlog.Window
	)
	cmd := &cobra.Command{
		Use:   "replay --queue Q --stream S [--from T] [--to T]",
		Short: "Read records back, by wall-clock window, from archive and live stream",
		Long: "Prints the records of a window in mint order. --from and --to are instants\n" +
			"(RFC 3339) or EVT ids; both ends are included. --archive joins a local archive\n" +
			"file with the live stream, --nodes a replicated archive. It may take any time;\n" +
			"an archive that gives nothing for --archive-timeout ends it.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stream, err := where.resolve()
			if err != nil {
				return err
			}
			if err := parseWindow(&w, from, to); err != nil {
				return usage(err)
			}
			return a.replay(cmd.Context(), stream, &join, w)
		},
	}
	where.add(cmd)
	cmd.Flags().StringVar(&from, "from", "", "first instant or id (default: the oldest record)")
	cmd.Flags().StringVar(&to, "to", "", "last instant or id (default: the newest record)")
	cmd.Flags().IntVar(&w.Limit, "limit", 0, "largest number of records (0: all)")
	cmd.Flags().BoolVar(&w.Reverse, "reverse", false, "newest first")
	join.add(cmd, "join")
	a.outputFlag(cmd, "jsonl", "id")
	return cmd
}

// parseWindow reads both ends, each an RFC 3339 instant or an EVT id.
func parseWindow(w *evtlog.Window, from, to string) error {
	if from != "" {
		if id, err := evtid.Parse(from); err == nil {
			w.After = id.Prev()
		} else {
			since, err := sinceInstant("from", from)
			if err != nil {
				return err
			}
			w.After = since.After
		}
	}
	if to != "" {
		if id, err := evtid.Parse(to); err == nil {
			w.To = id
		} else {
			t, err := parseInstant("to", to)
			if err != nil {
				return err
			}
			until, err := evtlog.Between(time.UnixMilli(0), t)
			if err != nil {
				return err
			}
			if w.To = until.To; until.After == evtid.Max {
				w.After = evtid.Max
			}
		}
	}
	return w.Check()
}

func sinceInstant(flag, s string) (evtlog.Window, error) {
	t, err := parseInstant(flag, s)
	if err != nil {
		return evtlog.Window{}, err
	}
	return evtlog.Since(t)
}

func parseInstant(flag, s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return t, fmt.Errorf("--%s %q is neither an EVT id nor an RFC 3339 instant such as 2026-01-02T15:04:05Z", flag, s)
	}
	return t, nil
}

func (a *app) replay(ctx context.Context, stream keyspace.Stream, join *joinFlags, w evtlog.Window) (err error) {
	client, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	joined, shut, err := join.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shut()) }()
	name := evtlog.StreamName{Queue: stream.Queue(), Name: stream.Name()}
	live := client.Log(stream)
	reader := archive.NewReader(name, live, joined)
	out := bufio.NewWriterSize(a.out, 64<<10)
	p := &recordPrinter{itemPrinter: itemPrinter{format: a.output, out: out}}
	for r, err := range reader.Read(ctx, w) {
		if err == nil {
			err = p.print(r)
		}
		if err != nil {
			return errors.Join(err, out.Flush())
		}
	}
	if p.n == 0 {
		if err := checkKnown(ctx, live, joined, name); err != nil {
			return err
		}
	}
	return p.flush(true)
}

// checkKnown tells a stream that has nothing in the window from one that nobody
// has ever heard of, as after a slip in its name. joined may be nil.
func checkKnown(ctx context.Context, live *redislog.Log, joined archive.Archive, name evtlog.StreamName) error {
	info, err := live.Info(ctx)
	if err != nil || info.Exists {
		return err
	}
	if joined != nil {
		if w, err := joined.Watermark(ctx, name); err != nil || !w.IsZero() {
			return err
		}
	}
	return absent(name.String())
}

// recordPrinter writes records in one of the output formats as they come.
type recordPrinter struct {
	itemPrinter
	buf []byte
}

func (p *recordPrinter) print(r evtlog.Record) (err error) {
	p.buf = p.buf[:0]
	switch p.format {
	case "id":
		p.buf = r.ID.AppendTo(p.buf)
	case "table":
		p.buf = fmt.Appendf(p.buf, "%s  %s  %-7s  %s", r.ID, r.ID.Time().Format("2006-01-02 15:04:05.000"), r.Source, fieldsText(r.Fields))
	default:
		p.buf, err = appendRecordJSON(p.buf, r)
	}
	if err != nil {
		return err
	}
	return p.put(p.buf)
}

func fieldsText(fields []evtlog.Field) string {
	var b strings.Builder
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%q", f.Name, f.Value)
	}
	return b.String()
}
