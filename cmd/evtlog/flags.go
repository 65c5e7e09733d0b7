package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
)

// before adds a check that runs before a verb does anything.
func before(cmd *cobra.Command, check func() error) {
	earlier := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if earlier != nil {
			if err := earlier(cmd, args); err != nil {
				return err
			}
		}
		return check()
	}
}

// refuseEmpty refuses a flag that was given without a value. It comes from a variable
// of a script that is not set, and would make the verb do more than was meant: all
// letters for one, the live stream alone for the archive too.
func refuseEmpty(cmd *cobra.Command, _ []string) error {
	for _, f := range collect(cmd.Flags().Visit) {
		list, isList := f.Value.(interface{ GetSlice() []string })
		if f.Value.String() == "" || isList && empty(list.GetSlice()) {
			return usage(fmt.Errorf("--%s is given without a value; leave it out, or see that the variable is set", f.Name))
		}
	}
	return nil
}

// collect returns what visit goes through.
func collect[F any](visit func(func(F))) (all []F) {
	visit(func(f F) { all = append(all, f) })
	return all
}

// empty reports whether a list holds nothing, or nothing in one place of it.
func empty(list []string) bool {
	for _, v := range list {
		if v == "" {
			return true
		}
	}
	return len(list) == 0
}

// idle refuses flags that would be accepted and not obeyed: those among names that
// were given. why says what makes them idle.
func idle(cmd *cobra.Command, why string, names ...string) error {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return usage(fmt.Errorf("--%s has no effect %s; leave one of them out", name, why))
		}
	}
	return nil
}

// needed checks the name of a group or member that a verb cannot do without.
func needed(flag, value string, check func(string) error) error {
	if value == "" {
		return usage(fmt.Errorf("--%s is needed", flag))
	}
	return named(flag, value, check)
}

// named checks a name that may be left out.
func named(flag, value string, check func(string) error) error {
	if value == "" {
		return nil
	}
	if err := check(value); err != nil {
		return usage(fmt.Errorf("--%s: %w", flag, err))
	}
	return nil
}

// writerFlags say how a verb appends.
type writerFlags struct {
	node, maxRecord int
	timeout         time.Duration
}

// add declares the flags. what is what may take --timeout.
func (f *writerFlags) add(cmd *cobra.Command, what string) {
	cmd.Flags().IntVar(&f.node, "node", cliNode, "node number to write under, 0..1023")
	cmd.Flags().IntVar(&f.maxRecord, "max-record-bytes", evtlog.DefaultMaxRecordBytes, "largest record accepted")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 30*time.Second, "how long one "+what+" may take")
	before(cmd, f.check)
}

func (f *writerFlags) check() error {
	switch {
	case f.node < 0 || f.node > evtid.MaxNode:
		return usage(fmt.Errorf("--node %d is outside 0..%d: give each writer its own number", f.node, evtid.MaxNode))
	case f.maxRecord <= 0:
		return usage(fmt.Errorf("--max-record-bytes %d must be positive", f.maxRecord))
	}
	return positive("timeout", f.timeout)
}

func positive(flag string, d time.Duration) error {
	if d <= 0 {
		return usage(fmt.Errorf("--%s %s must be positive", flag, d))
	}
	return nil
}

// checkMember checks the flags of a verb about one member of a group.
func checkMember(group, member, heir string, minIdle time.Duration) error {
	return errors.Join(
		needed("group", group, keyspace.CheckGroup), needed("member", member, keyspace.CheckMember),
		named("heir", heir, keyspace.CheckMember), positive("min-idle", minIdle),
	)
}
