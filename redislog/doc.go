// Package redislog is the half of the log that lives in Redis, and the only
// package that speaks to it: connections, stream verbs, consumer groups,
// announcements, and one table that says what each refusal of the server means.
//
// A Client is made by Open. It holds a small pool for short commands, which all
// carry a deadline. Whatever waits or streams has a connection of its own:
//
//	Log          short commands on one stream; cheap, safe for concurrent use
//	Writer       the append pipeline of the one writer of a stream
//	GroupReader  the blocking reads and acknowledgements of one group member
//	Subscription the announcements of a queue
//
// # Connections
//
// redigo dials, authenticates, names and selects every connection. The append
// pipeline, the group reads and the pages of a replay then speak the protocol
// themselves on the same socket, because there the cost per entry counts. A
// connection that saw a time-out, a cancelled context, an answer that does not
// fit the question, or a server that is no longer a primary is closed and never
// used again: no answer can reach the wrong caller.
//
// # Errors
//
// A refusal of the server is a *ServerError that wraps one of evtlog's
// sentinels and carries its Class. A broken connection is a *ConnError: what
// was sent on it may or may not have been done. Classify answers for any error.
//
// # Limits
//
// One server (a primary with its replicas) is supported. A Redis Cluster answers
// MOVED or ASK, which is reported as Topology and not followed. All keys of a
// stream carry one hash tag, so the key layout itself is ready for it.
//
// An incomplete server such as miniredis serves for demonstrations: what it
// does not report (its version, a group's lag) reads as unknown, and trims there
// do not move a stalled group's position.
package redislog
