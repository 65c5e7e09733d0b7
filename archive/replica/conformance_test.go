package replica

import (
	"testing"

	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	lead, follower := c.leader(), c.follower()
	for name, a := range map[string]archive.Archive{
		"client":            c.client(),
		"embedded leader":   lead.Archive(),
		"embedded follower": follower.Archive(),
	} {
		t.Run(name, func(t *testing.T) {
			archivetest.Conformance(t, func(*testing.T) archive.Archive { return a })
		})
	}
}
