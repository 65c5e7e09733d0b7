package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/client"
	"github.com/evtlog/evtlog/archive/replica/portable"
)

func (a *app) archiveCommand() *cobra.Command {
	return group("archive", "Run and look after a replicated archive",
		a.serveCommand("serve", "Run a node", false),
		a.archiveStatusCommand(), a.archiveListCommand(), a.archiveVerifyCommand(),
		a.exportCommand(), a.importCommand(), a.compactCommand(),
	)
}

func (a *app) archiveStatusCommand() *cobra.Command {
	var where clusterFlags
	cmd := &cobra.Command{
		Use: "status", Short: "What each node says of itself", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return where.with(cmd, func(ctx context.Context, c *client.Client) error {
				nodes, err := where.ask(ctx, c)
				if err != nil {
					return err
				}
				return a.showStatus(nodes)
			})
		},
	}
	where.add(cmd)
	a.outputFlag(cmd, "table")
	return cmd
}

func (a *app) showStatus(nodes []nodeStatus) error {
	if a.output != "table" {
		return a.json(viewStatuses(nodes))
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tADDRESS\tSTATE\tTERM\tAPPLIED\tLOG\tCHECKS")
	for _, n := range nodes {
		if n.err != nil {
			fmt.Fprintf(w, "-\t%s\tno answer\t\t\t\t%v\n", n.address, n.err)
			continue
		}
		st := n.status
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d bytes\t%s\n", st.Node, n.address, st.State, st.Term, st.FSMIndex, st.RaftFileBytes, failing(st.Checks))
		for _, alarm := range st.Alarms {
			fmt.Fprintf(w, "\t\talarm\t\t\t\t%s\n", alarm)
		}
	}
	return w.Flush()
}

// failing names the checks that do not pass, or "ok".
func failing(checks []api.Check) string {
	out := ""
	for _, c := range checks {
		if !c.OK {
			out += c.Name + ": " + c.Detail + "  "
		}
	}
	if out == "" {
		return "ok"
	}
	return out
}

func (a *app) archiveListCommand() *cobra.Command {
	var where clusterFlags
	cmd := &cobra.Command{
		Use: "ls", Short: "The archived streams, as the first node that answers has them", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return where.with(cmd, func(ctx context.Context, c *client.Client) error {
				_, volumes, err := where.heads(ctx, c)
				if err != nil {
					return err
				}
				return a.showVolumes(volumes)
			})
		},
	}
	where.add(cmd)
	a.outputFlag(cmd, "table")
	return cmd
}

// heads asks the nodes in turn for what they hold, and says which one answered.
func (f *clusterFlags) heads(ctx context.Context, c *client.Client) (address string, volumes []api.Volume, err error) {
	for _, address := range f.nodes {
		if volumes, err = c.Heads(ctx, address); err == nil {
			return address, volumes, nil
		}
		err = &unansweredError{address, err}
	}
	return "", nil, err
}

func (a *app) showVolumes(volumes []api.Volume) error {
	views := viewVolumes(volumes)
	if a.output != "table" {
		return a.json(views)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STREAM\tRECORDS\tCOMMITS\tWATERMARK\tCHAIN\tSTATE")
	for i, v := range views {
		state := "ok"
		if v.Parked != "" {
			state = "set aside: " + v.Parked
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s…\t%s\n", v.Stream, v.Records, v.Commits, idAndTime(volumes[i].Watermark), v.Chain[:12], state)
	}
	return w.Flush()
}

func (a *app) archiveVerifyCommand() *cobra.Command {
	var (
		where clusterFlags
		dir   string
	)
	cmd := &cobra.Command{
		Use: "verify", Short: "Check every byte that a node keeps", Args: noArgs,
		Long: "Recomputes every checksum and chain: with --dir of a node that is not running,\n" +
			"else of each node in --nodes, which begins to repair what is damaged. Exit code 6\n" +
			"says that something is.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir != "" {
				if err := idle(cmd, "with --dir", "nodes", "timeout", "cluster", "tls-cert", "tls-key", "tls-ca"); err != nil {
					return err
				}
				findings, err := replica.VerifyDir(cmd.Context(), dir)
				return a.showFindings(map[string][]api.Finding{dir: findings}, err)
			}
			return where.lasting(cmd, func(ctx context.Context, c *client.Client) error {
				all, failed := map[string][]api.Finding{}, []error{}
				for _, address := range where.nodes {
					findings, err := where.verify(ctx, c, address)
					if err != nil {
						failed = append(failed, fmt.Errorf("%s: %w", address, err))
						continue
					}
					all[address] = findings
				}
				return a.showFindings(all, errors.Join(failed...))
			})
		},
	}
	where.addLimited(cmd, verifyLimit, "how long each node may take (0: for ever)")
	cmd.Flags().StringVar(&dir, "dir", "", "directory of a node that is not running")
	a.outputFlag(cmd, "table")
	return cmd
}

// verify has one node check itself.
func (f *clusterFlags) verify(ctx context.Context, c *client.Client, address string) (findings []api.Finding, err error) {
	p := patience{limit: f.timeout}
	err = p.call(ctx, func(ctx context.Context) (err error) {
		findings, err = c.Verify(ctx, address, evtlog.StreamName{})
		return err
	})
	return findings, err
}

func (a *app) showFindings(all map[string][]api.Finding, err error) error {
	damaged := 0
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	if a.output == "table" {
		fmt.Fprintln(w, "WHERE\tWHAT\tCOMMITS\tRECORDS\tSTATE")
	}
	for _, place := range slices.Sorted(maps.Keys(all)) {
		for _, f := range all[place] {
			state := "ok"
			if !f.OK {
				damaged++
				state = f.Detail
			}
			if a.output == "table" {
				fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", place, f.What, f.Commits, f.Records, state)
			}
		}
	}
	if a.output != "table" {
		err = errors.Join(a.json(viewFindings(all)), err)
	}
	if damaged > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %d of the things checked are damaged", archive.ErrCorrupt, damaged))
	}
	return errors.Join(w.Flush(), err)
}

func (a *app) exportCommand() *cobra.Command {
	var (
		where clusterFlags
		path  string
	)
	cmd := &cobra.Command{
		Use: "export --to FILE", Short: "Write everything archived to one portable file", Args: noArgs,
		Long: "Copies the commits of the first node that answers, while folding goes on. The\n" +
			"file appears under its name when it is complete and on disk.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" {
				return usage(errors.New("--to is needed: the file to write"))
			}
			return where.lasting(cmd, func(ctx context.Context, c *client.Client) error {
				address, err := where.answering(ctx, c)
				if err != nil {
					return err
				}
				src := &patientSource{Source: portable.FromNode(c, address), patience: patience{limit: where.timeout}}
				summary, err := exportTo(ctx, path, src)
				if err != nil {
					return err
				}
				return a.showSummary(summary)
			})
		},
	}
	where.addLasting(cmd)
	cmd.Flags().StringVar(&path, "to", "", "file to write")
	a.outputFlag(cmd, "table")
	return cmd
}

// answering returns the first node that answers.
func (f *clusterFlags) answering(ctx context.Context, c *client.Client) (address string, err error) {
	p := patience{limit: f.timeout}
	err = p.call(ctx, func(ctx context.Context) (err error) {
		address, _, err = f.heads(ctx, c)
		return err
	})
	return address, err
}

// exportTo writes beside the file and renames when all is on disk.
func exportTo(ctx context.Context, path string, src portable.Source) (s portable.Summary, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part-*")
	if err != nil {
		return s, fmt.Errorf("--to %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if s, err = portable.Export(ctx, src, f); err != nil {
		return s, err
	}
	if err := f.Sync(); err != nil {
		return s, err
	}
	if err := f.Close(); err != nil {
		return s, err
	}
	return s, os.Rename(f.Name(), path)
}

func (a *app) importCommand() *cobra.Command {
	var (
		where clusterFlags
		path  string
		check bool
	)
	cmd := &cobra.Command{
		Use: "import --from FILE", Short: "Fold what an export holds into a cluster that lacks it", Args: noArgs,
		Long: "It may be interrupted and repeated. --dry-run checks the file and folds nothing.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" {
				return usage(errors.New("--from is needed: a file that an export wrote"))
			}
			f, err := os.Open(path)
			if err != nil {
				return usage(fmt.Errorf("--from: %w", err))
			}
			defer f.Close()
			if check {
				if err := idle(cmd, "with --dry-run", "nodes", "timeout", "cluster", "tls-cert", "tls-key", "tls-ca"); err != nil {
					return err
				}
				return a.summarize(portable.Check(cmd.Context(), f))
			}
			return where.lasting(cmd, func(ctx context.Context, c *client.Client) error {
				return a.summarize(portable.Import(ctx, io.Reader(f), newPatient(c, where.timeout)))
			})
		},
	}
	where.addLasting(cmd)
	cmd.Flags().StringVar(&path, "from", "", "file that an export wrote")
	cmd.Flags().BoolVar(&check, "dry-run", false, "only check the file")
	a.outputFlag(cmd, "table")
	return cmd
}

func (a *app) summarize(s portable.Summary, err error) error {
	if err != nil {
		return err
	}
	return a.showSummary(s)
}

func (a *app) showSummary(s portable.Summary) error {
	return a.show(viewSummary(s), [][2]string{
		{"streams", fmt.Sprint(len(s.Volumes))}, {"commits", fmt.Sprint(s.Commits)}, {"records", fmt.Sprint(s.Records)},
	})
}

func (a *app) compactCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "compact --dir DIR", Short: "Give unused space of a stopped node back to the disk", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return usage(errors.New("--dir is needed: the directory of a node that is not running"))
			}
			done, err := replica.Compact(cmd.Context(), dir)
			if err == nil && len(done) == 0 {
				return usage(fmt.Errorf("--dir %s holds no archive", dir))
			}
			rows := [][2]string{}
			for _, c := range done {
				rows = append(rows, [2]string{c.Name, fmt.Sprintf("%d bytes, was %d", c.After, c.Before)})
			}
			return errors.Join(a.show(viewCompacted(done), rows), err)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory of a node that is not running")
	a.outputFlag(cmd, "table")
	return cmd
}
