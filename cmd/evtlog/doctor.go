package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// doctorFlags say what is looked at.
type doctorFlags struct {
	streamFlags
	join    joinFlags
	timeout time.Duration
}

func (a *app) doctorCommand() *cobra.Command {
	var how doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor [--queue Q [--stream S]] [--nodes N,… | --archive FILE]",
		Short: "Look for what keeps the log from working, or can cost records",
		Long: "Checks the server (reachable, version, persistence, eviction policy, role, clock and\n" +
			"fence), with --queue its streams and the lag of their groups, and with --nodes or\n" +
			"--archive the archive. It changes nothing, but claims a server that no program has\n" +
			"used yet, as every verb does.\n\n" +
			"The exit code is 0 when nothing failed, warnings or not; else that of what failed:\n" +
			"4 when something cannot be reached, 3 when the stream is not there, 1 otherwise.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), how.timeout)
			defer cancel()
			return a.report(a.examine(ctx, &how))
		},
	}
	how.streamFlags.add(cmd)
	how.join.add(cmd, "look at")
	cmd.Flags().DurationVar(&how.timeout, "timeout", time.Minute, "how long the whole may take")
	before(cmd, how.check)
	a.outputFlag(cmd, "table")
	return cmd
}

// check refuses wrong flags before anything is dialled.
func (f *doctorFlags) check() error {
	if err := positive("timeout", f.timeout); err != nil {
		return err
	}
	switch {
	case f.stream != "" && f.queue == "":
		return usage(errors.New("--stream needs --queue"))
	case f.stream != "":
		_, err := f.resolve()
		return err
	case f.queue != "":
		return named("queue", f.queue, keyspace.CheckQueue)
	}
	return nil
}

// examine makes the report. A part that cannot be looked at is a line of it.
func (a *app) examine(ctx context.Context, how *doctorFlags) []diagnosis {
	list, arch, shut := how.examineArchive(ctx)
	defer func() { _ = shut() }()
	client, err := a.open(ctx)
	addr := ""
	if err == nil {
		addr = client.Addr()
		defer client.Close()
	}
	redis := judgeOpen(addr, err)
	if err == nil {
		redis = append(redis, examineServer(ctx, client)...)
		redis = append(redis, how.examineStreams(ctx, client, arch)...)
	}
	return append(redis, list...)
}

// examineArchive looks at the nodes or the file. arch is nil when there is none to
// read from.
func (f *doctorFlags) examineArchive(ctx context.Context) (list []diagnosis, arch archive.Archive, shut func() error) {
	arch, shut, err := f.join.open()
	switch {
	case len(f.join.cluster.nodes) == 0 && f.join.path != "":
		return []diagnosis{judgeFile(f.join.path, err)}, arch, shut
	case err != nil:
		return []diagnosis{{Check: "archive", State: broken, Detail: err.Error(), err: err}}, nil, shut
	case arch == nil:
		return nil, nil, shut
	}
	c, err := f.join.cluster.open()
	if err != nil {
		return []diagnosis{{Check: "archive", State: broken, Detail: err.Error(), err: err}}, nil, shut
	}
	defer c.Close()
	nodes := make([]nodeStatus, len(f.join.cluster.nodes))
	reachable := false
	for i, address := range f.join.cluster.nodes {
		st, err := c.Status(ctx, address)
		nodes[i] = nodeStatus{address: address, status: st, err: err}
		reachable = reachable || err == nil
	}
	if !reachable {
		arch = nil // it has been said; nothing else waits for it
	}
	return judgeNodes(nodes), arch, shut
}

func examineServer(ctx context.Context, client *redislog.Client) []diagnosis {
	info, err := client.Server(ctx)
	if err != nil {
		return []diagnosis{{Check: "settings", State: broken, Detail: err.Error(), err: err}}
	}
	list := judgeServer(info)
	ahead, err := client.Clock(ctx)
	if err != nil {
		return append(list, diagnosis{Check: "clock", State: unseen, Detail: err.Error()})
	}
	return append(list, judgeClock(ahead))
}

// examineStreams looks at the stream that was named, or at all of the queue.
func (f *doctorFlags) examineStreams(ctx context.Context, client *redislog.Client, arch archive.Archive) (list []diagnosis) {
	if f.queue == "" {
		return []diagnosis{{Check: "streams", State: unseen, Detail: "no queue was named", Next: "give --queue to look at its streams and groups"}}
	}
	names := []string{f.stream}
	if f.stream == "" {
		var err error
		if names, err = client.Streams(ctx, f.queue); err != nil {
			return []diagnosis{{Check: "streams", State: broken, Detail: err.Error(), err: err}}
		}
	}
	for _, name := range names {
		key, err := keyspace.NewStream(f.queue, name)
		if err == nil {
			var found []diagnosis
			found, err = examineStream(ctx, client.Log(key), arch)
			list = append(list, found...)
		}
		if err != nil {
			list = append(list, diagnosis{Check: "stream " + f.queue + "/" + name, State: broken, Detail: err.Error(), err: err})
		}
	}
	if len(list) == 0 {
		list = append(list, diagnosis{Check: "streams", State: healthy, Detail: "queue " + f.queue + " has none"})
	}
	return list
}

func examineStream(ctx context.Context, log *redislog.Log, arch archive.Archive) ([]diagnosis, error) {
	name := log.Stream()
	f := streamFacts{name: name.String(), now: time.Now(), dead: strings.HasSuffix(name.Name(), ".dead"), archived: arch != nil}
	if f.dead {
		arch, f.archived = nil, false // dead letters are not archived
	}
	var err error
	if f.info, err = log.Info(ctx); err != nil {
		return nil, err
	}
	if !f.info.Exists && arch == nil {
		return nil, absent(name.String())
	}
	if f.foreign, _, err = log.FirstForeign(ctx); err != nil {
		return nil, err
	}
	if f.sealed, err = log.Floor(ctx); err != nil {
		return nil, err
	}
	if arch != nil {
		if f.watermark, err = arch.Watermark(ctx, evtlog.StreamName{Queue: name.Queue(), Name: name.Name()}); err != nil {
			return nil, err
		}
	}
	if f.lags, err = runtime.GroupLags(ctx, log, arch); err != nil && !errors.Is(err, evtlog.ErrForeignEntry) {
		return nil, err
	}
	return judgeStream(f), nil
}

// report prints the diagnoses and ends with the errors of those that failed.
func (a *app) report(list []diagnosis) error {
	var errs []error
	for i, d := range list {
		list[i].Detail = inFlags(d.Detail)
		if d.State == broken {
			errs = append(errs, d.err)
		}
	}
	err := a.printDiagnoses(list)
	if len(errs) > 0 {
		err = errors.Join(err, &doctorError{failed: len(errs), of: len(list), errs: errs})
	}
	return err
}

func (a *app) printDiagnoses(list []diagnosis) error {
	if a.output != "table" {
		return a.json(list)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CHECK\tSTATE\tDETAIL")
	for _, d := range list {
		detail := d.Detail
		if d.Next != "" {
			detail += "; " + d.Next
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", d.Check, d.State, strings.ReplaceAll(detail, "\n", " "))
	}
	return w.Flush()
}

// doctorError says how many checks failed. What failed has been printed.
type doctorError struct {
	failed, of int
	errs       []error
}

func (e *doctorError) Error() string { return fmt.Sprintf("%d of %d checks failed", e.failed, e.of) }

func (e *doctorError) Unwrap() []error { return e.errs }
