package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// seekFlags say where a group is moved.
type seekFlags struct {
	group, to string
	archive   joinFlags
	dry, yes  bool
}

func (a *app) groupSeekCommand() *cobra.Command {
	var (
		where streamFlags
		how   seekFlags
	)
	cmd := &cobra.Command{
		Use:   "seek --queue Q --stream S --group G --to T|ID|head|end --dry-run | --yes",
		Short: "Move a group to an id or an instant",
		Long: "After the move the group is given the records above ID, or from the instant T on,\n" +
			"archived ones included; what is pending stays pending. --dry-run changes nothing\n" +
			"and says how many records would be skipped or given again; when part of them was\n" +
			"archived and trimmed, that is exact only with --archive or --nodes. With either, the\n" +
			"archive also says where the log begins when the keys in Redis are gone.\n\n" +
			"Stop or pause the members of the group first, in every process.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stream, err := where.resolve()
			if err != nil {
				return err
			}
			if err := needed("group", how.group, keyspace.CheckGroup); err != nil {
				return err
			}
			if how.dry == how.yes {
				return usage(errors.New("seek moves the group: give --yes to do it, or --dry-run to see what it would skip and repeat"))
			}
			to, err := parsePosition(how.to)
			if err != nil {
				return usage(err)
			}
			return a.groupSeek(cmd.Context(), stream, &how, to)
		},
	}
	where.add(cmd)
	cmd.Flags().StringVar(&how.group, "group", "", "the group to move")
	cmd.Flags().StringVar(&how.to, "to", "", "an EVT id, an RFC 3339 instant, head, or end")
	how.archive.add(cmd, "count in")
	cmd.Flags().BoolVar(&how.dry, "dry-run", false, "change nothing, and print the counts")
	cmd.Flags().BoolVar(&how.yes, "yes", false, "move the group")
	a.outputFlag(cmd, "table")
	return cmd
}

// parsePosition reads the value of --to.
func parsePosition(s string) (runtime.Position, error) {
	switch s {
	case "":
		return runtime.Position{}, errors.New("--to is missing: give an EVT id, an RFC 3339 instant, head, or end")
	case "head":
		return runtime.Position{}, nil
	case "end":
		return runtime.After(evtid.Max), nil
	}
	if id, err := evtid.Parse(s); err == nil {
		return runtime.After(id), nil
	}
	t, err := parseInstant("to", s)
	return runtime.FromInstant(t), err
}

// seekView is what "group seek" shows.
type seekView struct {
	Group    string   `json:"group"`
	From     evtid.ID `json:"from"`
	To       evtid.ID `json:"to"`
	Skipped  int64    `json:"skipped"`
	Repeated int64    `json:"repeated"`
	Exact    bool     `json:"exact"`
	Pending  int64    `json:"pending"`
	Ranges   []string `json:"ranges"`
	Done     bool     `json:"done"`
}

func (a *app) groupSeek(ctx context.Context, stream keyspace.Stream, how *seekFlags, to runtime.Position) (err error) {
	client, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	arch, shut, err := how.archive.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shut()) }()
	r, err := runtime.SeekGroup(ctx, client.Log(stream), arch, how.group, to, how.dry)
	if err != nil {
		return err
	}
	v := seekView{
		Group: how.group, From: r.From, To: r.Target, Skipped: r.SkippedRecords, Repeated: r.RepeatedRecords,
		Exact: r.Exact, Pending: r.Pending, Ranges: []string{}, Done: r.Done,
	}
	for _, rg := range r.Ranges {
		v.Ranges = append(v.Ranges, rangeText(rg))
	}
	atLeast := ""
	if !r.Exact {
		atLeast = "at least "
		fmt.Fprintln(a.err, "part of the records was archived and trimmed; give --archive or --nodes to count them as well")
	}
	return a.show(v, [][2]string{
		{"group", v.Group},
		{"from", placeText(v.From)},
		{"to", placeText(v.To)},
		{"skipped", fmt.Sprint(atLeast, v.Skipped)},
		{"given again", fmt.Sprint(atLeast, v.Repeated)},
		{"pending, untouched", fmt.Sprint(v.Pending)},
		{"to be read from the archive", fmt.Sprint(len(v.Ranges), " ranges")},
		{"done", fmt.Sprint(v.Done)},
	})
}

// placeText writes where a group stands.
func placeText(id evtid.ID) string {
	if id.IsZero() {
		return "head"
	}
	return idAndTime(id)
}

// rangeText writes a range the way it is read: after the first id, up to the
// second.
func rangeText(r redislog.SkippedRange) string {
	after := "head"
	if !r.After.IsZero() {
		after = r.After.String()
	}
	return "(" + after + ", " + r.To.String() + "]"
}
