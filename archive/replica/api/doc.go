// Package api is what the nodes of a replicated archive and their clients have
// in common: the errors, the addresses, the shape of a status, and the
// translation between those and the wire.
//
// It does not link raft, so a program that only uses the client does not either.
package api
