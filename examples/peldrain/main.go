// Command peldrain shows what becomes of entries whose member dies: a member of
// a group is killed in the middle of a batch and started again under its name,
// another one is killed for good, and one entry can never be handled. At the end
// everything that was appended is compared with what was handled.
//
//	go run ./examples/peldrain -o json
//
// The members are processes of their own. Redis is $EVTLOG_REDIS_URL, else a
// private redis-server, else embedded.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peldrain:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) == 3 && args[0] == memberVerb {
		return runMember(ctx, args[1], args[2], out)
	}
	flags := flag.NewFlagSet("peldrain", flag.ContinueOnError)
	flags.SetOutput(progress)
	format := flags.String("o", "table", "output format: table|json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("%q is not known here; see -h", flags.Arg(0))
	case *format != "table" && *format != "json":
		return fmt.Errorf("output format %q is unknown; use table or json", *format)
	}
	r, err := drill(ctx, progress)
	if err != nil {
		return err
	}
	if err := show(out, *format, r); err != nil {
		return err
	}
	return r.err()
}

// report is the reconciliation.
type report struct {
	// Appended counts receipts, Handled those records whose handler returned nil
	// at least once, Dead those that were given up and are in the dead stream.
	Appended int `json:"appended"`
	Handled  int `json:"handled"`
	Dead     int `json:"dead"`
	// Missing counts records that are neither.
	Missing int `json:"missing"`
	// Duplicates counts handlings beyond the first of a record: the price of
	// at-least-once, paid for what was handled and not acknowledged at a kill.
	Duplicates int `json:"duplicates"`
	// Drained counts entries that the restarted member found pending under its
	// name. DrainedFirst says that it handled all of them before anything new,
	// in their order.
	Drained      int  `json:"drained"`
	DrainedFirst bool `json:"drained_first"`
	// Reclaimed counts entries that were taken over from the member that did not
	// come back.
	Reclaimed int `json:"reclaimed"`
	// Redis is how the server was come by: "url", "server" or "embedded".
	Redis string `json:"redis"`
	// Note says what an embedded stand-in does otherwise than a redis-server.
	Note string `json:"note,omitempty"`
}

// err says what does not hold of what the example is to show.
func (r report) err() error {
	var faults []error
	for _, claim := range []struct {
		holds bool
		fault string
	}{
		{r.Missing == 0, fmt.Sprintf("%d records were neither handled nor given up", r.Missing)},
		{r.Appended == r.Handled+r.Dead+r.Missing, "the counts do not add up"},
		{r.DrainedFirst, "the restarted member did not begin with what was pending under its name"},
		{r.Reclaimed > 0, "nothing was taken over from the member that did not come back"},
		{r.Dead == 1, fmt.Sprintf("%d entries are in the dead stream, and one was to be", r.Dead)},
	} {
		if !claim.holds {
			faults = append(faults, errors.New(claim.fault))
		}
	}
	return errors.Join(faults...)
}

func show(out io.Writer, format string, r report) error {
	if format == "json" {
		return json.NewEncoder(out).Encode(r)
	}
	_, err := fmt.Fprintf(out, `appended       %d
handled        %d, and %d in the dead stream
missing        %d
duplicates     %d
drained        %d after the restart, before anything new: %v
reclaimed      %d from the member that did not come back
redis          %s
`, r.Appended, r.Handled, r.Dead, r.Missing, r.Duplicates, r.Drained, r.DrainedFirst, r.Reclaimed, r.Redis)
	if err == nil && r.Note != "" {
		_, err = fmt.Fprintf(out, "note           %s\n", r.Note)
	}
	return err
}
