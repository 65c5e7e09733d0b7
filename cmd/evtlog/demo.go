package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog/internal/demo"
)

func (a *app) demoCommand() *cobra.Command {
	var (
		duration time.Duration
		headless bool
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the whole pipeline on this machine and reconcile it",
		Long: "Bots play a game whose facts are announced, appended, consumed, folded into an\n" +
			"archive and trimmed, while a consumer is killed every few seconds. At the end\n" +
			"everything published is read back and compared.\n\n" +
			"Redis is $EVTLOG_REDIS_URL (or --redis), else a private redis-server when one is\n" +
			"installed, else an embedded stand-in. Ctrl-C ends the game and reconciles; a second\n" +
			"one ends at once.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if duration < 0 {
				return usage(fmt.Errorf("--duration %s must not be negative; 0 plays until Ctrl-C", duration))
			}
			return a.demo(cmd, duration, headless)
		},
	}
	cmd.Flags().DurationVar(&duration, "duration", 0, "how long to play (0: until Ctrl-C)")
	cmd.Flags().BoolVar(&headless, "headless", false, "print nothing while playing")
	a.outputFlag(cmd, "table")
	cmd.AddCommand(a.demoMemberCommand())
	return cmd
}

func (a *app) demo(cmd *cobra.Command, duration time.Duration, headless bool) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("demo: cannot find this program to start its second process: %w", err)
	}
	url := os.Getenv("EVTLOG_REDIS_URL")
	if cmd.Flags().Changed("redis") {
		url = a.redisURL
	}
	outliveReader()
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	var progress io.Writer = watched{a.err, cancel}
	if headless {
		progress = io.Discard
	}
	report, err := demo.Run(ctx, demo.Config{
		RedisURL: url, Duration: duration, Progress: progress,
		Member: func(url, queue string) *exec.Cmd {
			// The URL may hold a password, so it travels in the environment.
			member := exec.Command(self, "demo", "member", "--queue", queue)
			member.Env = append(os.Environ(), "EVTLOG_REDIS_URL="+url)
			return member
		},
	})
	if err != nil {
		return err
	}
	if a.output != "table" {
		err = json.NewEncoder(a.out).Encode(report)
	} else {
		err = a.show(report, reportRows(report))
	}
	if err != nil {
		return err
	}
	return report.Err()
}

func reportRows(r demo.Report) [][2]string {
	return [][2]string{
		{"published", fmt.Sprint(r.Published)},
		{"readable", fmt.Sprintf("%d = %d from the archive + %d live", r.Readable, r.Archive, r.Live)},
		{"lost", fmt.Sprint(r.Lost)},
		{"duplicates", fmt.Sprint(r.Duplicates)},
		{"consumer", fmt.Sprintf("killed %d times, drained %d pending entries, %d facts handled twice", r.ConsumerRestarts, r.DrainedAfterRestart, r.Redelivered)},
		{"watermark", idAndTime(r.Watermark)},
		{"chain ok", fmt.Sprint(r.ChainOK)},
		{"redis", r.Redis},
	}
}

// demoMemberCommand is the process that the demonstration kills. It is of no
// use by itself.
func (a *app) demoMemberCommand() *cobra.Command {
	var queue string
	cmd := &cobra.Command{
		Use: "member", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Member(cmd.Context(), a.redis(), queue, a.out)
		},
	}
	cmd.Flags().StringVar(&queue, "queue", "", "queue of the demonstration")
	return cmd
}
