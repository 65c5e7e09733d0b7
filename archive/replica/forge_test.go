package replica

import (
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
)

// forge writes commits of its own into a node's volume.
func forge(t *testing.T, n *Node, commits int) {
	t.Helper()
	head := n.engine().fsm.last.Load()
	err := n.engine().store.update(func(tx *storeTx) error {
		var prev evtid.ID
		for i := range commits {
			id, err := evtid.Make(evtid.EpochMillis+int64(i)+1, 2, 0)
			if err != nil {
				return err
			}
			data, err := volume.EncodeCommit(nil, scores, prev, []evtlog.Record{{ID: id}})
			if err != nil {
				return err
			}
			at := volume.Position{Index: head - uint64(commits) + uint64(i) + 1, Term: 1}
			res, err := tx.apply(scores, data, at)
			if err != nil || res.Verdict != volume.Applied {
				t.Errorf("forge: %s, %v", res.Verdict, err)
			}
			prev = id
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
