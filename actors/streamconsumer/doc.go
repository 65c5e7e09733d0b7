// Package streamconsumer is the actor that consumes a stream as one member of a
// consumer group: it reads, calls the program's handler, and acknowledges.
//
// A Consumer is built with New and run by package supervise through its Spec.
// It owns one private connection, on which the blocking read parks in a
// goroutine of its own; everything else goes over the shared short-command
// connections.
//
// # Order
//
// After every (re)connect a member first offers what is pending under its own
// name, once and in order; then the ranges that a trim recorded as skipped for
// its group, read from the archive; and then new entries. On a beat it takes
// over entries of peers that have been silent for MinIdle. An entry whose
// handler fails waits for its back-off without holding others up.
//
// With several Workers, entries of different keys are handled at the same time,
// and those of one key one after the other in the order of the stream. A failed
// entry does not hold the later ones of its key: redeliveries come out of order
// in any case, and holding them would let one deadly entry stop its key for as
// long as its back-off lasts.
//
// # Promises
//
// At-least-once: an entry is acknowledged after its handler returned nil, or
// after it was stored in the dead stream, or after it was recorded as skipped,
// and never before. Handlers deduplicate on Delivery.ID. Acknowledgements ride
// with the next read; a crash redelivers at most the batch in hand and the two
// that a member with a quick handler reads ahead.
//
// No two members run one entry at a time, as long as each can reach Redis at
// least once per MinIdle: work in hand is renewed every third of it, and a
// handler whose entry was lost all the same is cancelled. That holds also for an
// entry that is trimmed while its handler runs: its member names it as one that it
// works on, and whoever hands out the range it was recorded in leaves it alone
// until it was acknowledged or its member has been silent for MinIdle. What a
// member has just finished when the trim comes may be handed out once more.
//
// An entry that ends the process is as much a failure as one whose handler
// returns an error: the server counts deliveries, and the member looks at the
// count before it calls the handler. To keep the neighbours in a batch from
// being blamed, a claim does not count as a delivery, and an entry that was
// already redelivered is offered alone: read by itself, behind the
// acknowledgements of everything before it.
//
// Nothing is skipped in silence. A pending entry whose body was trimmed becomes a
// skipped range of the group before it is acknowledged; a range is handled from
// the archive, or reported as evtlog.Lost.
package streamconsumer
