package redislog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/keyspace"
)

func TestTable(t *testing.T) {
	for _, c := range []struct {
		message  string
		class    Class
		sentinel error
		closes   bool
	}{
		{"OOM command not allowed when used memory > 'maxmemory'.", BackPressure, evtlog.ErrOutOfMemory, false},
		{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", BackPressure, evtlog.ErrNotPersisting, false},
		{"NOREPLICAS Not enough good replicas to write.", BackPressure, evtlog.ErrUnavailable, false},
		{"BUSY Redis is busy running a script.", BackPressure, evtlog.ErrUnavailable, false},
		{"UNKILLABLE Sorry the script already executed write commands", BackPressure, evtlog.ErrUnavailable, false},
		{"TRYAGAIN Multiple keys request during rehashing of slot", BackPressure, evtlog.ErrUnavailable, false},
		{"ERR max number of clients reached", BackPressure, evtlog.ErrUnavailable, true},
		{"LOADING Redis is loading the dataset in memory", Transient, evtlog.ErrUnavailable, true},
		{"MASTERDOWN Link with MASTER is down", Transient, evtlog.ErrUnavailable, true},
		{"CLUSTERDOWN The cluster is down", Transient, evtlog.ErrUnavailable, true},
		{"READONLY You can't write against a read only replica.", Topology, evtlog.ErrReadOnly, true},
		{"MOVED 3999 127.0.0.1:6381", Topology, evtlog.ErrServer, true},
		{"ASK 3999 127.0.0.1:6381", Topology, evtlog.ErrServer, true},
		{"NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option", Topology, evtlog.ErrNoGroup, false},
		{"UNBLOCKED the stream key no longer exists", Topology, evtlog.ErrNoGroup, false},
		{"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)", Topology, evtlog.ErrUnavailable, true},
		{"WRONGTYPE Operation against a key holding the wrong kind of value", Terminal, evtlog.ErrWrongType, false},
		{"NOAUTH Authentication required.", Terminal, evtlog.ErrDenied, false},
		{"WRONGPASS invalid username-password pair or user is disabled.", Terminal, evtlog.ErrDenied, false},
		{"NOPERM this user has no permissions to run the 'xadd' command", Terminal, evtlog.ErrDenied, false},
		{"DENIED Redis is running in protected mode", Terminal, evtlog.ErrDenied, false},
		{"ERR invalid password", Terminal, evtlog.ErrDenied, false},
		{"ERR AUTH <password> called without any password configured for the default user.", Terminal, evtlog.ErrDenied, false},
		{"ERR Client sent AUTH, but no password is set", Terminal, evtlog.ErrDenied, false},
		{"ERR DB index is out of range", Terminal, evtlog.ErrServer, false},
		{"ERR invalid DB index", Terminal, evtlog.ErrServer, false},
		{"ERR unknown command 'XAUTOCLAIM', with args beginning with: ", Terminal, evtlog.ErrServer, false},
		{"ERR unknown subcommand 'ID'. Try CLIENT HELP.", Terminal, evtlog.ErrServer, false},
		{"ERR The ID specified in XADD is equal or smaller than the target stream top item", Caller, evtlog.ErrNonMonotonic, false},
		{"ERR The ID specified in XADD must be greater than 0-0", Caller, evtlog.ErrNonMonotonic, false},
		{"ERR The stream has exhausted the last possible ID, unable to add more items", Caller, evtlog.ErrNonMonotonic, false},
		{"BUSYGROUP Consumer Group name already exists", Caller, evtlog.ErrServer, false},
		{"CROSSSLOT Keys in request don't hash to the same slot", Caller, evtlog.ErrServer, false},
		{"EXECABORT Transaction discarded because of previous errors.", Caller, evtlog.ErrServer, false},
		{"ERR syntax error", Caller, evtlog.ErrServer, false},
		{"", Caller, evtlog.ErrServer, false},
	} {
		err := serverError("XADD cm/feed", "h:1", c.message)
		if Classify(err) != c.class || !errors.Is(err, c.sentinel) || lookUp(c.message).closes != c.closes {
			t.Errorf("%q: class %s, %v, closes %v", c.message, Classify(err), err.sentinel, lookUp(c.message).closes)
		}
		if wrapped := fmt.Errorf("more: %w", err); Classify(wrapped) != c.class {
			t.Errorf("%q wrapped: class %s", c.message, Classify(wrapped))
		}
	}
}

// TestTableRows: every row says what to do, and no row hides behind another.
func TestTableRows(t *testing.T) {
	for _, r := range rules {
		if r.class < Transient || r.class > Caller || r.sentinel == nil || r.next == "" {
			t.Errorf("row %q is incomplete", r.prefix)
		}
		if got := lookUp(r.prefix); got.prefix != r.prefix {
			t.Errorf("row %q is never reached, %q comes first", r.prefix, got.prefix)
		}
	}
}

func TestServerErrorText(t *testing.T) {
	err := serverError("XADD cm/feed", "h:1", "OOM command not allowed")
	const want = "redislog: XADD cm/feed at h:1: OOM command not allowed; raise maxmemory, or let retention make room, and try again"
	if err.Error() != want || err.Prefix != "OOM" {
		t.Fatalf("got %q, prefix %q", err, err.Prefix)
	}
}

func TestClassifyOwnErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Class
	}{
		{nil, 0},
		{io.EOF, Transient},
		{context.Canceled, Transient},
		{evtlog.ErrUnavailable, Transient},
		{&ConnError{Err: io.EOF}, Transient},
		{&ConnError{Err: serverError("", "", "READONLY x")}, Topology},
		{&ConfigError{}, Terminal},
		{&VersionError{}, Terminal},
		{&FenceError{}, Terminal},
		{&TrimEffectError{}, Terminal},
		{&evtlog.ForeignEntryError{}, Terminal},
		{&ArgumentError{}, Caller},
		{&keyspace.NameError{}, Caller},
		{&evtlog.NonMonotonicError{}, Caller},
		{&evtlog.FieldError{}, Caller},
	} {
		if got := Classify(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
	if got := Class(99).String(); got != "class(99)" {
		t.Errorf("an unknown class prints %q", got)
	}
}

// TestConnErrorSaysWhatIsNext: only a connection that stood can have carried a
// command.
func TestConnErrorSaysWhatIsNext(t *testing.T) {
	for _, c := range []struct {
		err  ConnError
		want string
	}{
		{ConnError{Op: "XADD q/s", Addr: "h:1", Err: io.EOF}, "redislog: XADD q/s at h:1: EOF; the connection is closed, its last commands may or may not have been done"},
		{ConnError{Op: opConnect, Addr: "h:1", Err: io.EOF}, "redislog: connect at h:1: EOF; nothing was asked of it yet; see that Redis serves there and that the URL is right"},
		{ConnError{Op: opConnect, Addr: "h:1", Err: net.ErrClosed}, "redislog: connect at h:1: use of closed network connection; its last commands may or may not have been done"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestCheckVersion(t *testing.T) {
	for version, ok := range map[string]bool{
		"": true, "unstable": true, "7.0.15": true, "6.2.7": true, "6.2.14": true, "7.0.5": true, "7": false, "7.2.4": true, "8.4.0-rc1": true, "255.255.255": true,
		"5.0.7": false, "6.0.20": false, "6.2.0": false, "6.2.6": false, "7.0.0": false, "7.0.4": false, "6.2": false,
	} {
		reason, got := checkVersion(version)
		if got != ok || ok != (reason == "") {
			t.Errorf("%q: %v, %q", version, got, reason)
		}
	}
}
