// Package retention keeps a stream as short as its policy says.
//
// A stream without an archive has one retention; a stream with an archive has an
// archiver instead, never both. Retention only trims: it does not read what
// consumers do, and a consumer that is late does not stop it. But nothing is
// skipped in silence. The trim records, in the same transaction, which ranges
// each group has not been given, and every such range is reported as an
// evtlog.Lost.
//
// # How a policy becomes a trim
//
// A policy is turned into the id of the newest record that may go, and the
// stream is trimmed through that id, never by a count: a count read earlier
// would also remove what was appended in between. For KeepLast(n) the id is
// found by walking over the records that are due, or over the n that stay,
// whichever are fewer; for KeepFor and KeepSince it is the newest record minted
// before the instant.
//
// By default a policy is approximate: nothing is trimmed before 100 records (one
// node of a stream in Redis) are due, so up to 99 records more than asked stay.
// With Keep.Exact every tick trims to the record. Redis's own approximation
// (XTRIM ~) is not used, as it does not say beforehand what it will remove, and
// so could not be recorded exactly.
//
// # What is checked
//
// After each trim the stream is read back. A record above the line that is gone
// stops all trimming (*FaultError); three trims in a row without effect are an
// alarm (*StalledError). Records that vanish between two ticks although the
// policy keeps them (an evicted or deleted key, a server that came back with an
// older state, another trimmer) are reported as evtlog.Lost.
package retention
