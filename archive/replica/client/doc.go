// Package client reaches a replicated archive from outside: it is given the
// HTTP addresses of the nodes and implements archive.Archive.
//
// It finds the leader by itself, repeats only what is safe to repeat, and
// settles a fold whose answer was lost by folding the same records again: the
// cluster compares the watermark, so the repetition either finds the fold done
// or does it. The package does not link raft.
package client
