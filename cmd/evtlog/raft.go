package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog/archive/replica"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/client"
)

func (a *app) raftCommand() *cobra.Command {
	return group("raft", "The members of a replicated archive",
		a.peersCommand(), a.serveCommand("join", "Run a node that joins an existing cluster", true),
		a.removeCommand(), a.transferCommand(), a.recoverCommand(),
	)
}

// peerView is one member of the cluster.
type peerView struct {
	Node     string `json:"node"`
	Address  string `json:"address"`
	State    string `json:"state"`
	Voter    bool   `json:"voter"`
	Commit   uint64 `json:"commit"`
	Applied  uint64 `json:"applied"`
	TrailsBy int64  `json:"trails_leader_by"`
}

func (a *app) peersCommand() *cobra.Command {
	var where clusterFlags
	cmd := &cobra.Command{
		Use: "peers", Short: "Members, their state, and how far each trails the leader", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return where.with(cmd, func(ctx context.Context, c *client.Client) error {
				nodes, err := where.ask(ctx, c)
				if err != nil {
					return err
				}
				views, err := peerViews(ctx, c, nodes)
				if err != nil {
					return err
				}
				return a.showPeers(views)
			})
		},
	}
	where.add(cmd)
	a.outputFlag(cmd, "table")
	return cmd
}

// peerViews lists the members as the leader has them, and asks each how far it
// is.
func peerViews(ctx context.Context, c *client.Client, nodes []nodeStatus) ([]peerView, error) {
	members := membersOf(nodes)
	if len(members) == 0 {
		return nil, fmt.Errorf("%w: none of the nodes that answered knows the members", api.ErrNoLeader)
	}
	var commit uint64
	views := make([]peerView, len(members))
	for i, m := range members {
		views[i] = peerView{Node: m.ID, Address: m.Address, Voter: m.Voter, State: "no answer", TrailsBy: -1}
		address, err := api.ParseAddress(m.Address)
		if err != nil {
			continue
		}
		st, err := c.Status(ctx, address.HTTP)
		if err != nil {
			continue
		}
		views[i].State, views[i].Commit, views[i].Applied = st.State, st.CommitIndex, st.FSMIndex
		if st.State == "Leader" {
			commit = st.CommitIndex
		}
	}
	for i, v := range views {
		if v.State != "no answer" && commit > 0 {
			views[i].TrailsBy = max(0, int64(commit)-int64(v.Commit))
		}
	}
	return views, nil
}

// membersOf takes the leader's word for who is a member, else anybody's.
func membersOf(nodes []nodeStatus) (members []api.Server) {
	for _, n := range nodes {
		if n.err == nil && (n.status.State == "Leader" || members == nil) {
			members = n.status.Servers
		}
	}
	return members
}

func (a *app) showPeers(views []peerView) error {
	if a.output != "table" {
		return a.json(views)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tADDRESS\tSTATE\tVOTER\tCOMMIT\tAPPLIED\tTRAILS LEADER BY")
	for _, v := range views {
		trails := "unknown"
		if v.TrailsBy >= 0 {
			trails = fmt.Sprint(v.TrailsBy)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%d\t%d\t%s\n", v.Node, v.Address, v.State, v.Voter, v.Commit, v.Applied, trails)
	}
	return w.Flush()
}

func (a *app) removeCommand() *cobra.Command {
	var (
		where      clusterFlags
		id         string
		yes, force bool
	)
	cmd := &cobra.Command{
		Use: "remove --id NODE", Short: "Take a node out of the cluster", Args: noArgs,
		Long: "The node's copy of the archive stays on its disk. Stop the node first or after;\n" +
			"before it is used again its directory is emptied, or it is started with --rejoin.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if id == "" {
				return usage(errors.New("--id is needed: the node to remove"))
			}
			if err := confirmed(cmd, yes, "take node "+id+" out of the cluster"); err != nil {
				return err
			}
			return where.with(cmd, func(ctx context.Context, c *client.Client) error {
				if err := c.Remove(ctx, id, force); err != nil {
					return err
				}
				return a.show(map[string]string{"removed": id}, [][2]string{{"removed", id}})
			})
		},
	}
	where.add(cmd)
	cmd.Flags().StringVar(&id, "id", "", "node to remove")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.Flags().BoolVar(&force, "force", false, "also when fewer than three voters remain")
	a.outputFlag(cmd, "table")
	return cmd
}

func (a *app) transferCommand() *cobra.Command {
	var (
		where clusterFlags
		id    string
	)
	cmd := &cobra.Command{
		Use: "transfer [--to NODE]", Short: "Hand the leadership to another node", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return where.with(cmd, func(ctx context.Context, c *client.Client) error {
				leader, err := c.Transfer(ctx, id)
				if err != nil {
					return err
				}
				return a.show(map[string]string{"leader": leader}, [][2]string{{"leader", leader}})
			})
		},
	}
	where.add(cmd)
	cmd.Flags().StringVar(&id, "to", "", "node to lead (default: the one that is furthest)")
	a.outputFlag(cmd, "table")
	return cmd
}

func (a *app) recoverCommand() *cobra.Command {
	var (
		cfg        replica.RecoverConfig
		raft, http string
		yes        bool
	)
	cmd := &cobra.Command{
		Use: "recover --dir DIR", Short: "Make one node the start of a cluster that has lost its majority", Args: noArgs,
		Long: "Offline: no node of the cluster may run. Run it with --dry-run on each node that\n" +
			"is left and choose the one with the highest last index; what only the others\n" +
			"had acknowledged is lost. Afterwards start this node as usual and the others with\n" +
			"--rejoin.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.Dir == "" || cfg.ID == "" || cfg.Cluster == "" {
				return usage(errors.New("--dir, --id and --cluster are needed: whose state is kept"))
			}
			cfg.Address = api.Address{Raft: raft, HTTP: http}
			cfg.Logger = slog.New(slog.NewTextHandler(a.err, nil))
			if !cfg.DryRun {
				if err := confirmed(cmd, yes, "found a new incarnation of cluster "+cfg.Cluster+" from node "+cfg.ID); err != nil {
					return err
				}
			}
			plan, err := replica.Recover(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return a.showRecovery(plan, cfg.DryRun)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "dir", "", "directory of the node whose state is kept")
	f.StringVar(&cfg.ID, "id", "", "its node id")
	f.StringVar(&cfg.Cluster, "cluster", "", "cluster id")
	f.StringVar(&raft, "raft", "127.0.0.1:7460", "raft address where others will reach it")
	f.StringVar(&http, "http", "127.0.0.1:7461", "HTTP address where others will reach it")
	f.BoolVar(&cfg.DryRun, "dry-run", false, "only show the plan")
	f.BoolVar(&yes, "yes", false, "do it")
	a.outputFlag(cmd, "table")
	return cmd
}

func (a *app) showRecovery(plan replica.RecoverPlan, dry bool) error {
	state := "recovered"
	if dry {
		state = "plan only, nothing was changed"
	}
	return a.show(viewRecovery(plan), [][2]string{
		{"state", state},
		{"members before", fmt.Sprint(len(plan.Before))},
		{"member after", plan.After.ID},
		{"last index", fmt.Sprintf("%d (term %d)", plan.LastIndex, plan.LastTerm)},
		{"entries behind the newest snapshot", fmt.Sprint(plan.Entries)},
		{"from volumes alone", fmt.Sprint(plan.FromVolumes)},
		{"incarnation", plan.OldIncarnation + " → " + plan.NewIncarnation},
		{"volumes", fmt.Sprint(len(plan.Volumes))},
	})
}
