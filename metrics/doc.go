// Package metrics turns the state of components into Prometheus metrics. It
// registers nothing by itself: the program registers the collectors it wants.
//
// Names begin with "evtlog_", units are base units, and labels are bounded: no
// label carries an id, a player or a match.
package metrics
