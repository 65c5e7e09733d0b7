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
	"github.com/evtlog/evtlog/redislog"
)

// foreignFlags say what is done about foreign entries.
type foreignFlags struct {
	join              joinFlags
	remove, yes, drop bool
}

func (a *app) foreignCommand() *cobra.Command {
	var (
		where streamFlags
		how   foreignFlags
	)
	cmd := &cobra.Command{
		Use:   "foreign --queue Q --stream S [--remove [--yes]]",
		Short: "Find entries at positions that no EVT id can have, and remove them",
		Long: "Such an entry comes from a program that makes its own entry ids. Reads, followers\n" +
			"and the archiver stop in front of it. Each is printed as JSON, whole, with what\n" +
			"stands below it in the stream.\n\n" +
			"--remove says for each whether it can be removed; with --yes it is. Nothing is\n" +
			"deleted in the middle of a stream: what stands below is trimmed first, and only\n" +
			"when the archive, which --archive or --nodes names, has all of it. A stream that\n" +
			"has no archive loses those records; --drop-below allows that. An entry is printed\n" +
			"before it is removed: keep the output, and append the fields anew if they matter.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stream, err := where.resolve()
			switch {
			case err != nil:
				return err
			case (how.yes || how.drop) && !how.remove:
				return usage(errors.New("--yes and --drop-below go with --remove"))
			case how.remove && a.output != "jsonl":
				return usage(errors.New("--remove prints what it removes as jsonl only, so that nothing is lost"))
			}
			client, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer client.Close()
			return a.foreign(cmd.Context(), client.Log(stream), &how)
		},
	}
	where.add(cmd)
	how.join.add(cmd, "see what stands below it in")
	cmd.Flags().BoolVar(&how.remove, "remove", false, "say what can be removed, and with --yes remove it")
	cmd.Flags().BoolVar(&how.yes, "yes", false, "remove")
	cmd.Flags().BoolVar(&how.drop, "drop-below", false, "also lose the records below it, in a stream without an archive")
	a.outputFlag(cmd, "jsonl")
	return cmd
}

func (a *app) foreign(ctx context.Context, log *redislog.Log, how *foreignFlags) (err error) {
	if info, err := log.Info(ctx); err != nil {
		return err
	} else if !info.Exists {
		return absent(log.Stream().String())
	}
	arch, shut, err := how.join.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shut()) }()
	r := &foreignRemover{log: log, out: &itemPrinter{format: a.output, out: bufio.NewWriter(a.out)}, how: how}
	if r.reach, err = r.reached(ctx, arch); err != nil {
		return err
	}
	if how.yes {
		return r.removeAll(ctx, func(entry string) { fmt.Fprintf(a.err, "removed %s\n", entry) })
	}
	return r.list(ctx)
}

// reach is how far the records of a stream are kept elsewhere.
type reach struct {
	// archived: there is an archive, with this watermark.
	archived  bool
	watermark evtid.ID
	// sealed is what Redis says was archived, whoever did it.
	sealed evtid.ID
}

// foreignStep is what can be done about a foreign entry.
type foreignStep string

const (
	// stepRemove: nothing stands below it, or what does is archived.
	stepRemove foreignStep = "removable"
	// stepDrop: what stands below it goes with it.
	stepDrop foreignStep = "removable, and the records below it are lost"
	// stepWait: what stands below it is not archived yet.
	stepWait foreignStep = "not removable: the records below it are not all archived; see that the archiver runs, and try again"
	// stepAsk: what stands below it is in no archive that was named.
	stepAsk foreignStep = "not removable: records stand below it; name their archive with --archive or --nodes, or give them up with --drop-below"
	// stepName: the stream has an archive, which was not named.
	stepName foreignStep = "not removable: the stream is archived; name its archive with --archive or --nodes"
)

// decideForeign says what can be done about an entry.
func decideForeign(e redislog.ForeignEntry, r reach, drop bool) foreignStep {
	switch {
	case e.Records == 0:
		return stepRemove
	case r.archived && !r.watermark.Less(e.Newest):
		return stepRemove
	case r.archived:
		return stepWait
	case !r.sealed.IsZero():
		// A trim above the floor would hide from all readers that records are gone.
		return stepName
	case drop:
		return stepDrop
	}
	return stepAsk
}

// foreignRemover lists and removes.
type foreignRemover struct {
	log   *redislog.Log
	out   *itemPrinter
	how   *foreignFlags
	reach reach
}

func (r *foreignRemover) reached(ctx context.Context, arch archive.Archive) (found reach, err error) {
	if found.sealed, err = r.log.Floor(ctx); err != nil || arch == nil {
		return found, err
	}
	found.archived = true
	s := r.log.Stream()
	found.watermark, err = arch.Watermark(ctx, evtlog.StreamName{Queue: s.Queue(), Name: s.Name()})
	return found, err
}

// list prints all of them, and changes nothing.
func (r *foreignRemover) list(ctx context.Context) error {
	for e, err := range r.log.Foreign(ctx) {
		if err != nil {
			return errors.Join(err, r.out.flush(false))
		}
		state := "found"
		if r.how.remove {
			state = string(decideForeign(e, r.reach, r.how.drop))
		}
		if err := r.print(e, state); err != nil {
			return err
		}
	}
	return r.out.flush(true)
}

// removeAll removes the oldest one until there is none, or one that has to stay.
func (r *foreignRemover) removeAll(ctx context.Context, removed func(entry string)) error {
	for {
		e, found, err := r.oldest(ctx)
		if err != nil || !found {
			return err
		}
		step := decideForeign(e, r.reach, r.how.drop)
		if step != stepRemove && step != stepDrop {
			return fmt.Errorf("foreign entry %s, with %d records below it: %s", e.Entry, e.Records, step)
		}
		// On its way to the operator before it is gone.
		if err := errors.Join(r.print(e, "removing"), r.out.flush(false)); err != nil {
			return err
		}
		if err := r.clear(ctx, e, step); err != nil {
			return err
		}
		if err := r.log.RemoveForeign(ctx, e.Entry); err != nil {
			return err
		}
		removed(e.Entry)
	}
}

func (r *foreignRemover) oldest(ctx context.Context) (redislog.ForeignEntry, bool, error) {
	for e, err := range r.log.Foreign(ctx) {
		return e, err == nil, err
	}
	return redislog.ForeignEntry{}, false, nil
}

// clear trims what stands below an entry. What is archived is sealed first: readers
// know by the floor what a trim may have taken.
func (r *foreignRemover) clear(ctx context.Context, e redislog.ForeignEntry, step foreignStep) error {
	if e.Records == 0 {
		return nil
	}
	if step == stepRemove {
		if err := r.log.Seal(ctx, r.reach.watermark); err != nil {
			return err
		}
	}
	_, err := r.log.TrimThrough(ctx, e.Newest)
	return err
}

func (r *foreignRemover) print(e redislog.ForeignEntry, state string) error {
	if r.out.format == "table" {
		return r.out.put(fmt.Appendf(nil, "%s  %s  %d records below  %s", e.Entry, foreignTime(e.Entry), e.Records, fieldsText(e.Fields)))
	}
	line := fmt.Appendf(nil, `{"entry":"%s","at":"%s","records_below":%d,"newest_below":"%s","state":"%s"`, e.Entry, foreignTime(e.Entry), e.Records, e.Newest, state)
	line, err := appendFieldsJSON(line, e.Fields)
	if err != nil {
		return err
	}
	return r.out.put(line)
}

// foreignTime reads the millisecond of a position, "" when it is no instant.
func foreignTime(entry string) string {
	ms, _, _ := strings.Cut(entry, "-")
	d, err := time.ParseDuration(ms + "ms")
	if err != nil {
		return ""
	}
	return time.UnixMilli(d.Milliseconds()).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
