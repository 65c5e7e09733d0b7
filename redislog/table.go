package redislog

import (
	"strings"

	"github.com/evtlog/evtlog"
)

// rule is one row: what a refusal that begins with prefix means.
type rule struct {
	prefix   string
	class    Class
	sentinel error
	// closes: the server behind the connection is not the one to talk to any
	// more. The connection is dropped once its outstanding answers are read.
	closes bool
	// next is the caller's move, the end of the message.
	next string
}

// rules is the only place that knows the server's refusals. The first row whose
// prefix fits decides, so longer prefixes stand before shorter ones.
var rules = []rule{
	{"OOM", BackPressure, evtlog.ErrOutOfMemory, false, "raise maxmemory, or let retention make room, and try again"},
	{"MISCONF", BackPressure, evtlog.ErrNotPersisting, false, "see why the server cannot save to disk; writes go on once it can"},
	{"NOREPLICAS", BackPressure, evtlog.ErrUnavailable, false, "too few replicas are connected (min-replicas-to-write); writes go on once they are"},
	{"BUSY ", BackPressure, evtlog.ErrUnavailable, false, "a script is running too long; try again"},
	{"UNKILLABLE", BackPressure, evtlog.ErrUnavailable, false, "a script is running too long; try again"},
	{"TRYAGAIN", BackPressure, evtlog.ErrUnavailable, false, "slots are being moved; try again"},
	{"ERR max number of clients reached", BackPressure, evtlog.ErrUnavailable, true, "raise maxclients, or close connections, and try again"},

	{"LOADING", Transient, evtlog.ErrUnavailable, true, "the server is loading its data; connect again in a moment"},
	{"MASTERDOWN", Transient, evtlog.ErrUnavailable, true, "the replica has lost its primary; connect again in a moment"},
	{"CLUSTERDOWN", Transient, evtlog.ErrUnavailable, true, "the cluster has no quorum; connect again in a moment"},

	{"READONLY", Topology, evtlog.ErrReadOnly, true, "the server is a replica; connect to the primary"},
	{"MOVED", Topology, evtlog.ErrServer, true, "the address is a node of a Redis Cluster, which is not supported; point the URL at a single primary"},
	{"ASK ", Topology, evtlog.ErrServer, true, "the address is a node of a Redis Cluster, which is not supported; point the URL at a single primary"},
	{"NOGROUP", Topology, evtlog.ErrNoGroup, false, "name a group that is there, or start a consumer of it, which makes it"},
	{"UNBLOCKED the stream key no longer exists", Topology, evtlog.ErrNoGroup, false, "the stream was deleted, its groups with it; create the group again"},
	{"UNBLOCKED", Topology, evtlog.ErrUnavailable, true, "the blocked read was ended from outside; connect again"},

	{"WRONGTYPE", Terminal, evtlog.ErrWrongType, false, "the key holds another type; remove it, or choose another stream name"},
	{"NOAUTH", Terminal, evtlog.ErrDenied, false, "the server wants a password; put it into the URL"},
	{"WRONGPASS", Terminal, evtlog.ErrDenied, false, "correct user and password in the URL"},
	{"NOPERM", Terminal, evtlog.ErrDenied, false, "let the ACL user run this command on this key"},
	{"DENIED", Terminal, evtlog.ErrDenied, false, "protected mode is on; set a password or bind an address"},
	{"ERR invalid password", Terminal, evtlog.ErrDenied, false, "correct the password in the URL"},
	{"ERR AUTH", Terminal, evtlog.ErrDenied, false, "the server has no password; take it out of the URL"},
	{"ERR Client sent AUTH", Terminal, evtlog.ErrDenied, false, "the server has no password; take it out of the URL"},
	{"ERR DB index", Terminal, evtlog.ErrServer, false, "choose a database that the server has"},
	{"ERR invalid DB index", Terminal, evtlog.ErrServer, false, "choose a database that the server has"},
	{"ERR unknown command", Terminal, evtlog.ErrServer, false, "the server lacks the command, or has it renamed"},
	{"ERR unknown subcommand", Terminal, evtlog.ErrServer, false, "the server lacks the command, or has it renamed"},

	{"ERR The ID specified in XADD", Caller, evtlog.ErrNonMonotonic, false, "another writer is at work; stop one of them"},
	{"ERR The stream has exhausted", Caller, evtlog.ErrNonMonotonic, false, "the stream's top is the last id there is; a foreign writer put it there"},
	{"BUSYGROUP", Caller, evtlog.ErrServer, false, "the group exists already"},
	{"CROSSSLOT", Caller, evtlog.ErrServer, false, "the keys of the command are in different slots"},
	{"EXECABORT", Caller, evtlog.ErrServer, false, "a command of the transaction was refused when it was queued"},
	{"", Caller, evtlog.ErrServer, false, "the command does not fit this server"},
}

// lookUp returns the row that decides over a message.
func lookUp(message string) rule {
	for _, r := range rules {
		if strings.HasPrefix(message, r.prefix) {
			return r
		}
	}
	return rules[len(rules)-1]
}

// serverError makes the typed error of a refusal.
func serverError(op, addr, message string) *ServerError {
	r := lookUp(message)
	prefix, _, _ := strings.Cut(message, " ")
	return &ServerError{Op: op, Addr: addr, Prefix: prefix, Message: message, Class: r.class, sentinel: r.sentinel, next: r.next}
}
