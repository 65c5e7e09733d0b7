package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// boltFSM puts each entry into a bbolt file, with fsync.
type boltFSM struct{ db *bbolt.DB }

func (f *boltFSM) Apply(l *raft.Log) any {
	return f.db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("records"))
		if err != nil {
			return err
		}
		var key [8]byte
		binary.BigEndian.PutUint64(key[:], l.Index)
		return b.Put(key[:], l.Data)
	})
}

func (f *boltFSM) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("no snapshot needed") }
func (f *boltFSM) Restore(io.ReadCloser) error         { return errors.New("nothing to restore") }

// raftNode is one of the three nodes of the bare cluster.
type raftNode struct {
	raft  *raft.Raft
	files []io.Closer
}

func (n *raftNode) close() {
	_ = n.raft.Shutdown().Error()
	for _, f := range n.files {
		_ = f.Close()
	}
}

func newRaftNode(dir, id string) (*raftNode, raft.Server, error) {
	options := &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType, NoFreelistSync: true}
	store, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(dir, id+"-raft.db"), BoltOptions: options})
	if err != nil {
		return nil, raft.Server{}, err
	}
	db, err := bbolt.Open(filepath.Join(dir, id+"-fsm.db"), 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, raft.Server{}, err
	}
	transport, err := raft.NewTCPTransport("127.0.0.1:0", nil, 3, 10*time.Second, io.Discard)
	if err != nil {
		return nil, raft.Server{}, err
	}
	cfg := raft.DefaultConfig()
	cfg.LocalID, cfg.LogOutput = raft.ServerID(id), io.Discard
	r, err := raft.NewRaft(cfg, &boltFSM{db}, store, store, raft.NewInmemSnapshotStore(), transport)
	if err != nil {
		return nil, raft.Server{}, err
	}
	return &raftNode{raft: r, files: []io.Closer{store, db}}, raft.Server{ID: cfg.LocalID, Address: transport.LocalAddr()}, nil
}

// raftSingle commits records one at a time on three nodes over loopback, log and
// state machine with fsync.
func raftSingle(ctx context.Context, j job) (Result, error) {
	var nodes []*raftNode
	var servers []raft.Server
	defer func() {
		for _, n := range nodes {
			n.close()
		}
	}()
	for i := range 3 {
		n, server, err := newRaftNode(j.dir, fmt.Sprint("n", i))
		if err != nil {
			return Result{}, err
		}
		nodes, servers = append(nodes, n), append(servers, server)
	}
	if err := nodes[0].raft.BootstrapCluster(raft.Configuration{Servers: servers}).Error(); err != nil {
		return Result{}, err
	}
	leader, err := raftLeader(ctx, nodes)
	if err != nil {
		return Result{}, err
	}
	return called(j.records, 1, func() error {
		f := leader.Apply(payload, 10*time.Second)
		if err := f.Error(); err != nil {
			return err
		}
		if err, ok := f.Response().(error); ok {
			return err
		}
		return nil
	})
}

// raftLeader waits for a leader that has committed.
func raftLeader(ctx context.Context, nodes []*raftNode) (*raft.Raft, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		for _, n := range nodes {
			if n.raft.State() == raft.Leader && n.raft.Apply(payload, time.Second).Error() == nil {
				return n.raft, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no leader: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
