package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/manifest"
	"github.com/evtlog/evtlog/archive/replica/snapstore"
)

// RecoverConfig says which node a cluster is to be recovered from.
type RecoverConfig struct {
	// Dir is the directory of the node whose state is to be kept; the node must
	// not be running. Choose the one with the highest LastIndex among those left.
	Dir string
	// ID and Cluster are the node's, as in its Config.
	ID, Cluster string
	// Address is where the others will reach the node.
	Address api.Address
	// DryRun only makes the plan.
	DryRun bool
	// Logger gets what is done. nil discards.
	Logger *slog.Logger
}

// RecoverPlan is what Recover is about to do, or has done.
type RecoverPlan struct {
	// Before are the members the node knows; After is the only one afterwards.
	Before []api.Server
	After  api.Server
	// LastIndex and LastTerm are the end of the log that becomes the truth.
	LastIndex, LastTerm uint64
	// Entries is how many entries of the log lie behind the newest snapshot. Some
	// of the last ones may never have been acknowledged; they are kept all the same.
	Entries uint64
	// FromVolumes: there is no log, only the volumes. What the log held beyond
	// them is lost.
	FromVolumes bool
	// OldIncarnation ends; NewIncarnation keeps nodes of the old one out, which
	// must rejoin.
	OldIncarnation, NewIncarnation string
	// Volumes are the volumes before entries of the log are applied.
	Volumes []api.Volume
}

// Recover makes the state of one node the state of a new incarnation of its
// cluster, with this node as the only member. It is for a cluster that has lost
// its majority for good, and may lose what only the others had acknowledged. The
// other nodes are then started with Rejoin.
//
// With DryRun nothing is changed. archive.ErrLocked says that the node is
// running; ErrForeignCluster that the directory is another cluster's.
func Recover(ctx context.Context, cfg RecoverConfig) (RecoverPlan, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	full := Config{Dir: cfg.Dir, ID: cfg.ID, Cluster: cfg.Cluster, Logger: cfg.Logger}.withDefaults()
	if err := full.validate(); err != nil {
		return RecoverPlan{}, err
	}
	if _, err := api.ParseAddress(cfg.Address.String()); err != nil {
		return RecoverPlan{}, err
	}
	// Nothing may be created where nothing is.
	if _, err := os.Stat(filepath.Join(cfg.Dir, volumesFile)); err != nil {
		return RecoverPlan{}, fmt.Errorf("replica: recover: %w", err)
	}
	_, missing := os.Stat(filepath.Join(cfg.Dir, raftFile))
	off, err := openOffline(full)
	if err != nil {
		return RecoverPlan{}, err
	}
	plan, err := off.plan(cfg)
	if err == nil && !cfg.DryRun {
		err = off.recover(ctx, cfg, plan)
	}
	err = errors.Join(err, off.close())
	if cfg.DryRun && missing != nil {
		// Opening has made an empty log.
		err = errors.Join(err, os.Remove(filepath.Join(cfg.Dir, raftFile)))
	}
	return plan, err
}

// offline is a node's directory without a node.
type offline struct {
	store *store
	logs  *raftStore
	snaps *snapstore.Store
}

func openOffline(cfg Config) (*offline, error) {
	report := func(a Alarm) { cfg.Logger.Error("alarm", "kind", a.Kind, "error", a.Err) }
	st, err := openStore(filepath.Join(cfg.Dir, volumesFile), cfg.Logger, nil, report)
	if err != nil {
		return nil, err
	}
	o := &offline{store: st}
	o.logs, err = openRaftStore(cfg.Dir, func(error) {}, func(i uint64, err error) {
		cfg.Logger.Error("an entry of the log is damaged", "index", i, "error", err)
	})
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	o.snaps, err = snapstore.Open(snapstore.Config{Dir: filepath.Join(cfg.Dir, snapshotsDir), Missing: st.missing, Logger: cfg.Logger})
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

func (o *offline) close() error {
	var err error
	if o.logs != nil {
		err = o.logs.close()
	}
	return errors.Join(err, o.store.close())
}

func (o *offline) plan(cfg RecoverConfig) (RecoverPlan, error) {
	e := &engine{store: o.store, logs: o.logs, snaps: o.snaps}
	own := o.store.identity()
	logID, err := o.logs.identity()
	if err != nil {
		return RecoverPlan{}, err
	}
	want := api.Identity{Cluster: cfg.Cluster}
	if err := errors.Join(want.Matches(own), want.Matches(logID)); err != nil {
		return RecoverPlan{}, err
	}
	plan := RecoverPlan{
		After:          api.Server{ID: cfg.ID, Address: cfg.Address.String(), Voter: true},
		OldIncarnation: own.Incarnation, NewIncarnation: newIncarnation(""),
	}
	members, err := e.lastMembership()
	if err != nil {
		return plan, err
	}
	for _, s := range members {
		plan.Before = append(plan.Before, api.Server{ID: string(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter})
	}
	heads, err := o.store.heads()
	if err != nil {
		return plan, err
	}
	for _, h := range heads {
		plan.Volumes = append(plan.Volumes, api.Volume{Stream: h.Stream, LSN: h.LSN, Records: h.Count, Watermark: h.Watermark, Chain: h.Chain})
	}
	if plan.FromVolumes, err = e.raftEmpty(); err != nil {
		return plan, err
	}
	return plan, o.end(&plan, heads)
}

// end finds where the log, or without one the volumes, end.
func (o *offline) end(plan *RecoverPlan, heads []manifest.Volume) error {
	if plan.FromVolumes {
		for _, h := range heads {
			plan.LastIndex, plan.LastTerm = max(plan.LastIndex, h.RaftIndex), max(plan.LastTerm, h.RaftTerm)
		}
		if plan.LastIndex == 0 {
			return fmt.Errorf("replica: recover: %w: there is neither a log nor a record", api.ErrBadRequest)
		}
		return nil
	}
	snaps, err := o.snaps.List()
	if err != nil {
		return err
	}
	if len(snaps) > 0 {
		plan.LastIndex, plan.LastTerm = snaps[0].Index, snaps[0].Term
	}
	first, err := o.logs.FirstIndex()
	if err != nil {
		return fmt.Errorf("replica: read %s: %w", raftFile, err)
	}
	if !mayRun(first, plan.LastIndex, plan.LastIndex) {
		return fmt.Errorf("replica: recover: %s begins at entry %d and no snapshot before it is complete on this node: choose another node", raftFile, first)
	}
	last, err := o.logs.LastIndex()
	if err != nil {
		return fmt.Errorf("replica: read %s: %w", raftFile, err)
	}
	if last > plan.LastIndex {
		var l raft.Log
		if err := o.logs.GetLog(last, &l); err != nil {
			return fmt.Errorf("replica: read entry %d of %s: %w", last, raftFile, err)
		}
		plan.Entries = last - plan.LastIndex
		plan.LastIndex, plan.LastTerm = l.Index, l.Term
	}
	return nil
}

// recover does what the plan says. The new incarnation is written to the volumes
// first and to the log last: a node in between is refused as a mixture, and
// Recover may be run again.
func (o *offline) recover(ctx context.Context, cfg RecoverConfig, plan RecoverPlan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id := api.Identity{Cluster: cfg.Cluster, Incarnation: plan.NewIncarnation}
	if err := o.store.setIdentity(id); err != nil {
		return err
	}
	members := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: raft.ServerID(cfg.ID), Address: raft.ServerAddress(plan.After.Address)}}}
	var broken error
	f := &fsm{
		store: o.store, source: plan.After.Address, log: cfg.Logger, anyIncarnation: true, ctx: ctx,
		stop: func(err error) { broken = err }, alarm: func(a Alarm) { cfg.Logger.Error("alarm", "kind", a.Kind, "error", a.Err) },
		mend: func(evtlog.StreamName, error) {},
	}
	var err error
	if plan.FromVolumes {
		err = o.snapshotVolumes(f, plan, members)
	} else {
		conf := raft.DefaultConfig()
		conf.LocalID, conf.Logger = raft.ServerID(cfg.ID), raftLogger(cfg.Logger)
		_, trans := raft.NewInmemTransport("")
		err = raft.RecoverCluster(conf, f, o.logs, o.logs, o.snaps, trans, members)
	}
	if err = errors.Join(broken, err); err != nil {
		return fmt.Errorf("replica: recover: %w", err)
	}
	return o.logs.setIdentity(id)
}

// snapshotVolumes makes a snapshot of the volumes the beginning of a new log
// that goes on behind the old one.
func (o *offline) snapshotVolumes(f *fsm, plan RecoverPlan, members raft.Configuration) error {
	snap, err := f.Snapshot()
	if err != nil {
		return err
	}
	if err := o.logs.SetUint64([]byte(currentTerm), plan.LastTerm); err != nil {
		return err
	}
	sink, err := o.snaps.Create(1, plan.LastIndex, plan.LastTerm, members, plan.LastIndex, nil)
	if err != nil {
		return err
	}
	return errors.Join(snap.Persist(sink), sink.Close())
}
