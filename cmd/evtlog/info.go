package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

func (a *app) streamCommand() *cobra.Command {
	var where streamFlags
	info := &cobra.Command{
		Use:   "info --queue Q --stream S",
		Short: "Length, ends and archive floor of a stream",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := a.loadStream(cmd, where)
			if err != nil {
				return err
			}
			return a.show(v, [][2]string{
				{"stream", v.Queue + "/" + v.Stream},
				{"length", fmt.Sprint(v.Length)},
				{"first", idAndTime(v.First)},
				{"newest", idAndTime(v.Newest)},
				{"last generated", idAndTime(v.Last)},
				{"archive floor", idAndTime(v.Floor)},
				{"groups", fmt.Sprint(v.Groups)},
			})
		},
	}
	where.add(info)
	a.outputFlag(info, "table")
	return group("stream", "Look at streams", info, a.foreignCommand())
}

// streamView is what "stream info" shows. Absent ids are empty strings.
type streamView struct {
	Queue  string   `json:"queue"`
	Stream string   `json:"stream"`
	Length int64    `json:"length"`
	First  evtid.ID `json:"first"`
	Newest evtid.ID `json:"newest"`
	Last   evtid.ID `json:"last_generated"`
	Floor  evtid.ID `json:"archive_floor"`
	Groups int64    `json:"groups"`
}

func (a *app) loadStream(cmd *cobra.Command, where streamFlags) (streamView, error) {
	stream, err := where.resolve()
	if err != nil {
		return streamView{}, err
	}
	client, err := a.open(cmd.Context())
	if err != nil {
		return streamView{}, err
	}
	defer client.Close()
	log := client.Log(stream)
	info, err := log.Info(cmd.Context())
	if err != nil {
		return streamView{}, err
	}
	if !info.Exists {
		return streamView{}, absent(stream.String())
	}
	// A page that ends before it begins reads the floor alone.
	_, floor, err := log.Page(cmd.Context(), evtid.Max, evtid.Max, 1)
	if err != nil {
		return streamView{}, err
	}
	return streamView{
		Queue: stream.Queue(), Stream: stream.Name(), Length: info.Length, First: info.First,
		Newest: info.Newest, Last: info.Last, Floor: floor, Groups: info.Groups,
	}, nil
}

func absent(stream string) error {
	return fmt.Errorf("stream %s: %w; it is made by the first append", stream, errNotFound)
}

func (a *app) groupCommand() *cobra.Command {
	var where streamFlags
	var name string
	var join joinFlags
	info := &cobra.Command{
		Use:   "info --queue Q --stream S [--group G]",
		Short: "Position, lag, pending entries and members of the groups of a stream",
		Long: "LAG counts the records that a group has not finished, and BEHIND is the age of the\n" +
			"oldest. Both are counted from the records themselves; what cannot be proved is\n" +
			"\"unknown\", and a line says why. When part of it was archived and trimmed, --archive\n" +
			"or --nodes is needed to count it.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := named("group", name, keyspace.CheckGroup); err != nil {
				return err
			}
			groups, err := a.loadGroups(cmd, where, name, &join)
			if err != nil {
				return err
			}
			if a.output != "table" {
				return a.json(groups)
			}
			return a.groupTable(groups)
		},
	}
	where.add(info)
	info.Flags().StringVar(&name, "group", "", "only this group")
	join.add(info, "count in")
	a.outputFlag(info, "table")
	return group("group", "Look at consumer groups, and move them", info, a.groupSeekCommand(), a.groupRemoveMemberCommand())
}

// groupView is what "group info" shows of one group.
type groupView struct {
	Group         string       `json:"group"`
	Pending       int64        `json:"pending"`
	LastDelivered evtid.ID     `json:"last_delivered"`
	Skipped       int          `json:"skipped_ranges"`
	Lag           lagView      `json:"lag"`
	Members       []memberView `json:"members"`
}

type memberView struct {
	Name    string `json:"name"`
	Pending int64  `json:"pending"`
	IdleMS  int64  `json:"idle_ms"`
}

func (a *app) loadGroups(cmd *cobra.Command, where streamFlags, only string, join *joinFlags) ([]groupView, error) {
	stream, err := where.resolve()
	if err != nil {
		return nil, err
	}
	client, err := a.open(cmd.Context())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	log := client.Log(stream)
	groups, err := log.Groups(cmd.Context())
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 && only == "" {
		if info, err := log.Info(cmd.Context()); err != nil {
			return nil, err
		} else if !info.Exists {
			return nil, absent(stream.String())
		}
	}
	lags, err := loadLags(cmd.Context(), log, join)
	if err != nil {
		return nil, err
	}
	views := []groupView{}
	for _, g := range groups {
		if only != "" && g.Name != only {
			continue
		}
		v, err := loadGroup(cmd, log, g)
		if err != nil {
			return nil, err
		}
		v.Lag = lags[g.Name]
		views = append(views, v)
	}
	if only != "" && len(views) == 0 {
		return nil, fmt.Errorf("group %s of stream %s: %w; it is made by its first consumer", only, stream, errNotFound)
	}
	return views, nil
}

func loadGroup(cmd *cobra.Command, log *redislog.Log, g redislog.GroupInfo) (groupView, error) {
	members, err := log.Members(cmd.Context(), g.Name)
	if err != nil {
		return groupView{}, err
	}
	skipped, err := log.SkippedRanges(cmd.Context(), g.Name)
	if err != nil {
		return groupView{}, err
	}
	v := groupView{
		Group: g.Name, Pending: g.Pending, LastDelivered: g.LastDelivered,
		Skipped: len(skipped), Members: []memberView{},
	}
	for _, m := range members {
		v.Members = append(v.Members, memberView{Name: m.Name, Pending: m.Pending, IdleMS: m.Idle.Milliseconds()})
	}
	return v, nil
}

func (a *app) groupTable(groups []groupView) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GROUP\tLAST DELIVERED\tLAG\tBEHIND\tPENDING\tSKIPPED RANGES\tMEMBERS")
	for _, g := range groups {
		lag, behind := g.Lag.cells()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\n", g.Group, idAndTime(g.LastDelivered), lag, behind, g.Pending, g.Skipped, len(g.Members))
		for _, m := range g.Members {
			fmt.Fprintf(w, "  %s\tidle %d ms\t\t\t%d\t\t\n", m.Name, m.IdleMS, m.Pending)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, g := range groups {
		if g.Lag.Unknown != "" {
			fmt.Fprintf(a.out, "lag of %s: %s\n", g.Group, g.Lag.Unknown)
		}
	}
	return nil
}

func idAndTime(id evtid.ID) string {
	if id.IsZero() {
		return "-"
	}
	return id.String() + " (" + id.Time().Format("2006-01-02 15:04:05.000") + ")"
}
