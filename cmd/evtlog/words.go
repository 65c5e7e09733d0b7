package main

import "strings"

// inFlags puts the flags of the command line where an error of a package speaks of
// the fields of its configuration, which nobody who types a command has seen.
func inFlags(text string) string { return flagWords.Replace(text) }

// flagWords stand in the order in which they are tried: longer phrases first. A field
// whose name is also a plain word is told by what stands around it.
var flagWords = strings.NewReplacer(
	`runtime: Redis.URL = "(not shown)" refused`, "--redis or $EVTLOG_REDIS_URL refused",
	"redislog: Config.URL refused", "--redis or $EVTLOG_REDIS_URL refused",
	"runtime: Node = ", "--node ",
	"runtime: MaxRecordBytes = ", "--max-record-bytes ",
	" (MaxQueuedBytes)", "",
	"MaxRecordBytes", "--max-record-bytes",
	", or raise MaxSkew", "",

	"replica: bad request: Dir is empty", "--dir is empty",
	`replica: bad request: ID "`, `--id "`,
	`replica: bad request: Cluster "`, `--cluster "`,
	"replica: bad request: Peers[", "--peers[",
	"replica: set RaftAdvertise and HTTPAdvertise: ", "--raft-advertise, --http-advertise: ",
	"set RaftAdvertise and HTTPAdvertise", "give --raft-advertise and --http-advertise",
	"set TLS, listen on 127.0.0.1, or set AllowInsecureNetwork", "give --tls-cert, --tls-key and --tls-ca, listen on 127.0.0.1, or give --allow-insecure-network",
	"give it Bootstrap", "give it --bootstrap",
	"else Peers to join", "else --peers to join",
	"without Bootstrap", "without --bootstrap",
	"with Rejoin", "with --rejoin",
	"set Rejoin", "give --rejoin",
	"set it aside with Quarantine and fill it anew", "move the file away and fill it anew",
)
