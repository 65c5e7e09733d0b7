package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/volume"
)

// joinFlags name the archive that a verb joins with the live stream: a local file,
// or the nodes of a replicated one.
type joinFlags struct {
	path    string
	cluster clusterFlags
}

// add declares the flags. what says what the archive is used for.
func (f *joinFlags) add(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.path, "archive", "", "local archive file to "+what)
	f.cluster.addNodes(cmd, nil)
	cmd.Flags().DurationVar(&f.cluster.timeout, "archive-timeout", silence, "how long the archive may give nothing; the whole may take any time (0: for ever)")
	before(cmd, func() error { return f.check(cmd) })
}

// check refuses flags that contradict each other, or say how to reach nodes that are
// not named.
func (f *joinFlags) check(cmd *cobra.Command) error {
	if len(f.cluster.nodes) == 0 {
		return idle(cmd, "without --nodes", "archive-timeout", "cluster", "tls-cert", "tls-key", "tls-ca")
	}
	if f.path != "" {
		return usage(errors.New("--archive and --nodes each name an archive: give one of them"))
	}
	return f.cluster.check("archive-timeout", true)
}

// open opens the archive, nil when none is named. shut is never nil.
func (f *joinFlags) open() (_ archive.Archive, shut func() error, err error) {
	shut = func() error { return nil }
	switch {
	case f.path != "":
		return openArchive(f.path)
	case len(f.cluster.nodes) == 0:
		return nil, shut, nil
	}
	c, err := f.cluster.open()
	if err != nil {
		return nil, shut, err
	}
	return newPatient(c, f.cluster.timeout), c.Close, nil
}

// openArchive opens a local archive file that is there.
func openArchive(path string) (_ archive.Archive, shut func() error, err error) {
	shut = func() error { return nil }
	// Opening would make a file that is not there.
	if _, err := os.Stat(path); err != nil {
		return nil, shut, fmt.Errorf("--archive: %w", err)
	}
	store, err := volume.Open(path, volume.Options{})
	if err != nil {
		return nil, shut, err
	}
	return store, store.Close, nil
}

// verifyLimit is how long one node may take to check all that it keeps, unless
// told otherwise. It reads its whole disk for that.
const verifyLimit = time.Hour
