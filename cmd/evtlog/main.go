// Command evtlog is the command line of the retained event log: it appends and
// replays records, shows streams and groups, and runs a demonstration of the
// whole pipeline.
//
// Data goes to standard output, everything else to standard error. The exit
// codes are listed by "evtlog help exit-codes".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second one kills, for whoever does not want to wait for the good order.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
