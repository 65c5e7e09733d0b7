// Package archiver moves a stream's records into an archive, and only then trims
// the stream.
//
// # One cycle
//
//  1. The watermark W is read from the archive, never from Redis or a clock.
//  2. A target is chosen: an id that the stream holds or has held. The dial says
//     how eagerly (Dial), and what Keep wants trimmed is always folded.
//  3. The records of (W, target] are read in pages and folded in commits of at
//     most 1,000 records and 512 KiB, each a compare-and-set on W; the next page
//     is read while the former is folded. An archive.Pipelined is given up to 8
//     commits at a time, each on the end of the one before; W moves on as they
//     are confirmed, without a gap. When one is refused or uncertain, W is read
//     again once none is on its way any more, and settles what became of all.
//  4. W is sealed: first the floor, by which readers of the live stream see that
//     a page may have a hole, then the string for foreign readers.
//  5. The stream is trimmed through min(W, what Keep lets go), by id, and read
//     back.
//
// A crash between any two steps loses nothing and archives nothing twice; the
// next cycle, of this process or another, repeats what is missing. Steps 4 and 5
// are repeated on every tick.
//
// Between two ticks a cycle goes on when Nudge is called: folds continue from
// the W that the archive answered last (its compare-and-set would refuse a stale
// one) with what the stream holds above it, and W is sealed; reading W anew and
// trimming wait for the next tick.
//
// # What stops a trim
//
// The archive is the only licence to trim. While it cannot be reached, is
// behind, or refuses, nothing is trimmed and the live stream grows: the policy
// for a lagging archive is to block, and to say so (the component is Degraded
// with an *ArchiveError), not to drop. Give Redis the memory for the outage you
// want to survive. Folding is tried again with a growing pause.
//
// Trimming, not folding, is also blocked by an entry at a position that no id
// can have (*evtlog.ForeignEntryError: it cannot be archived), by a live record
// at or below W of which the archive has no copy (*UnarchivedError), by a stream
// that ends below W (*RegressedError), and for good by a trim that removed more
// than it was asked to (*FaultError).
//
// # What is lost before it is folded
//
// Records that leave the stream before they were folded (another program trims or
// deletes, the server evicts) are reported as an evtlog.Lost: those that the
// archiver has seen by their ids, and others, from Redis 7 on, by the server's
// count of entries ever added. What went while no archiver was running is not
// noticed: nobody has counted.
//
// # One archiver per stream
//
// Two archivers of one stream do no harm: folds are compare-and-set, and neither
// trims above what the archive holds. They do hinder each other; run one.
package archiver
