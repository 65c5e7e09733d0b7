package main

import (
	"context"
	"errors"
	"io/fs"
	"net"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// The exit codes. They are part of the interface.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitUnavailable = 4
	exitNotWriter   = 5
	exitIntegrity   = 6
	exitTimeout     = 7
	exitInterrupted = 130
)

// errNotFound is wrapped by errors about a stream or group that is not there.
var errNotFound = errors.New("not found")

// usageError marks a mistake in the command line itself.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(err error) error { return usageError{err} }

// exitCode maps the error of a verb to the code of the process.
func exitCode(ctx context.Context, err error) int {
	var (
		badUsage  usageError
		badConfig *runtime.ConfigError
		badRedis  *redislog.ConfigError
		badID     *evtid.ParseError
		network   *net.OpError
		file      *fs.PathError
		silent    *unansweredError
	)
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &badUsage), errors.As(err, &badConfig), errors.As(err, &badRedis), errors.As(err, &badID),
		errors.As(err, &file) && errors.Is(file, fs.ErrNotExist), // named on the command line
		is(evtlog.ErrBadWindow, evtid.ErrBeforeUnixEpoch, api.ErrBadRequest, api.ErrForeignCluster, api.ErrDenied, evtlog.ErrDenied):
		return exitUsage
	case ctx.Err() != nil:
		return exitInterrupted
	case is(errNotFound, evtlog.ErrNoGroup):
		return exitNotFound
	case is(evtlog.ErrNonMonotonic):
		return exitNotWriter
	case is(archive.ErrCorrupt):
		return exitIntegrity
	case is(api.ErrNoLeader, api.ErrNotReady, archive.ErrLocked):
		return exitUnavailable
	case is(context.DeadlineExceeded):
		return exitTimeout
	case is(evtlog.ErrUnavailable), errors.As(err, &network) && network.Op == "dial", errors.As(err, &silent):
		return exitUnavailable
	}
	return exitFailed
}

func exitCodesHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "The exit codes and what they mean",
		Long: `evtlog ends with one of these codes:

  0    ok
  1    failed: bad input, a refused record, any error not listed here
  2    usage or configuration: the command line must be changed, a file or
       directory that it names is not there, or cluster, token, user or password is wrong
  3    not found: the stream, group, member or letter does not exist
  4    unavailable: Redis or the archive cannot be reached or is locked
  5    not the single writer: another writer is at work on the stream
  6    integrity: stored bytes do not match their checksums
  7    time-out
  130  interrupted`,
	}
}
