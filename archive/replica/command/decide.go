package command

// Verdict is what the state machine does with a fold before the volume sees it.
// Whether the entry was applied before, and whether it fits, the volume decides
// in the same transaction.
type Verdict uint8

const (
	// Apply it to the volume.
	Apply Verdict = iota
	// Foreign: the entry belongs to another incarnation of the cluster, so its
	// index cannot be compared with the volume's. Stop the node.
	Foreign
	// Parked: the volume is set aside until it has been repaired.
	Parked
)

// Decide says what to do with a fold. sameIncarnation: the entry's incarnation
// is that of the volumes, or theirs is not set yet.
func Decide(sameIncarnation, parked bool) Verdict {
	switch {
	case !sameIncarnation:
		return Foreign
	case parked:
		return Parked
	}
	return Apply
}

// Size says whether a command fits the log. The limit returned is the one that
// holds for it.
func Size(encoded, records int) (limit int, ok bool) {
	limit = MaxBytes
	if records == 1 {
		limit = MaxLoneBytes
	}
	return limit, encoded <= limit
}
