package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/runtime"
)

// cliNode is the node number the command line writes under unless told
// otherwise: the last one, which programs are least likely to use.
const cliNode = evtid.MaxNode

// appendBatch is the largest number of lines sent in one round trip.
const appendBatch = 256

func (a *app) appendCommand() *cobra.Command {
	var (
		where streamFlags
		how   writerFlags
	)
	cmd := &cobra.Command{
		Use:   "append --queue Q --stream S < events.jsonl",
		Short: "Append JSON lines from standard input, printing one receipt per line",
		Long: "Each line is a JSON object of scalars; its members become the fields of one\n" +
			"record, in their order. One id per line is printed, in order. A line that is\n" +
			"refused ends the command with its number; the lines before it are kept.\n\n" +
			"A stream has one writer at a time: do not append to a stream that a running\n" +
			"program writes.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stream, err := where.resolve()
			if err != nil {
				return err
			}
			return a.appendLines(cmd.Context(), stream, how)
		},
	}
	where.add(cmd)
	how.add(cmd, "batch")
	a.outputFlag(cmd, "id", "id")
	return cmd
}

func (a *app) appendLines(ctx context.Context, stream keyspace.Stream, how writerFlags) (err error) {
	rt, err := runtime.Start(ctx, runtime.Config{
		Redis: a.redisConfig(), Node: how.node, MaxRecordBytes: how.maxRecord,
		Streams: []runtime.Stream{{Queue: stream.Queue(), Name: stream.Name()}},
	})
	if err != nil {
		return err
	}
	defer func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), how.timeout)
		defer cancel()
		err = errors.Join(err, rt.Stop(stopCtx))
	}()
	log, err := rt.Stream(stream.Queue(), stream.Name())
	if err != nil {
		return err
	}
	out := &itemPrinter{format: a.output, out: bufio.NewWriter(a.out)}
	lines := readLines(ctx, a.in, how.maxRecord)
	for {
		batch, readErr := lines.next(ctx)
		if err := a.appendOnce(ctx, log, batch, how.timeout, out); err != nil {
			return errors.Join(err, out.flush(false))
		}
		last := errors.Is(readErr, io.EOF)
		if err := out.flush(last); err != nil {
			return fmt.Errorf("receipts: %w", err)
		}
		if last {
			return nil
		}
		if readErr != nil {
			return readErr
		}
	}
}

// appendOnce appends one batch and prints a receipt for each committed record.
func (a *app) appendOnce(ctx context.Context, log *runtime.Log, batch []inputLine, timeout time.Duration, out *itemPrinter) error {
	if len(batch) == 0 {
		return nil
	}
	records := make([][]evtlog.Field, len(batch))
	for i, l := range batch {
		records[i] = l.fields
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	receipts, err := log.AppendBatch(ctx, records)
	for i, r := range receipts {
		if r.Err != nil {
			return &lineError{line: batch[i].number, err: r.Err, behind: kept(batch[i+1:], receipts[i+1:])}
		}
		if err := printReceipt(out, r.ID); err != nil {
			return err
		}
	}
	return err
}

// kept returns the numbers of the lines that were committed.
func kept(batch []inputLine, receipts []publisher.Receipt) []int {
	var lines []int
	for i, r := range receipts {
		if r.Err == nil {
			lines = append(lines, batch[i].number)
		}
	}
	return lines
}

func printReceipt(out *itemPrinter, id evtid.ID) error {
	switch out.format {
	case "id":
		return out.put(id.AppendTo(nil))
	case "table":
		return out.put(fmt.Appendf(nil, "%s  %s", id, id.Time().Format("2006-01-02 15:04:05.000")))
	}
	return out.put(fmt.Appendf(nil, `{"id":"%s"}`, id))
}

// inputLine is one parsed line; number counts from 1.
type inputLine struct {
	number int
	fields []evtlog.Field
	err    error
}

// lineReader parses lines in a goroutine of its own, so that a batch takes what
// is there without waiting for more.
type lineReader struct {
	lines <-chan inputLine
}

func readLines(ctx context.Context, in io.Reader, maxRecord int) *lineReader {
	lines := make(chan inputLine, appendBatch)
	go func() {
		defer close(lines)
		scan := bufio.NewScanner(in)
		// A byte takes at most six in JSON; the rest is for punctuation.
		scan.Buffer(make([]byte, 0, 64<<10), 8*maxRecord+64<<10)
		number := 0
		send := func(l inputLine) bool {
			select {
			case lines <- l:
				return l.err == nil
			case <-ctx.Done():
				return false
			}
		}
		for scan.Scan() {
			number++
			line := bytes.TrimSpace(scan.Bytes())
			if len(line) == 0 {
				continue
			}
			fields, err := parseFields(line)
			if err == nil {
				err = evtlog.CheckFields(fields, maxRecord)
			}
			if !send(inputLine{number: number, fields: fields, err: err}) {
				return
			}
		}
		if err := scan.Err(); err != nil {
			if errors.Is(err, bufio.ErrTooLong) {
				err = fmt.Errorf("it is longer than a record of %d bytes can be; store the body elsewhere, or raise --max-record-bytes", maxRecord)
			}
			send(inputLine{number: number + 1, err: err})
		}
	}()
	return &lineReader{lines: lines}
}

// next returns what has been read, waiting for one line only when there is
// none. The error is io.EOF itself behind the last line, a *lineError, or the
// cause of ctx; lines before it are returned with it.
func (r *lineReader) next(ctx context.Context) ([]inputLine, error) {
	var batch []inputLine
	for len(batch) < appendBatch {
		l, open, ready := r.receive(ctx, len(batch) == 0)
		if !ready {
			if len(batch) == 0 {
				return nil, context.Cause(ctx)
			}
			return batch, nil
		}
		if !open {
			return batch, io.EOF
		}
		if l.err != nil {
			return batch, &lineError{line: l.number, err: l.err}
		}
		batch = append(batch, l)
	}
	return batch, nil
}

// receive takes one line. ready is false when there was none: at once, or with
// wait when ctx ended first, because whoever writes the lines may be a person.
func (r *lineReader) receive(ctx context.Context, wait bool) (l inputLine, open, ready bool) {
	if wait {
		select {
		case l, open = <-r.lines:
			return l, open, true
		case <-ctx.Done():
			return l, false, false
		}
	}
	select {
	case l, open = <-r.lines:
		return l, open, true
	default:
		return l, false, false
	}
}
