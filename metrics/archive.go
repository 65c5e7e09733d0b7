package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/evtlog/evtlog/archive/replica/api"
)

// NewArchive returns a collector of a node of the replicated archive. status is
// called on each scrape; replica.Node's Status is one.
func NewArchive(status func() api.Status) prometheus.Collector {
	return &archiveCollector{status: status, descs: describeArchive()}
}

type archiveCollector struct {
	status func() api.Status
	descs  archiveDescs
}

type archiveDescs struct {
	isLeader, term, lastIndex, commitIndex, appliedIndex, lastContact, leaderChanges, logBytes, members,
	pulledBytes, pulledCommits, check, records, commits, watermarkTime, parked *prometheus.Desc
}

func describeArchive() archiveDescs {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("evtlog_"+name, help, labels, nil)
	}
	return archiveDescs{
		isLeader:      d("raft_is_leader", "1 when this node leads the cluster."),
		term:          d("raft_term", "Raft term of this node."),
		lastIndex:     d("raft_last_index", "Newest index in the raft log."),
		commitIndex:   d("raft_commit_index", "Newest committed index."),
		appliedIndex:  d("raft_applied_index", "Newest index that is in the volumes."),
		lastContact:   d("raft_last_contact_seconds", "Time since the leader was heard; absent when never, or when leading."),
		leaderChanges: d("raft_leader_changes_total", "Changes of leadership this node was part of."),
		logBytes:      d("raft_log_file_bytes", "Size of raft.db."),
		members:       d("raft_members", "Members of the cluster as this node knows them.", "kind"),
		pulledBytes:   d("archive_pulled_bytes_total", "Bytes copied from peers to catch up."),
		pulledCommits: d("archive_pulled_commits_total", "Commits copied from peers to catch up."),
		check:         d("archive_check_ok", "1 when a check of the readiness probe passes.", "check"),
		records:       d("archive_records", "Records in a volume.", "stream"),
		commits:       d("archive_commits", "Commits in a volume.", "stream"),
		watermarkTime: d("archive_watermark_timestamp_seconds", "When the newest archived record was minted, Unix time.", "stream"),
		parked:        d("archive_volume_parked", "1 when a volume is set aside and not served.", "stream"),
	}
}

// Describe implements prometheus.Collector.
func (c *archiveCollector) Describe(ch chan<- *prometheus.Desc) {
	d := c.descs
	for _, desc := range []*prometheus.Desc{
		d.isLeader, d.term, d.lastIndex, d.commitIndex, d.appliedIndex, d.lastContact, d.leaderChanges, d.logBytes, d.members,
		d.pulledBytes, d.pulledCommits, d.check, d.records, d.commits, d.watermarkTime, d.parked,
	} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *archiveCollector) Collect(ch chan<- prometheus.Metric) {
	st, d := c.status(), c.descs
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	counter := func(desc *prometheus.Desc, v uint64) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(v))
	}
	gauge(d.isLeader, truth(st.State == "Leader"))
	gauge(d.term, float64(st.Term))
	gauge(d.lastIndex, float64(st.LastIndex))
	gauge(d.commitIndex, float64(st.CommitIndex))
	gauge(d.appliedIndex, float64(st.FSMIndex))
	if st.LastContact > 0 {
		gauge(d.lastContact, st.LastContact.Seconds())
	}
	counter(d.leaderChanges, st.Elections)
	gauge(d.logBytes, float64(st.RaftFileBytes))
	counter(d.pulledBytes, st.PulledBytes)
	counter(d.pulledCommits, st.PulledCommits)
	voters := 0
	for _, s := range st.Servers {
		if s.Voter {
			voters++
		}
	}
	gauge(d.members, float64(voters), "voter")
	gauge(d.members, float64(len(st.Servers)-voters), "nonvoter")
	for _, check := range st.Checks {
		gauge(d.check, truth(check.OK), check.Name)
	}
	for _, v := range st.Volumes {
		stream := v.Stream.String()
		gauge(d.records, float64(v.Records), stream)
		gauge(d.commits, float64(v.LSN), stream)
		gauge(d.parked, truth(v.Parked != ""), stream)
		if !v.Watermark.IsZero() {
			gauge(d.watermarkTime, float64(v.Watermark.UnixMilli())/1000, stream)
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
