package replica

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/keyspace"
)

// Config configures a Node. Dir, ID and Cluster are required; the zero value of
// everything else is a sound default.
type Config struct {
	// Dir holds everything the node keeps: archive.db, raft.db and snapshots/.
	// It must be on a local disk.
	Dir string
	// ID names the node for ever. 1 to 128 of A-Z a-z 0-9 . _ -
	ID string
	// Cluster names the cluster; the same rule. Nodes of another cluster are
	// refused.
	Cluster string

	// RaftListen and HTTPListen are the listen addresses. Zero means
	// 127.0.0.1:7460 and 127.0.0.1:7461; port 0 takes a free one.
	RaftListen, HTTPListen string
	// RaftAdvertise and HTTPAdvertise are the addresses that others dial; DNS
	// names are welcome. Zero means the address listened on. They may change
	// between starts.
	RaftAdvertise, HTTPAdvertise string
	// Peers are the HTTP addresses of other nodes. A node needs one that answers
	// to join, and to repair itself before it has met the cluster.
	Peers []string
	// Bootstrap makes an empty node the first one of a new cluster. Give it to
	// exactly one node; it changes nothing once the node has a past.
	Bootstrap bool
	// NonVoter keeps the node from voting: it holds a copy and serves reads.
	NonVoter bool
	// Rejoin lets an empty node whose id is still a voter be taken out of the
	// cluster and put in again. Without it such a node refuses to start, since
	// the vote it has forgotten could undo acknowledged folds.
	Rejoin bool

	// TLS is used for both ports, and on both ends. It needs Certificates,
	// RootCAs and ClientCAs. The raft port always asks for a client certificate;
	// the HTTP port does as ClientAuth says.
	TLS *tls.Config
	// Token is the bearer token that Fold, Join, Remove and Transfer need. The
	// nodes of a cluster share it. Empty needs none.
	Token string
	// AllowInsecureNetwork lets an unprotected node listen beyond this host:
	// anyone who reaches its ports can then read and change the archive.
	AllowInsecureNetwork bool

	// ElectionTimeout is raft's election time-out; its heartbeat time-out is 6/10
	// of it and the leader's lease half of it. A dead leader is replaced after
	// about two of them. Zero means 500 ms; at least 100 ms.
	ElectionTimeout time.Duration
	// TransportTimeout bounds one raft call. Zero means 10 s.
	TransportTimeout time.Duration
	// InstallTimeout is how long a leader waits for a follower that restores from
	// its snapshot. Zero means 2 min. A longer pull goes on where it stopped.
	InstallTimeout time.Duration
	// TrailingLogs is how many entries stay in the log behind a snapshot, for
	// followers that were away. Zero means 1024; at least 128.
	TrailingLogs uint64
	// SnapshotThreshold is how many entries bring about a snapshot; zero means
	// 256. SnapshotInterval is how often that is looked at; zero means 5 s.
	SnapshotThreshold uint64
	SnapshotInterval  time.Duration
	// PullStall is how long a pull may stay silent before another source is
	// tried. Zero means 3 s.
	PullStall time.Duration
	// CommitWatchdog is how long a leader may make no progress with work in hand,
	// as on a hanging disk, before it steps aside. Zero means 5 s.
	CommitWatchdog time.Duration
	// CompareEvery is how often the leader has all nodes compare their chains.
	// Zero means 30 s.
	CompareEvery time.Duration
	// ReserveBytes is the free space below which the node steps aside. Zero means
	// 64 MiB.
	ReserveBytes uint64

	// Handlers are served on the HTTP port besides the calls and the probes, such
	// as "/metrics".
	Handlers map[string]http.Handler
	// OnAlarm is told what needs a person's eye. It must not block.
	OnAlarm func(Alarm)
	// Logger gets raft's lines too. nil discards.
	Logger *slog.Logger

	// faults are set by tests only.
	faults faults
}

// Alarm is something that went wrong in a way that needs a person's eye, though
// the node may have repaired it.
type Alarm struct {
	// Kind is a short constant such as "diverged", "corrupt", "disk", "stalled".
	Kind string
	// Err says what happened.
	Err error
}

func (c Config) withDefaults() Config {
	setString(&c.RaftListen, "127.0.0.1:7460")
	setString(&c.HTTPListen, "127.0.0.1:7461")
	setDuration(&c.ElectionTimeout, 500*time.Millisecond)
	setDuration(&c.TransportTimeout, 10*time.Second)
	setDuration(&c.InstallTimeout, 2*time.Minute)
	setDuration(&c.SnapshotInterval, 5*time.Second)
	setDuration(&c.PullStall, 3*time.Second)
	setDuration(&c.CommitWatchdog, 5*time.Second)
	setDuration(&c.CompareEvery, 30*time.Second)
	if c.TrailingLogs == 0 {
		c.TrailingLogs = 1024
	}
	if c.SnapshotThreshold == 0 {
		c.SnapshotThreshold = 256
	}
	if c.ReserveBytes == 0 {
		c.ReserveBytes = 64 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.OnAlarm == nil {
		c.OnAlarm = func(Alarm) {}
	}
	return c
}

func setString(s *string, def string) {
	if *s == "" {
		*s = def
	}
}

func setDuration(d *time.Duration, def time.Duration) {
	if *d == 0 {
		*d = def
	}
}

func badConfig(format string, args ...any) error {
	return fmt.Errorf("replica: %w: %w", api.ErrBadRequest, fmt.Errorf(format, args...))
}

func (c Config) validate() error {
	if c.Dir == "" {
		return badConfig("Dir is empty; name the node's directory")
	}
	// The rule of group names suits ids as well.
	if err := keyspace.CheckGroup(c.ID); err != nil {
		return badConfig("ID %q: 1 to 128 of A-Z a-z 0-9 . _ - are allowed", c.ID)
	}
	if err := keyspace.CheckGroup(c.Cluster); err != nil {
		return badConfig("Cluster %q: 1 to 128 of A-Z a-z 0-9 . _ - are allowed", c.Cluster)
	}
	if c.ElectionTimeout < 100*time.Millisecond {
		return badConfig("ElectionTimeout %s is below 100 ms: nodes would take each other for dead", c.ElectionTimeout)
	}
	if c.TrailingLogs < 128 {
		return badConfig("TrailingLogs %d is below 128: a follower that paused would need a snapshot each time", c.TrailingLogs)
	}
	if c.InstallTimeout < c.TransportTimeout {
		return badConfig("InstallTimeout %s is below TransportTimeout %s", c.InstallTimeout, c.TransportTimeout)
	}
	for name, d := range map[string]time.Duration{"SnapshotInterval": c.SnapshotInterval, "PullStall": c.PullStall, "CommitWatchdog": c.CommitWatchdog, "CompareEvery": c.CompareEvery} {
		if d < 0 {
			return badConfig("%s %s is negative", name, d)
		}
	}
	for i, p := range c.Peers {
		if err := api.CheckHostPort(p); err != nil {
			return badConfig("Peers[%d]: %w", i, err)
		}
	}
	return c.validateExposure()
}

// validateExposure keeps an unprotected node on this host unless told otherwise.
// The raft port has no token, so beyond this host it needs mutual TLS; a token
// in cleartext protects nothing.
func (c Config) validateExposure() error {
	if c.TLS != nil && (len(c.TLS.Certificates) == 0 && c.TLS.GetCertificate == nil || c.TLS.ClientCAs == nil) {
		return badConfig("TLS needs Certificates and ClientCAs: the raft port lets in nodes with a certificate only")
	}
	if c.AllowInsecureNetwork {
		return nil
	}
	if c.TLS == nil {
		for _, listen := range []string{c.RaftListen, c.HTTPListen} {
			if !api.IsLoopback(listen) {
				return badConfig("%s is reachable from other hosts, but the node has no TLS: set TLS, listen on 127.0.0.1, or set AllowInsecureNetwork", listen)
			}
		}
		return nil
	}
	if !api.IsLoopback(c.HTTPListen) && c.Token == "" && c.TLS.ClientAuth != tls.RequireAndVerifyClientCert {
		return badConfig("%s is reachable from other hosts, but anyone may fold: set Token, or ClientAuth to RequireAndVerifyClientCert", c.HTTPListen)
	}
	return nil
}
