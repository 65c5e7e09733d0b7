package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog/keyspace"
)

// quietFor is how old the newest record of another node must be for a stream to
// count as not being written.
const quietFor = 10 * time.Second

// replayFlags say how to replay.
type replayFlags struct {
	writerFlags
	dry, yes, beside bool
}

func (a *app) deadReplayCommand() *cobra.Command {
	var (
		where deadFlags
		how   replayFlags
	)
	cmd := &cobra.Command{
		Use:   "replay --queue Q --stream S [--group G] [--id ID] --dry-run | --yes",
		Short: "Append the fields of dead letters to their stream anew",
		Long: "Each letter becomes a new record of S: the fields of the original entry, then\n" +
			fieldReplayOf + " (the original id), " + fieldReplayDead + " (the letter's id) and " + fieldReplayGroup + ". Every group of S is\n" +
			"given it, not only the one that gave up. An original id field comes back as dead_id.\n\n" +
			"A letter is replayed once: a mark in the dead stream says as what. Interrupted\n" +
			"between a record and its mark, the next run finds the record in the stream and\n" +
			"sets the mark (\"settled\"); only when the record left the stream meanwhile, and\n" +
			"--archive does not have it either, would it be appended a second time.\n\n" +
			"A stream has one writer at a time, and an append of a program that writes S may\n" +
			"be refused while this command appends. So it does nothing when another node has\n" +
			"appended to S within the last " + quietFor.String() + ", unless --beside-writer is given.\n\n" +
			"-o table and json print the counts; jsonl prints what became of each letter.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stream, selection, err := where.resolve()
			switch {
			case err != nil:
				return err
			case how.dry == how.yes:
				return usage(errors.New("replay appends to the stream: give --yes to do it, or --dry-run to see how many records that would be"))
			}
			return a.deadReplay(cmd.Context(), stream, selection, &where.archive, how)
		},
	}
	where.add(cmd)
	cmd.Flags().BoolVar(&how.dry, "dry-run", false, "append nothing, and print the exact counts")
	cmd.Flags().BoolVar(&how.yes, "yes", false, "append")
	cmd.Flags().BoolVar(&how.beside, "beside-writer", false, "append although another program writes the stream")
	how.add(cmd, "append")
	a.outputFlag(cmd, "table")
	return cmd
}

// replayReport counts letters.
type replayReport struct {
	DryRun bool `json:"dry_run"`
	// Already were replayed by an earlier run. They are not among Selected.
	Already int `json:"already_replayed"`
	// Selected are to be replayed. They end up as Replayed, as Settled (an earlier
	// run had appended them, and only the mark was missing), as Refused, or, when
	// the command failed before it came to them, as nothing.
	Selected int `json:"selected"`
	Replayed int `json:"replayed"`
	Settled  int `json:"settled"`
	Refused  int `json:"refused"`
}

func (r replayReport) rows() [][2]string {
	replayed := "replayed"
	if r.DryRun {
		replayed = "to be replayed"
	}
	return [][2]string{
		{"already replayed", strconv.Itoa(r.Already)},
		{"selected", strconv.Itoa(r.Selected)},
		{replayed, strconv.Itoa(r.Replayed)},
		{"settled", strconv.Itoa(r.Settled)},
		{"refused", strconv.Itoa(r.Refused)},
	}
}

// deadReplay replays, or counts what would be.
func (a *app) deadReplay(ctx context.Context, stream keyspace.Stream, s deadSelection, join *joinFlags, how replayFlags) (err error) {
	d, err := a.openDead(ctx, stream, join)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	r := &replayer{app: a, deadLog: d, how: how, owner: fmt.Sprintf("%d/%d", os.Getpid(), time.Now().UnixNano())}
	r.report.DryRun = how.dry
	if err := r.mayWrite(ctx); err != nil {
		return err
	}
	if !how.dry {
		outliveReader() // the lease is given back
		if err := r.extend(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.release(ctx)) }()
	}
	x, err := d.index(ctx, s)
	if err != nil {
		return err
	}
	a.noteStrange(x, d)
	err = r.all(ctx, x)
	if a.output != "jsonl" {
		return errors.Join(err, a.show(r.report, r.report.rows()))
	}
	for _, row := range r.report.rows() {
		fmt.Fprintf(a.err, "%s: %s\n", row[0], row[1])
	}
	return err
}
