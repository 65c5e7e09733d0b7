package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/evtid"
)

func status() api.Status {
	id, _ := evtid.Parse("EVT0KHTOWnGLuC")
	return api.Status{
		State: "Leader", Term: 7, LastIndex: 12, CommitIndex: 11, FSMIndex: 10, LastContact: 1500 * time.Millisecond,
		Servers: []api.Server{{ID: "a", Voter: true}, {ID: "b", Voter: true}, {ID: "c"}},
		Checks:  []api.Check{{Name: "leader", OK: true}, {Name: "disk"}},
		Volumes: []api.Volume{{Stream: evtlog.StreamName{Queue: "q", Name: "s"}, LSN: 3, Records: 40, Watermark: id, Parked: "damaged"}},
	}
}

func TestArchiveMetricsAreWellFormed(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewArchive(status))
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestArchiveMetrics(t *testing.T) {
	want := `
# HELP evtlog_archive_records Records in a volume.
# TYPE evtlog_archive_records gauge
evtlog_archive_records{stream="q/s"} 40
# HELP evtlog_archive_check_ok 1 when a check of the readiness probe passes.
# TYPE evtlog_archive_check_ok gauge
evtlog_archive_check_ok{check="disk"} 0
evtlog_archive_check_ok{check="leader"} 1
# HELP evtlog_raft_is_leader 1 when this node leads the cluster.
# TYPE evtlog_raft_is_leader gauge
evtlog_raft_is_leader 1
# HELP evtlog_raft_last_contact_seconds Time since the leader was heard; absent when never, or when leading.
# TYPE evtlog_raft_last_contact_seconds gauge
evtlog_raft_last_contact_seconds 1.5
# HELP evtlog_raft_members Members of the cluster as this node knows them.
# TYPE evtlog_raft_members gauge
evtlog_raft_members{kind="nonvoter"} 1
evtlog_raft_members{kind="voter"} 2
`
	names := []string{
		"evtlog_archive_records", "evtlog_archive_check_ok", "evtlog_raft_is_leader", "evtlog_raft_last_contact_seconds", "evtlog_raft_members",
	}
	if err := testutil.CollectAndCompare(NewArchive(status), strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestArchiveMetricsOfAnEmptyNode(t *testing.T) {
	n := testutil.CollectAndCount(NewArchive(func() api.Status { return api.Status{LastContact: -1} }))
	if n != 11 {
		t.Errorf("%d metrics of a node that knows nothing yet, want 11", n)
	}
}
