// Command archivecluster shows the replicated archive at work: three node
// processes with their own directories, a runtime that folds into them, a leader
// that is killed again and again under load, a fourth node that joins, and a
// first one that leaves. At the end everything is read back and compared.
//
//	go run ./examples/archivecluster --duration 40s -o json
//
// Redis is $EVTLOG_REDIS_URL, else a private redis-server, else embedded.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "archivecluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) > 0 && args[0] == nodeVerb {
		return runNode(ctx, args[1:])
	}
	flags := flag.NewFlagSet("archivecluster", flag.ContinueOnError)
	duration := flags.Duration("duration", 40*time.Second, "how long the load lasts; at least 20s")
	format := flags.String("o", "table", "output format: table|json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *format != "table" && *format != "json":
		return fmt.Errorf("output format %q is unknown; use table or json", *format)
	case *duration < 20*time.Second:
		return fmt.Errorf("--duration %s is too short for kills, a join and a removal; give at least 20s", *duration)
	}
	report, err := drill(ctx, *duration, progress)
	if err != nil {
		return err
	}
	if err := show(out, *format, report); err != nil {
		return err
	}
	return report.err()
}

// report is the reconciliation.
type report struct {
	// Nodes is the number of members at the end.
	Nodes int `json:"nodes"`
	// Published counts receipts, Folded the records that the cluster holds,
	// Readable those that a read across archive and live stream returned.
	Published int `json:"published"`
	Folded    int `json:"folded"`
	Readable  int `json:"readable"`
	// Lost counts receipts that were not read back, Duplicates records that were
	// read twice.
	Lost       int `json:"lost"`
	Duplicates int `json:"duplicates"`
	// LeaderKills counts SIGKILLs of leaders; MaxUnavailableMS is the longest time
	// from such a kill to the next fold.
	LeaderKills      int   `json:"leader_kills"`
	MaxUnavailableMS int64 `json:"max_unavailable_ms"`
	// ChainsEqual says that all members hold the same commits.
	ChainsEqual bool `json:"chains_equal"`
	// RestoredByDelta counts nodes that came up with a part of the archive and
	// pulled only the commits they lacked, and PulledBytes what all nodes pulled.
	RestoredByDelta int    `json:"restored_by_delta"`
	PulledBytes     uint64 `json:"pulled_bytes"`
	Redis           string `json:"redis"`
}

func (r report) err() error {
	if r.Lost != 0 || r.Duplicates != 0 || r.Published != r.Readable || !r.ChainsEqual {
		return errors.New("the reconciliation failed")
	}
	return nil
}

func show(out io.Writer, format string, r report) error {
	if format == "json" {
		return json.NewEncoder(out).Encode(r)
	}
	_, err := fmt.Fprintf(out, `members             %d
published           %d
folded              %d
readable            %d (%d lost, %d twice)
leader kills        %d, at most %d ms without a fold
chains equal        %v
restored by delta   %d nodes, %d bytes pulled in all
redis               %s
`, r.Nodes, r.Published, r.Folded, r.Readable, r.Lost, r.Duplicates, r.LeaderKills, r.MaxUnavailableMS, r.ChainsEqual,
		r.RestoredByDelta, r.PulledBytes, r.Redis)
	return err
}
