package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog/actors/streamconsumer"
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
			moved, err := streamconsumer.Retire(cmd.Context(), client.Log(stream), r)
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
