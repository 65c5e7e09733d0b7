package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

func (a *app) deadCommand() *cobra.Command {
	return group("dead", "List the entries that handlers gave up on, and append them anew",
		a.deadListCommand(), a.deadReplayCommand())
}

// deadFlags name a stream and select from its dead letters.
type deadFlags struct {
	streamFlags
	group, from, to string
	ids             []string
	limit           int
	archive         joinFlags
}

func (f *deadFlags) add(cmd *cobra.Command) {
	f.streamFlags.add(cmd)
	cmd.Flags().StringVar(&f.group, "group", "", "only what this group gave up")
	cmd.Flags().StringSliceVar(&f.ids, "id", nil, "only these, by the id of the letter or of the original entry")
	cmd.Flags().StringVar(&f.from, "from", "", "given up at or after this instant or letter id")
	cmd.Flags().StringVar(&f.to, "to", "", "given up at or before this instant or letter id")
	cmd.Flags().IntVar(&f.limit, "limit", 0, "largest number of letters, oldest first (0: all)")
	f.archive.add(cmd, "join")
}

// resolve checks the flags before anything is dialled.
func (f *deadFlags) resolve() (keyspace.Stream, deadSelection, error) {
	s := deadSelection{group: f.group, ids: f.ids, window: evtlog.Window{Limit: f.limit}}
	stream, err := f.streamFlags.resolve()
	if err != nil {
		return stream, s, err
	}
	if err := named("group", f.group, keyspace.CheckGroup); err != nil {
		return stream, s, err
	}
	if err := parseWindow(&s.window, f.from, f.to); err != nil {
		return stream, s, usage(err)
	}
	return stream, s, nil
}

// deadLog is a stream and its dead stream, open for reading.
type deadLog struct {
	client       *redislog.Client
	stream, dead keyspace.Stream
	archive      archive.Archive
	shut         func() error
}

// openDead connects. A stream that is not there and has no dead stream either is
// not found.
func (a *app) openDead(ctx context.Context, stream keyspace.Stream, join *joinFlags) (*deadLog, error) {
	client, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	d := &deadLog{client: client, stream: stream, dead: stream.Dead(), shut: func() error { return nil }}
	if err = d.exists(ctx); err == nil {
		d.archive, d.shut, err = join.open()
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *deadLog) exists(ctx context.Context) error {
	for _, s := range []keyspace.Stream{d.dead, d.stream} {
		if info, err := d.client.Log(s).Info(ctx); err != nil || info.Exists {
			return err
		}
	}
	return fmt.Errorf("stream %s: %w, nor has it dead letters", d.stream, errNotFound)
}

func (d *deadLog) close() error { return errors.Join(d.shut(), d.client.Close()) }

func (d *deadLog) reader(s keyspace.Stream) *archive.Reader {
	return archive.NewReader(evtlog.StreamName{Queue: s.Queue(), Name: s.Name()}, d.client.Log(s), d.archive)
}

// index reads the whole dead stream once: whether a letter was replayed is said
// by a later record.
func (d *deadLog) index(ctx context.Context, s deadSelection) (*deadIndex, error) {
	x := newDeadIndex(s)
	for r, err := range d.reader(d.dead).Read(ctx, evtlog.Window{}) {
		if err != nil {
			return nil, err
		}
		x.add(r)
	}
	if ids := x.missing(); ids != "" {
		return nil, fmt.Errorf("dead letters of %s: %w: %s; \"evtlog dead ls --all\" lists what is there", d.stream, errNotFound, ids)
	}
	return x, nil
}

// each passes the letters of these ids on, in order. One that was trimmed
// meanwhile is left out.
func (d *deadLog) each(ctx context.Context, ids []evtid.ID, do func(l letter) error) error {
	if len(ids) == 0 {
		return nil
	}
	for r, err := range d.reader(d.dead).Read(ctx, evtlog.Window{After: ids[0].Prev(), To: ids[len(ids)-1]}) {
		if err != nil {
			return err
		}
		for len(ids) > 0 && ids[0].Less(r.ID) {
			ids = ids[1:]
		}
		if len(ids) == 0 || ids[0] != r.ID {
			continue
		}
		l, _ := parseLetter(r)
		if err := do(l); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) deadListCommand() *cobra.Command {
	var (
		where deadFlags
		all   bool
	)
	cmd := &cobra.Command{
		Use:   "ls --queue Q --stream S [--group G]",
		Short: "List the dead letters of a stream",
		Long: "Prints what was moved to the dead stream of S, oldest first: the letter's id, the\n" +
			"id of the original entry, the group that gave it up, after how many attempts and\n" +
			"why, when it failed first and last, and its fields.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stream, selection, err := where.resolve()
			if err != nil {
				return err
			}
			return a.deadList(cmd.Context(), stream, selection, &where.archive, all)
		},
	}
	where.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "also those that were replayed")
	a.outputFlag(cmd, "table", "id")
	return cmd
}

func (a *app) deadList(ctx context.Context, stream keyspace.Stream, s deadSelection, join *joinFlags, all bool) (err error) {
	d, err := a.openDead(ctx, stream, join)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	x, err := d.index(ctx, s)
	if err != nil {
		return err
	}
	ids, replayed := x.open()
	if all {
		ids = x.limited(x.letters)
	} else if replayed > 0 {
		fmt.Fprintf(a.err, "%d letters that were replayed are left out; --all lists them\n", replayed)
	}
	a.noteStrange(x, d)
	p := a.letterPrinter()
	err = d.each(ctx, ids, func(l letter) error { return p.print(l, x.replayed[l.id]) })
	return errors.Join(err, p.flush(err == nil))
}

func (a *app) noteStrange(x *deadIndex, d *deadLog) {
	if x.strange > 0 {
		fmt.Fprintf(a.err, "%d records of %s are no dead letters and are left out\n", x.strange, d.dead)
	}
}

// letterPrinter writes letters in one of the output formats as they come; a
// table when it ends.
type letterPrinter struct {
	recordPrinter
	table *tabwriter.Writer
}

func (a *app) letterPrinter() *letterPrinter {
	p := &letterPrinter{recordPrinter: recordPrinter{itemPrinter: itemPrinter{format: a.output, out: bufio.NewWriterSize(a.out, 64<<10)}}}
	if p.format == "table" {
		p.table = tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(p.table, "LETTER\tLAST FAILED\tGROUP\tATTEMPTS\tORIGINAL\tREPLAYED AS\tREASON\tFIELDS")
	}
	return p
}

// longReason is the longest reason that a table shows whole, in bytes.
const longReason = 60

func (p *letterPrinter) print(l letter, as evtid.ID) (err error) {
	if p.format == "table" {
		reason, again := l.reason, "-"
		if len(reason) > longReason {
			reason = strings.ToValidUTF8(reason[:longReason], "") + "..."
		}
		if !as.IsZero() {
			again = as.String()
		}
		_, err = fmt.Fprintf(p.table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n",
			l.id, cell(l.last), cell(l.group), l.attempts, cell(l.origin), again, cell(reason), fieldsText(l.own))
		return err
	}
	if p.format == "id" {
		return p.put(l.id.AppendTo(p.buf[:0]))
	}
	if p.buf, err = appendLetterJSON(p.buf[:0], l, as); err != nil {
		return err
	}
	return p.put(p.buf)
}

func (p *letterPrinter) flush(last bool) (err error) {
	if p.format == "table" {
		err = p.table.Flush()
	}
	return errors.Join(err, p.recordPrinter.flush(last))
}

// cell returns a text for a table: quoted when a terminal might take a part of
// it for more than text.
func cell(s string) string {
	if quoted := strconv.Quote(s); s == "" || quoted[1:len(quoted)-1] != s {
		return quoted
	}
	return s
}
