// Package replica keeps an archive on several nodes, so that it outlives any
// one of them. Raft replicates the commits; each node keeps them in the volumes
// of package volume, fsynced, with the raft index in the same transaction.
//
// A node is started inside the program that calls Start, and serves others on
// two ports: raft, and HTTP with Connect calls, /livez and /readyz. A program
// that only wants to fold into a cluster and read from it uses package client,
// which does not link raft.
//
//	node, err := replica.Start(ctx, replica.Config{
//		Dir: "/var/lib/evtlog", ID: "a", Cluster: "prod", Bootstrap: true,
//	})
//	cluster := node.Archive() // an archive.Archive
//	err = node.Stop(ctx)
//
// # What is promised
//
// A fold that returned nil is on disk on a majority of the voters. A fold is
// done once, however often it is repeated. A node answers a read only from a
// state that has reached the watermark asked for, and never from bytes whose
// checksum or chain does not match.
//
// # A cluster's life
//
// One node is started with Bootstrap, once; it draws the incarnation, a random
// number that every handshake checks besides the cluster id. The others are
// started with Peers and join by themselves: first without a vote, and with one
// when they have caught up. Node ids are for ever, addresses may change.
// Recover brings back a cluster that has lost its majority.
package replica
