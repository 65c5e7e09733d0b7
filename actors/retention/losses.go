package retention

import (
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// losses turns what a trim recorded into events, at most two for each group:
// the range it had not been given, and the span of what it had been given and
// had not acknowledged.
func losses(stream evtlog.StreamName, skipped []redislog.Skipped) []evtlog.Lost {
	var out []evtlog.Lost
	for _, s := range skipped {
		if s.Range.After.Less(s.Range.To) {
			out = append(out, evtlog.Lost{
				Stream: stream, Group: s.Group, After: s.Range.After, To: s.Range.To,
				Reason: "trimmed by policy before the group had read it, and there is no archive",
			})
		}
		if n := len(s.Pending); n > 0 {
			low, high := bounds(s.Pending)
			out = append(out, evtlog.Lost{
				Stream: stream, Group: s.Group, After: low.Prev(), To: high,
				Reason: fmt.Sprintf("%d deliveries in this range were trimmed by policy before the group had acknowledged them, and there is no archive", n),
			})
		}
	}
	return out
}

// bounds returns the lowest and highest of at least one id.
func bounds(ids []evtid.ID) (low, high evtid.ID) {
	low, high = ids[0], ids[0]
	for _, id := range ids[1:] {
		if id.Less(low) {
			low = id
		}
		if high.Less(id) {
			high = id
		}
	}
	return low, high
}
