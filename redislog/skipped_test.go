package redislog

import "testing"

// Ranges that follow each other become one; where something is amiss, all stay.
func TestJoinSkipped(t *testing.T) {
	_, l := realLog(t)
	recorded := []SkippedRange{span(1, 5), span(9, 12), span(5, 7), span(6, 8)}
	if err := l.AddSkipped(t.Context(), "g", recorded...); err != nil {
		t.Fatal(err)
	}
	join := func(ranges ...SkippedRange) {
		t.Helper()
		if err := l.JoinSkipped(t.Context(), "g", ranges...); err != nil {
			t.Fatal(err)
		}
	}
	join()
	join(span(1, 5))
	join(span(1, 5), span(9, 12))            // a gap
	join(span(1, 5), span(5, 7), span(7, 8)) // one is not there
	wantRanges(t, l, recorded...)
	join(span(1, 5), span(5, 7), span(6, 8))
	wantRanges(t, l, span(9, 12), span(1, 8))
}
