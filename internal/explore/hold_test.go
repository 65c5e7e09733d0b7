package explore

import "testing"

func TestATrimmedEntryStaysInOneHand(t *testing.T) { holds(t, Hold(HoldOrder{})) }

func TestWrongHolds(t *testing.T) {
	tests := map[string]HoldOrder{
		"the owner does not name it":                               {NoHold: true},
		"the owner looks, and then names it: taken in between":     {NameLast: true},
		"the taker does not watch the hold: named since it looked": {NoWatch: true},
		"XAUTOCLAIM drops it from the pending list":                {Sweep: true},
		"the taker leaves it pending: the owner finds it there":    {TakeLater: true},
	}
	for name, order := range tests {
		t.Run(name, func(t *testing.T) { breaks(t, Hold(order), "parallel") })
	}
}
