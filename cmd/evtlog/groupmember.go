package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/redislog"
)

func (a *app) groupRemoveMemberCommand() *cobra.Command {
	var (
		where streamFlags
		r     streamconsumer.Retirement
		yes   bool
	)
	cmd := &cobra.Command{
		Use:   "remove-member --queue Q --stream S --group G --member M --yes",
		Short: "Remove a member from a group without losing what is pending for it",
		Long: "What is pending for M is handed to another member first, and M is removed in one\n" +
			"step with the proof that nothing is pending for it any more. A member that\n" +
			"touched an entry within --min-idle is at work and is not removed.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stream, err := where.resolve()
			if err != nil {
				return err
			}
			if err := checkMember(r.Group, r.Member, r.Heir, r.MinIdle); err != nil {
				return err
			}
			if !yes {
				return usage(errors.New("remove-member changes the group: give --yes to do it"))
			}
			client, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer client.Close()
			log := client.Log(stream)
			if err := isMember(cmd.Context(), log, r.Group, r.Member); err != nil {
				return err
			}
			moved, err := streamconsumer.Retire(cmd.Context(), log, r)
			if err != nil {
				return err
			}
			return a.show(map[string]any{"member": r.Member, "handed_over": moved}, [][2]string{
				{"removed", r.Member}, {"entries handed over", fmt.Sprint(moved)},
			})
		},
	}
	where.add(cmd)
	cmd.Flags().StringVar(&r.Group, "group", "", "the group")
	cmd.Flags().StringVar(&r.Member, "member", "", "the member to remove")
	cmd.Flags().StringVar(&r.Heir, "heir", "", "the member that gets what is pending (default: the one active last)")
	cmd.Flags().DurationVar(&r.MinIdle, "min-idle", 30*time.Second, "how long an entry must not have been touched; what the group's members have")
	cmd.Flags().BoolVar(&yes, "yes", false, "remove it")
	a.outputFlag(cmd, "table")
	return cmd
}

// isMember tells a slip in the name from a member that was removed: to remove one that
// is not there is no error of the group's.
func isMember(ctx context.Context, log *redislog.Log, group, member string) error {
	members, err := log.Members(ctx, group)
	if err != nil {
		return err
	}
	names := make([]string, len(members))
	for i, m := range members {
		if names[i] = m.Name; m.Name == member {
			return nil
		}
	}
	slices.Sort(names)
	return fmt.Errorf("member %s of group %s of stream %s: %w; its members are: %s", member, group, log.Stream(), errNotFound, cmp.Or(strings.Join(names, ", "), "none"))
}
