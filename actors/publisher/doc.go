// Package publisher is the single writer of a stream: it gives each record its
// id, appends it, and answers with what became of it.
//
// # Order
//
// One goroutine, the pump, takes records from a queue, mints an id for each at
// the moment it encodes it, and sends them over one connection. So the order of
// the stream, of the ids and of minting is one order; an append that begins
// after another one has returned comes behind it.
//
// Everything that waits goes out in one flush of at most Config.MaxBatch records
// and about 1 MiB. Four flushes are on their way at most: while the server works
// on some the next is encoded. No timer is involved; a lone append goes out at
// once.
//
// When nothing waits and nothing is on its way, a small record is sent by its
// caller's goroutine, which sits in for the pump: neither has to wake the other
// then, which takes a third of the time of an append on loopback. It looks at its
// context again after a millisecond at the latest.
//
// # Memory
//
// Records that wait or are on their way are charged their names and values, plus
// RecordOverhead each and FieldOverhead for each field; calls that wait for room
// are charged CallerOverhead each. All of this together stays within
// Config.MaxQueuedBytes, however many call: those that find no place to wait are
// refused. Beside that the publisher holds one encoded flush (1 MiB, or the
// largest record when that is more).
//
// # Outcomes
//
// Each append is committed, rejected or uncertain. When a connection is lost,
// the records on their way are settled on a new one before anything else is
// sent: an id that the stream or the archive holds with the same fields is
// committed; one that is absent below the top, or below the archive's watermark,
// is rejected; one that is absent above both is sent again, under the same id. A
// record can therefore never be written twice, whatever answer was lost. A caller whose context ends before
// that gets an *evtlog.UncertainError with the id; the settlement goes on, and
// Resolve answers.
//
// Without an archive one case stays open: when retention has trimmed past the id
// meanwhile, nobody can tell whether it was there.
//
// No attempt is made to kill the lost connection on the server by its client id:
// after a restart of the server the same number belongs to somebody else, and
// the rules above do not need it.
package publisher
