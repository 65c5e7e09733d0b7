package replica

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/command"
	"github.com/evtlog/evtlog/archive/volume"
)

func TestDecideStart(t *testing.T) {
	ours, other := api.Identity{Cluster: "c", Incarnation: "1"}, api.Identity{Cluster: "c", Incarnation: "2"}
	leader := peerView{identity: ours, leads: true}
	memberHere := peerView{identity: ours, leads: true, member: true, voter: true}
	base := bootFacts{id: "n", configured: api.Identity{Cluster: "c"}, raftEmpty: true, volumesEmpty: true}
	with := func(change func(*bootFacts)) bootFacts {
		f := base
		change(&f)
		return f
	}
	past := func(f *bootFacts) { f.raftEmpty, f.volumes, f.raftState = false, ours, ours }
	for _, c := range []struct {
		name  string
		facts bootFacts
		want  start
		err   error
	}{
		{"first of its cluster", with(func(f *bootFacts) { f.bootstrap = true }), startBootstrap, nil},
		{"bootstrap beside empty peers", with(func(f *bootFacts) {
			f.bootstrap, f.hasPeers, f.peers = true, true, []peerView{{identity: api.Identity{Cluster: "c"}, empty: true}}
		}), startBootstrap, nil},
		{"bootstrap beside a peer that is starting", with(func(f *bootFacts) {
			f.bootstrap, f.hasPeers, f.peers = true, true, []peerView{{identity: api.Identity{Cluster: "c"}}}
		}), startAsk, nil},
		{"bootstrap of a cluster that exists", with(func(f *bootFacts) { f.bootstrap, f.hasPeers, f.peers = true, true, []peerView{leader} }), startRefused, api.ErrMembership},
		{"bootstrap over kept volumes", with(func(f *bootFacts) { f.bootstrap, f.volumesEmpty = true, false }), startRefused, api.ErrMembership},
		{"empty and alone", base, startRefused, api.ErrBadRequest},
		{"no leader known", with(func(f *bootFacts) { f.hasPeers, f.peers = true, []peerView{{identity: ours}} }), startAsk, nil},
		{"joins", with(func(f *bootFacts) { f.hasPeers, f.peers = true, []peerView{leader} }), startJoin, nil},
		{"empty but still a voter", with(func(f *bootFacts) { f.hasPeers, f.peers = true, []peerView{memberHere} }), startRefused, api.ErrMembership},
		{"a follower's word is enough to refuse", with(func(f *bootFacts) {
			f.hasPeers, f.peers = true, []peerView{{identity: ours, member: true, voter: true}, leader}
		}), startRefused, api.ErrMembership},
		{"founder in the middle of a rejoin, nobody answers", with(func(f *bootFacts) {
			f.bootstrap, f.rejoin, f.hasPeers, f.volumes = true, true, true, ours
		}), startAsk, nil},
		{"founder in the middle of a rejoin", with(func(f *bootFacts) {
			f.bootstrap, f.rejoin, f.hasPeers, f.volumes, f.peers = true, true, true, ours, []peerView{leader}
		}), startJoin, nil},
		{"rejoins", with(func(f *bootFacts) { f.rejoin, f.hasPeers, f.peers = true, true, []peerView{memberHere} }), startRejoin, nil},
		{"rejoin wins over bootstrap", with(func(f *bootFacts) { f.rejoin, f.bootstrap = true, true }), startRefused, api.ErrBadRequest},
		{"peers of two clusters", with(func(f *bootFacts) { f.hasPeers, f.peers = true, []peerView{leader, {identity: other}} }), startRefused, api.ErrForeignCluster},
		{"peer of another name", with(func(f *bootFacts) { f.hasPeers, f.peers = true, []peerView{{identity: api.Identity{Cluster: "x"}}} }), startRefused, api.ErrForeignCluster},
		{"goes on, nobody answers", with(past), startExisting, nil},
		{"goes on as a member", with(func(f *bootFacts) { past(f); f.peers = []peerView{memberHere} }), startExisting, nil},
		{"was removed", with(func(f *bootFacts) { past(f); f.peers = []peerView{leader} }), startRefused, api.ErrMembership},
		{"was removed and asks again", with(func(f *bootFacts) { past(f); f.peers, f.rejoin = []peerView{leader}, true }), startRejoin, nil},
		{"damaged log, alone", with(func(f *bootFacts) { past(f); f.damaged = errDamaged }), startRefused, errDamaged},
		{"damaged log, alone, founder", with(func(f *bootFacts) { past(f); f.damaged, f.bootstrap = errDamaged, true }), startRefused, errDamaged},
		{"damaged log, no leader yet", with(func(f *bootFacts) { past(f); f.damaged, f.hasPeers = errDamaged, true }), startAsk, nil},
		{"damaged log, founder, no leader yet", with(func(f *bootFacts) { past(f); f.damaged, f.hasPeers, f.bootstrap = errDamaged, true, true }), startAsk, nil},
		{"damaged log of a member", with(func(f *bootFacts) {
			past(f)
			f.damaged, f.hasPeers, f.peers = errDamaged, true, []peerView{memberHere}
		}), startRejoin, nil},
		{"damaged log that could not even be opened", with(func(f *bootFacts) {
			f.volumes, f.volumesEmpty, f.damaged, f.hasPeers, f.peers = ours, false, errDamaged, true, []peerView{memberHere}
		}), startRejoin, nil},
		{"damaged log of a removed node", with(func(f *bootFacts) {
			past(f)
			f.damaged, f.hasPeers, f.peers = errDamaged, true, []peerView{leader}
		}), startRefused, api.ErrMembership},
		{"damaged log again", with(func(f *bootFacts) {
			past(f)
			f.damaged, f.mendedLately, f.hasPeers, f.peers = errDamaged, true, true, []peerView{memberHere}
		}), startRefused, errDamaged},
		{"damaged log, rejoins", with(func(f *bootFacts) {
			past(f)
			f.damaged, f.rejoin, f.hasPeers, f.peers = errDamaged, true, true, []peerView{memberHere}
		}), startRejoin, nil},
		{"another cluster's volumes", with(func(f *bootFacts) { f.volumes = api.Identity{Cluster: "x", Incarnation: "9"} }), startRefused, api.ErrForeignCluster},
		{"volumes and log of two incarnations", with(func(f *bootFacts) { past(f); f.raftState = other }), startRefused, api.ErrForeignCluster},
	} {
		got, err := decideStart(c.facts)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, got, err, c.want, c.err)
		}
	}
}

func TestMayRun(t *testing.T) {
	for _, c := range []struct {
		first, covered, newest uint64
		want                   bool
	}{
		{0, 0, 0, true}, {1, 0, 0, true}, {1, 0, 50, true}, {100, 99, 99, true}, {100, 150, 150, true},
		{100, 0, 150, false}, {100, 98, 150, false}, {0, 0, 50, false}, {0, 50, 50, true},
	} {
		if got := mayRun(c.first, c.covered, c.newest); got != c.want {
			t.Errorf("mayRun(%d, %d, %d) = %t", c.first, c.covered, c.newest, got)
		}
	}
}

func TestDecideJoin(t *testing.T) {
	at := func(n int) string { return fmt.Sprintf("h%d:1,h%d:2", n, n) }
	voter := raft.Server{Suffrage: raft.Voter, ID: "v", Address: raft.ServerAddress(at(1))}
	non := raft.Server{Suffrage: raft.Nonvoter, ID: "n", Address: raft.ServerAddress(at(2))}
	servers := []raft.Server{voter, non}
	for _, c := range []struct {
		name   string
		req    joinRequest
		commit uint64
		want   joinStep
		err    error
	}{
		{"new", joinRequest{id: "x", address: at(3), voter: true}, 10, joinAddNonvoter, nil},
		{"removed", joinRequest{id: "x", address: at(3), known: true}, 10, joinDone, api.ErrRemoved},
		{"address of another", joinRequest{id: "x", address: at(1)}, 10, joinDone, api.ErrMembership},
		{"one port of another", joinRequest{id: "x", address: "h9:1,h1:2"}, 10, joinDone, api.ErrMembership},
		{"far behind", joinRequest{id: "n", address: at(2), voter: true, applied: 10}, 1000, joinWait, nil},
		{"nothing applied", joinRequest{id: "n", address: at(2), voter: true}, 5, joinWait, nil},
		{"caught up", joinRequest{id: "n", address: at(2), voter: true, applied: 990}, 1000, joinAddVoter, nil},
		{"stays without a vote", joinRequest{id: "n", address: at(2)}, 1000, joinDone, nil},
		{"moved without a vote", joinRequest{id: "n", address: at(4)}, 1000, joinAddNonvoter, nil},
		{"voter", joinRequest{id: "v", address: at(1), voter: true}, 1000, joinDone, nil},
		{"moved voter", joinRequest{id: "v", address: at(5), voter: true}, 1000, joinAddVoter, nil},
		{"gives up its vote", joinRequest{id: "v", address: at(1)}, 1000, joinDemote, nil},
	} {
		got, err := decideJoin(servers, c.req, c.commit)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, got, err, c.want, c.err)
		}
	}
}

func TestCheckRemove(t *testing.T) {
	servers := func(voters int) (out []raft.Server) {
		for i := range voters {
			out = append(out, raft.Server{ID: raft.ServerID(fmt.Sprint(i))})
		}
		return append(out, raft.Server{ID: "n", Suffrage: raft.Nonvoter})
	}
	for _, c := range []struct {
		voters int
		id     string
		force  bool
		ok     bool
	}{{4, "0", false, true}, {3, "0", false, false}, {3, "0", true, true}, {1, "0", true, false}, {3, "n", false, true}, {3, "x", true, false}} {
		if err := checkRemove(servers(c.voters), c.id, c.force); (err == nil) != c.ok {
			t.Errorf("remove %s of %d voters, force %t: %v", c.id, c.voters, c.force, err)
		}
	}
}

func TestDecideRemedy(t *testing.T) {
	for _, c := range []struct {
		name string
		s    suspicion
		want remedy
	}{
		{"false alarm", suspicion{sound: true, agree: 1, majority: 2}, remedyNone},
		{"damaged", suspicion{agree: 2, majority: 2}, remedyReplace},
		{"a majority differs", suspicion{sound: true, differ: 2, majority: 2}, remedyReplace},
		{"only the leader differs", suspicion{sound: true, agree: 1, differ: 1, majority: 2}, remedyNone},
		{"nobody answers", suspicion{sound: true, majority: 2}, remedyWait},
		{"parked, peers are ahead", suspicion{sound: true, parked: true, agree: 1, above: true, majority: 2}, remedyCatchUp},
		{"parked, peers are not ahead", suspicion{sound: true, parked: true, agree: 2, majority: 2}, remedyWait},
	} {
		if got := decideRemedy(c.s); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestClassifyFailure(t *testing.T) {
	for _, c := range []struct {
		err   error
		kind  string
		fatal bool
	}{
		{errDiskFull, kindDisk, false},
		{fmt.Errorf("x: %w", syscall.ENOSPC), kindDisk, false},
		{&volume.FullError{}, kindDisk, false},
		{fmt.Errorf("x: %w", syscall.EIO), kindWrite, false},
		{errRewritten, kindPast, true},
		{&api.ForeignClusterError{}, kindPast, true},
		{&command.BadError{}, kindLog, true},
		{errDamaged, kindLog, false},
		{&command.BadError{Damaged: true}, kindLog, false},
		{errStalled, kindStalled, true},
		{errRemoved, kindRemoved, true},
	} {
		if got := classifyFailure(c.err); got.kind != c.kind || got.fatal != c.fatal {
			t.Errorf("%v: %+v", c.err, got)
		}
	}
	if p := (failure{kind: kindWrite}).pause(40); p != 30*time.Second {
		t.Errorf("the pause grows to %s", p)
	}
}

func TestStallWatch(t *testing.T) {
	w := stallWatch{limit: time.Second}
	now := time.Unix(0, 0)
	step := func(d time.Duration, pending int64, applied uint64) bool {
		now = now.Add(d)
		return w.stalled(now, pending, applied)
	}
	switch {
	case step(0, 1, 5), step(900*time.Millisecond, 1, 5), step(time.Second, 1, 6), step(900*time.Millisecond, 1, 6):
		t.Error("stalled although there was progress")
	case !step(200*time.Millisecond, 1, 6):
		t.Error("not stalled after more than the limit")
	case step(5*time.Second, 0, 6):
		t.Error("stalled with nothing in hand")
	}
}

func TestSilentFor(t *testing.T) {
	now := time.Unix(100, 0)
	if got := silentFor(now, now.Add(-2*time.Second), time.Time{}); got != 2*time.Second {
		t.Errorf("never heard: silent for %s", got)
	}
	if got := silentFor(now, now.Add(-2*time.Second), now.Add(-time.Second)); got != time.Second {
		t.Errorf("heard meanwhile: silent for %s", got)
	}
}

func TestProbe(t *testing.T) {
	text, ok := probe([]Check{{Name: "raft", OK: true, Required: true}, {Name: "disk", Detail: "12 bytes are free"}})
	if !ok || text != "[+]raft ok\n[-]disk 12 bytes are free\n" {
		t.Errorf("%q, %t", text, ok)
	}
	if _, ok := probe([]Check{{Name: "leader", Required: true, Detail: "none"}}); ok {
		t.Error("ready without a required check")
	}
}
