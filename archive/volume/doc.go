// Package volume keeps archives in one local file. A volume is the archive of
// one stream; a file, the Store, holds any number of them, so that one
// transaction can span several.
//
//	store, err := volume.Open("/var/lib/evtlog/archive.db", volume.Options{})
//	w, err := store.Fold(ctx, stream, prev, records)
//	for rec, err := range store.Read(ctx, stream, archive.Range{After: prev}) { … }
//	err = store.Close()
//
// # Pages
//
// A volume is addressed by a 64-bit page number. Record n of the stream is page
// ArchiveBase+n, so the page axis is mint order, and a time or an id is found
// by searching page numbers: there is no second index that could disagree.
//
// # Commits
//
// A commit appends records, and moves log sequence number, record count,
// watermark and chain, in one transaction with one fsync. The chain is
// SHA-256(previous chain ‖ commit bytes); Verify computes it anew and names the
// first commit that does not fit. Every page and row carries a CRC32C of its
// own, which each read checks.
//
// # What is promised
//
// A Fold or Commit that returned nil is on disk. One that was refused has
// changed nothing. Bytes that do not match their checksum, their place or their
// chain are never returned: the answer is a *CorruptError, and the volume
// serves nothing more until it was repaired. A damaged file is never emptied or
// replaced on its own account.
//
// docs/formats/volume.md describes every byte.
package volume
