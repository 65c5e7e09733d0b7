package explore

import "testing"

func TestNothingIsSkipped(t *testing.T) {
	tests := map[string]GroupOrder{
		"trimmer, members and creation": {},
		"the trimmer moves the group":   {MoveGroup: true},
		// Careless, but it loses nothing as long as every trimmer has recorded what
		// was pending.
		"entries without a body are acknowledged unhandled, deleted ids ignored": {AckNil: true, IgnoreDeleted: true},
	}
	for name, order := range tests {
		t.Run(name, func(t *testing.T) { holds(t, Groups(order)) })
	}
}

func TestWrongGroupOrders(t *testing.T) {
	tests := map[string]GroupOrder{
		"XTRIM alone":                                                        {BareTrim: true},
		"XTRIM before RPUSH: a crash in between":                             {TrimThenRecord: true},
		"LPOP and then handle: a crash in between":                           {PopFirst: true},
		"entries without a body acked unhandled, pending ids unrecorded":     {AckNil: true, NoPending: true},
		"deleted ids of XAUTOCLAIM ignored, pending ids unrecorded":          {IgnoreDeleted: true, NoPending: true},
		"the reader of XAUTOCLAIM's answer crashes, pending ids unrecorded":  {NoPending: true},
		"XPENDING before XINFO: an entry is delivered in between":            {PendingFirst: true},
		"XGROUP CREATE at 0 after a trim, without a range":                   {CreateAtStart: true},
		"XGROUP CREATE without WATCH: a trim since the floor was read":       {CreateNoWatch: true},
		"trim without WATCH: a group created since it was looked at":         {NoWatch: true},
		"group re-created under running members: an old ack takes another's": {Recreate: true},
	}
	for name, order := range tests {
		t.Run(name, func(t *testing.T) { breaks(t, Groups(order), "skipped") })
	}
}
