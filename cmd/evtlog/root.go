package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

// app is what the verbs share: the streams they talk over and the flags of the
// root command.
type app struct {
	in       io.Reader
	out, err io.Writer
	redisURL string
	output   string
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	a := &app{in: in, out: out, err: errOut}
	root := a.command()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(errOut, "evtlog: %s\n", strings.TrimPrefix(inFlags(err.Error()), "evtlog: "))
	}
	return exitCode(ctx, err)
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "evtlog",
		Short: "A retained event log on Redis Streams",
		Long: "evtlog appends events to a replayable log on Redis Streams, reads them back by\n" +
			"wall-clock window across archive and live stream, and shows streams and groups.",
		Args:              noArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: refuseEmpty,
		SilenceErrors:     true,
		SilenceUsage:      true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	// No default value: help would print the one of the environment, password included.
	root.PersistentFlags().StringVar(&a.redisURL, "redis", "", "redis://, rediss:// or unix:// URL of the server (default $EVTLOG_REDIS_URL, else "+redislog.DefaultURL+")")
	root.SetHelpCommand(helpCommand())
	root.AddCommand(
		a.appendCommand(), a.replayCommand(), a.streamCommand(), a.groupCommand(),
		a.archiveCommand(), a.raftCommand(), a.deadCommand(), a.doctorCommand(), a.demoCommand(), a.versionCommand(), exitCodesHelp(),
	)
	return root
}

// redis is the URL of the server: the flag, else the environment, else the
// default of redislog.
func (a *app) redis() string {
	if a.redisURL != "" {
		return a.redisURL
	}
	return os.Getenv("EVTLOG_REDIS_URL")
}

// noArgs refuses words that are neither flags nor verbs.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage(fmt.Errorf("%q is not known to %q; see %q", args[0], cmd.CommandPath(), cmd.CommandPath()+" --help"))
}

// helpCommand shows the help of a verb, and refuses one that is not there.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			verb, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usage(fmt.Errorf("there is no help about %q; see \"evtlog help\"", strings.Join(args, " ")))
			}
			verb.InitDefaultHelpFlag()
			return verb.Help()
		},
	}
}

// group makes a command that only holds others.
func group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// streamFlags are the two flags that name a stream.
type streamFlags struct{ queue, stream string }

func (f *streamFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.queue, "queue", "", "queue name")
	cmd.Flags().StringVar(&f.stream, "stream", "", "stream name")
}

// resolve checks the names before anything is dialled.
func (f *streamFlags) resolve() (keyspace.Stream, error) {
	if f.queue == "" || f.stream == "" {
		return keyspace.Stream{}, usage(errors.New("name the stream with both --queue and --stream"))
	}
	s, err := keyspace.NewStream(f.queue, f.stream)
	if err != nil {
		return s, usage(err)
	}
	return s, nil
}

// open connects to Redis under a name that operators can tell apart.
func (a *app) open(ctx context.Context) (*redislog.Client, error) {
	return redislog.Open(ctx, a.redisConfig())
}

func (a *app) redisConfig() redislog.Config {
	return redislog.Config{URL: a.redis(), ClientName: "evtlog-cli"}
}
