package archtest

// modulePath is the path of this module. In the table "." is its root package.
const modulePath = "github.com/evtlog/evtlog"

// Third-party modules that more than one row names.
const (
	redigo     = "github.com/gomodule/redigo"
	protoactor = "github.com/asynkron/protoactor-go"
	raft       = "github.com/hashicorp/raft"
	raftStore  = "github.com/hashicorp/raft-boltdb/v2"
	bbolt      = "go.etcd.io/bbolt"
	connect    = "connectrpc.com/connect"
	protobuf   = "google.golang.org/protobuf"
	prometheus = "github.com/prometheus/client_golang"
	goleak     = "go.uber.org/goleak"
	rapid      = "pgregory.net/rapid"
	miniredis  = "github.com/alicebob/miniredis/v2"
)

// row says what one package may import. Whatever it does not say is forbidden.
type row struct {
	// path is relative to the module. "x/..." stands for x and all below it; an
	// exact row beats one with dots, a longer one beats a shorter.
	path string
	// may are the packages of this module it may import, with dots likewise.
	may []string
	// third are the third-party modules it may import.
	third []string
	// tests are further third-party modules for its tests. testLibraries are
	// allowed to all.
	tests []string
	// pure forbids the parts of the standard library that reach outside the
	// process.
	pure bool
}

// testLibraries may be imported by every test.
var testLibraries = []string{rapid, goleak, miniredis}

// impure are standard packages that reach outside the process.
var impure = []string{"log", "log/slog", "net", "net/http", "os", "os/exec", "os/signal", "syscall"}

// table is the import table: imports run upward only, from a line to the lines
// above it. The tests of a package may import every package of the module but
// an actor's sibling.
var table = []row{
	{path: "evtid", pure: true},
	{path: "keyspace", pure: true},
	{path: ".", may: []string{"evtid"}, pure: true},
	{path: "feed", may: []string{".", "evtid"}, pure: true},

	// The only package that speaks to Redis.
	{path: "redislog", may: []string{".", "evtid", "keyspace", "feed"}, third: []string{redigo}},

	// What an archive promises, then the two stores that keep the promise.
	{path: "archive", may: []string{".", "evtid"}},
	{path: "archive/archivetest", may: []string{".", "evtid", "archive"}},
	{path: "archive/volume", may: []string{".", "evtid", "keyspace", "archive"}, third: []string{bbolt}},
	// A program that embeds only the client of a cluster must not link raft.
	{path: "archive/replica/replicapb", third: []string{connect, protobuf}},
	{path: "archive/replica/api", may: []string{".", "evtid", "keyspace", "archive", "archive/replica/replicapb"}, third: []string{connect, protobuf}},
	{path: "archive/replica/client", may: []string{".", "evtid", "keyspace", "archive", "archive/replica/api", "archive/replica/replicapb"}, third: []string{connect, protobuf}},
	{path: "archive/replica/...", may: []string{".", "evtid", "keyspace", "archive", "archive/volume", "archive/replica/..."},
		third: []string{raft, raftStore, bbolt, connect, protobuf, prometheus, "github.com/hashicorp/go-hclog", "github.com/hashicorp/go-metrics", "golang.org/x/sys"}},

	// The actors. None of them knows another; runtime wires them together.
	{path: "actors/supervise", may: []string{"."}, third: []string{protoactor}},
	{path: "actors/supervise/supervisetest", may: []string{".", "actors/supervise"}, third: []string{goleak}},
	{path: "actors/internal/...", may: []string{".", "evtid", "keyspace", "redislog", "actors/supervise"}},
	{path: "actors/publisher", may: actorMay("archive", "feed")},
	{path: "actors/streamconsumer", may: actorMay("archive")},
	{path: "actors/retention", may: actorMay()},
	{path: "actors/archiver", may: actorMay("archive")},

	{path: "runtime", may: []string{".", "evtid", "keyspace", "feed", "redislog", "archive", "archive/volume",
		"actors/supervise", "actors/publisher", "actors/streamconsumer", "actors/retention", "actors/archiver"}},
	{path: "console/...", may: []string{".", "evtid", "keyspace", "feed", "archive", "archive/replica/api", "actors/supervise", "runtime", "console/..."}},
	{path: "metrics/...", may: []string{".", "evtid", "archive", "archive/replica/api", "actors/supervise", "runtime", "metrics/..."},
		third: []string{prometheus, "go.opentelemetry.io/otel"}},

	// Programs, and what only they and tests use.
	{path: "internal/archtest"},
	{path: "internal/redistest"},
	{path: "internal/faultproxy"},
	{path: "internal/devredis", third: []string{miniredis}},
	{path: "internal/explore/...", may: []string{"..."}},
	{path: "internal/demo/...", may: []string{"..."}, third: []string{miniredis}},
	{path: "integration/...", may: []string{"..."}},
	{path: "examples/...", may: []string{"..."}},
	{path: "cmd/...", may: []string{"..."}, third: []string{prometheus, "github.com/spf13/cobra", "github.com/knadh/koanf",
		"github.com/lmittmann/tint", "github.com/jedib0t/go-pretty/v6", "golang.org/x/sys", "golang.org/x/term"}},
	// The bench stands side by side with the bare libraries and with peers.
	{path: "bench/...", may: []string{"..."}, third: []string{redigo, raft, raftStore, bbolt,
		"github.com/ThreeDotsLabs", "github.com/nats-io", "github.com/hibiken/asynq", "github.com/redis", "github.com/oklog/ulid"}},
}

// actorMay is what every actor may import, and more.
func actorMay(more ...string) []string {
	return append([]string{".", "evtid", "keyspace", "redislog", "actors/supervise", "actors/internal/..."}, more...)
}

// owners says which rows alone may name a module. It guards the table itself:
// another row needs a reason here first.
var owners = map[string][]string{
	redigo:     {"redislog", "bench/..."},
	raft:       {"archive/replica/...", "bench/..."},
	raftStore:  {"archive/replica/...", "bench/..."},
	protoactor: {"actors/supervise"},
}

// links says what must not be reached from a package by any number of steps.
var links = []struct {
	path   string
	banned func(dep string) bool
	why    string
}{
	{".", thirdParty, "it is what every program imports"},
	{"evtid", thirdParty, "it stands alone"},
	{"keyspace", thirdParty, "it stands alone"},
	{"feed", thirdParty, "it is a pure codec"},
	{"archive", thirdParty, "it knows no store"},
	{"runtime", isRaft, "a program without an archive cluster must not link raft"},
	{"archive/replica/client", isRaft, "a client of a cluster must not link raft"},
	{"console", isRaft, "a program without an archive cluster must not link raft"},
	{"metrics", isRaft, "a program without an archive cluster must not link raft"},
	{"examples/gameserver", isRaft, "a game server links raft only when it embeds a node"},
	{"examples/peldrain", isRaft, "it embeds no node"},
}

func isRaft(dep string) bool { return within(raft)(dep) || within(raftStore)(dep) }
