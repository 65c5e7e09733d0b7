package metrics_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/metrics"
)

func ExampleNewArchive() {
	registry := prometheus.NewRegistry()
	// replica.Node has a Status method of this shape.
	registry.MustRegister(metrics.NewArchive(func() api.Status { return api.Status{State: "Leader", Term: 3} }))
	families, err := registry.Gather()
	fmt.Println(len(families) > 0, err)
	// Output: true <nil>
}
