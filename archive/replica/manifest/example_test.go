package manifest_test

import (
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/manifest"
)

func ExampleMissing() {
	feed := evtlog.StreamName{Queue: "cm", Name: "feed"}
	m := manifest.Manifest{Volumes: []manifest.Volume{{Stream: feed, LSN: 120}}}
	for _, gap := range manifest.Missing(m, map[evtlog.StreamName]manifest.Have{feed: {LSN: 100}}) {
		fmt.Printf("%s: pull commits above %d up to %d\n", gap.Want.Stream, gap.After, gap.Want.LSN)
	}
	// Output:
	// cm/feed: pull commits above 100 up to 120
}
