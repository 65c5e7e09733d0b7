// Package evtid is the identity of an event: the branded EVT id.
//
// One id runs through the whole system. It is the receipt of an append, the
// deduplication key of a consumer, the bound of a time window and the archive
// watermark. It has two written forms, which carry the same 63 bits:
//
//	EVT0KHTOWnGLuC       branded: 3 upper-case letters + 11 base62 digits
//	1769526697641-0      entry:   the explicit id of the Redis stream entry
//
// The bits are a snowflake:
//
//	 62            22 21        12 11         0
//	+----------------+------------+------------+
//	| milliseconds   | node       | sequence   |
//	| since 2024     | 0..1023    | 0..4095    |
//	+----------------+------------+------------+
//
// The entry form is "<unix ms>-<low 22 bits>". The order of the numbers, the
// byte order of the branded form and Redis' order of the entry form are the
// same order: mint order.
//
// The package does no I/O and imports only the standard library.
package evtid
