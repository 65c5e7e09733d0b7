package main

import (
	"fmt"

	"github.com/evtlog/evtlog/archive/replica"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/portable"
)

// The views are what "-o json" prints. Their keys are part of the interface, so
// they do not follow the names in the code.

// statusView is what one address answered.
type statusView struct {
	Address string    `json:"address"`
	Error   string    `json:"error,omitempty"`
	Status  *nodeView `json:"status,omitempty"`
}

// nodeView is what one node says of itself.
type nodeView struct {
	Cluster       string       `json:"cluster"`
	Incarnation   string       `json:"incarnation"`
	Node          string       `json:"node"`
	Address       string       `json:"address"`
	State         string       `json:"state"`
	LeaderID      string       `json:"leader_id"`
	LeaderAddress string       `json:"leader_address"`
	Term          uint64       `json:"term"`
	LastIndex     uint64       `json:"last_index"`
	CommitIndex   uint64       `json:"commit_index"`
	AppliedIndex  uint64       `json:"applied_index"`
	FSMIndex      uint64       `json:"fsm_index"`
	LastContactMS *int64       `json:"last_contact_ms"` // null: never
	Servers       []serverView `json:"servers"`
	Checks        []checkView  `json:"checks"`
	Volumes       []volumeView `json:"volumes"`
	PulledBytes   uint64       `json:"pulled_bytes"`
	PulledCommits uint64       `json:"pulled_commits"`
	Elections     uint64       `json:"elections"`
	RaftFileBytes int64        `json:"raft_file_bytes"`
	Alarms        []string     `json:"alarms"`
}

type serverView struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Voter   bool   `json:"voter"`
}

type checkView struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Required bool   `json:"required"`
	Detail   string `json:"detail,omitempty"`
}

// volumeView is one archived stream.
type volumeView struct {
	Stream    string `json:"stream"`
	Records   uint64 `json:"records"`
	Commits   uint64 `json:"commits"`
	Watermark string `json:"watermark"`
	Chain     string `json:"chain"`
	Parked    string `json:"parked,omitempty"`
}

// findingView is the outcome of one check.
type findingView struct {
	What    string `json:"what"`
	OK      bool   `json:"ok"`
	Detail  string `json:"detail,omitempty"`
	Commits uint64 `json:"commits"`
	Records uint64 `json:"records"`
}

// summaryView is what an export holds.
type summaryView struct {
	Streams []volumeView `json:"streams"`
	Commits uint64       `json:"commits"`
	Records uint64       `json:"records"`
}

type compactedView struct {
	Name        string `json:"name"`
	BeforeBytes int64  `json:"before_bytes"`
	AfterBytes  int64  `json:"after_bytes"`
}

type recoveryView struct {
	Before         []serverView `json:"before"`
	After          serverView   `json:"after"`
	LastIndex      uint64       `json:"last_index"`
	LastTerm       uint64       `json:"last_term"`
	Entries        uint64       `json:"entries"`
	FromVolumes    bool         `json:"from_volumes"`
	OldIncarnation string       `json:"old_incarnation"`
	NewIncarnation string       `json:"new_incarnation"`
	Volumes        []volumeView `json:"volumes"`
}

func viewStatuses(nodes []nodeStatus) []statusView {
	views := make([]statusView, len(nodes))
	for i, n := range nodes {
		views[i].Address = n.address
		if n.err != nil {
			views[i].Error = n.err.Error()
			continue
		}
		v := viewNode(n.status)
		views[i].Status = &v
	}
	return views
}

func viewNode(st api.Status) nodeView {
	v := nodeView{
		Cluster: st.Identity.Cluster, Incarnation: st.Identity.Incarnation, Node: st.Node, Address: st.Address, State: st.State,
		LeaderID: st.LeaderID, LeaderAddress: st.LeaderAddress, Term: st.Term,
		LastIndex: st.LastIndex, CommitIndex: st.CommitIndex, AppliedIndex: st.AppliedIndex, FSMIndex: st.FSMIndex,
		Servers: viewServers(st.Servers), Volumes: viewVolumes(st.Volumes),
		Checks:      each(st.Checks, func(c api.Check) checkView { return checkView(c) }),
		PulledBytes: st.PulledBytes, PulledCommits: st.PulledCommits, Elections: st.Elections,
		RaftFileBytes: st.RaftFileBytes, Alarms: append([]string{}, st.Alarms...),
	}
	if st.LastContact >= 0 {
		ms := st.LastContact.Milliseconds()
		v.LastContactMS = &ms
	}
	return v
}

func viewServers(list []api.Server) []serverView {
	return each(list, func(s api.Server) serverView { return serverView(s) })
}

func viewVolumes(list []api.Volume) []volumeView {
	return each(list, func(v api.Volume) volumeView {
		return volumeView{
			Stream: v.Stream.String(), Records: v.Records, Commits: v.LSN, Watermark: v.Watermark.String(),
			Chain: fmt.Sprintf("%x", v.Chain), Parked: v.Parked,
		}
	})
}

// viewFindings keeps the findings by the place they were made in.
func viewFindings(all map[string][]api.Finding) map[string][]findingView {
	views := map[string][]findingView{}
	for place, findings := range all {
		views[place] = each(findings, func(f api.Finding) findingView { return findingView(f) })
	}
	return views
}

func viewSummary(s portable.Summary) summaryView {
	return summaryView{Streams: viewVolumes(s.Volumes), Commits: s.Commits, Records: s.Records}
}

func viewCompacted(list []replica.Compacted) []compactedView {
	return each(list, func(c replica.Compacted) compactedView {
		return compactedView{Name: c.Name, BeforeBytes: c.Before, AfterBytes: c.After}
	})
}

func viewRecovery(p replica.RecoverPlan) recoveryView {
	return recoveryView{
		Before: viewServers(p.Before), After: serverView(p.After), LastIndex: p.LastIndex, LastTerm: p.LastTerm,
		Entries: p.Entries, FromVolumes: p.FromVolumes,
		OldIncarnation: p.OldIncarnation, NewIncarnation: p.NewIncarnation, Volumes: viewVolumes(p.Volumes),
	}
}

// each maps a list. The result is never nil: an empty list is printed as one.
func each[A, B any](list []A, view func(A) B) []B {
	out := make([]B, len(list))
	for i, v := range list {
		out[i] = view(v)
	}
	return out
}
