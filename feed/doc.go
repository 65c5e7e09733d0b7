// Package feed is the codec of announcements: the payloads that are published
// on a queue's channel once an outcome has been decided.
//
// An announcement is a flat JSON object whose values are all strings. The
// members event and job come first, then the caller's extras in their order:
//
//	{"event":"scored","job":"JOB0KHTOWnGLuC","pct":"83"}
//
// The announcement of a record that was appended to a stream also carries the
// record's id and that of the record before it, so that a subscriber, who may
// miss announcements at any time, sees a hole and fills it from the stream:
//
//	{"event":"scored","job":"JOB0KHTOWnGLuC","evt":"EVT0KHTOWnGLuC","prev":"EVT0KHTOWnGLuB","pct":"83"}
//
// There are two ways to read one. [Names.Lookup] only looks for the name, in
// any payload whatever its shape, and answers one of the names it was told
// before: bytes from the wire never become names. [Decode] is strict and takes
// the whole payload apart.
//
// The package does no I/O.
package feed
