// Package keyspace is the one place that knows how things are called in Redis:
// every key, every channel, the rule for names, and the cluster slot.
//
// All keys of one queue carry the queue as their hash tag, so they share a
// cluster slot and may be used in one transaction:
//
//	emq:{q}:stream:<name>                   the live stream
//	emq:{q}:stream:<name>:archived          last watermark, a string for foreign readers
//	emq:{q}:stream:<name>:floor             one-entry stream, the monotone proof of the watermark
//	emq:{q}:stream:<name>:epoch             counter, bumped by every recorded trim
//	emq:{q}:stream:<name>:skipped:<group>   list of ranges a group has not been given
//	emq:{q}:stream:<name>:lease:<what>      leases
//	emq:{q}:events                          pub/sub channel of the queue
//	emq:{q}:job:<branded>                   job row; only its name is used here
//	{emq}:version                           fence against another wire format
//
// Stream names hold no ':', so none of these can collide.
//
// The package does no I/O and imports only the standard library.
package keyspace

import "strings"

// The fence key and the value this wire format writes there.
const (
	VersionKey   = "{emq}:version"
	VersionValue = "echomq:3.0.0"
)

// deadSuffix is what the name of a stream of given-up entries ends in.
const deadSuffix = ".dead"

// Stream names one stream and builds its keys. The zero Stream is not valid;
// make one with NewStream. It is comparable and safe to copy.
type Stream struct {
	queue, name, key string
}

// NewStream returns the stream called name in the given queue. The name of a
// stream is 1..128 of A-Z a-z 0-9 . _ - and the suffix of Dead may come on top
// of the 128, so that every stream's Dead can be opened by its name. A queue or
// name that breaks its rule is a *NameError.
func NewStream(queue, name string) (Stream, error) {
	if err := CheckQueue(queue); err != nil {
		return Stream{}, err
	}
	longest := MaxName
	if strings.HasSuffix(name, deadSuffix) {
		longest += len(deadSuffix)
	}
	if err := checkSimple(KindStream, name, longest); err != nil {
		return Stream{}, err
	}
	return Stream{queue: queue, name: name, key: StreamPrefix(queue) + name}, nil
}

// StreamPrefix returns what the keys of all streams of a queue begin with. What
// follows in a key is a stream's name, or that and ':' and more for the keys
// that belong to a stream. The queue must have passed CheckQueue.
func StreamPrefix(queue string) string { return "emq:{" + queue + "}:stream:" }

// Queue returns the queue name.
func (s Stream) Queue() string { return s.queue }

// Name returns the stream name.
func (s Stream) Name() string { return s.name }

// String returns "queue/name", for messages and metrics.
func (s Stream) String() string { return s.queue + "/" + s.name }

// Key returns the key of the live stream.
func (s Stream) Key() string { return s.key }

// Archived returns the key of the watermark string that foreign readers use.
func (s Stream) Archived() string { return s.key + ":archived" }

// Floor returns the key of the one-entry stream that proves the watermark.
func (s Stream) Floor() string { return s.key + ":floor" }

// Epoch returns the key of the counter that every recorded trim increments.
func (s Stream) Epoch() string { return s.key + ":epoch" }

// Skipped returns the key of the list of ranges that a group was not given.
// The group must have passed CheckGroup.
func (s Stream) Skipped(group string) string { return s.key + ":skipped:" + group }

// Lease returns the key of the lease on what.
func (s Stream) Lease(what string) string { return s.key + ":lease:" + what }

// Dead returns the stream that takes the entries which handlers gave up on,
// "<name>.dead" in the same queue.
func (s Stream) Dead() Stream {
	return Stream{queue: s.queue, name: s.name + deadSuffix, key: s.key + deadSuffix}
}

// Events returns the pub/sub channel of a queue. The queue must have passed
// CheckQueue.
func Events(queue string) string { return "emq:{" + queue + "}:events" }

// JobKey returns the key of a job. It is the gate in front of every
// announcement: nothing is published under an id that does not pass it. A
// queue that breaks its rule, or an id that is not a well-formed branded id of
// some namespace (the rule of evtid.ValidBranded), is a *NameError.
func JobKey(queue, id string) (string, error) {
	if err := CheckQueue(queue); err != nil {
		return "", err
	}
	if err := checkBranded(id); err != nil {
		return "", err
	}
	return "emq:{" + queue + "}:job:" + id, nil
}
