// Package snapstore keeps the snapshots of a replicated archive: small files,
// each a manifest with the membership at that point.
//
// It differs from raft's own file store in one thing that matters. A manifest
// that came from the leader is only a promise until the node has pulled what it
// names, so it stays pending: List does not show it before its content is there,
// and it never pushes out a snapshot that the node took itself. A node that
// fails in the middle of an install therefore still starts from where it was.
package snapstore
