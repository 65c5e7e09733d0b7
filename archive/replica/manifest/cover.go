package manifest

import "github.com/evtlog/evtlog"

// Have is what a node holds of one volume of a manifest.
type Have struct {
	// LSN is the node's own head.
	LSN uint64
	// Chain is the node's chain at the manifest's LSN; it counts only when the
	// node has got that far.
	Chain [32]byte
}

// Gap is a volume of a manifest that a node does not hold.
type Gap struct {
	Want Volume
	// After is the node's own LSN: what to pull lies above it.
	After uint64
	// Diverged: the node holds another history. It must be set aside and pulled
	// whole.
	Diverged bool
}

// Missing compares a manifest with what a node holds and returns what it lacks,
// in the manifest's order. Nothing missing means that the manifest is covered.
// The comparison is by LSN and chain: indexes of the replicated log would give
// false alarms, since entries that change no volume move them as well.
func Missing(m Manifest, have map[evtlog.StreamName]Have) []Gap {
	var gaps []Gap
	for _, want := range m.Volumes {
		h := have[want.Stream]
		switch {
		case h.LSN < want.LSN:
			gaps = append(gaps, Gap{Want: want, After: h.LSN})
		case want.LSN > 0 && h.Chain != want.Chain:
			gaps = append(gaps, Gap{Want: want, After: 0, Diverged: true})
		}
	}
	return gaps
}
