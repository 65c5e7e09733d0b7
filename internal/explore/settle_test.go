package explore

import "testing"

func TestSettleALostReply(t *testing.T) {
	t.Run("look-up in one step", func(t *testing.T) { holds(t, Settle(SettleOrder{})) })
	t.Run("top, then entry", func(t *testing.T) { holds(t, Settle(SettleOrder{TopThenEntry: true})) })
	t.Run("absent is a rejection, behind a fence", func(t *testing.T) {
		holds(t, Settle(SettleOrder{Fence: true, Decide: absentRejects}))
	})
}

func TestWrongSettling(t *testing.T) {
	tests := map[string]struct {
		order SettleOrder
		why   string
	}{
		"absent alone is a rejection: the command arrives late":      {SettleOrder{Decide: absentRejects}, "revived"},
		"a retry under a new id: both arrive":                        {SettleOrder{NewID: true}, "doubled"},
		"OOM on a resend is a rejection: the first copy arrives":     {SettleOrder{MemoryRejects: true}, "revived"},
		"entry first, then top: it arrives in between":               {SettleOrder{EntryThenTop: true}, "revived"},
		"archive before the look-up: it is archived in between":      {SettleOrder{ArchiveThenEntry: true}, "revived"},
		"top reached is a rejection: it is in the archive":           {SettleOrder{Decide: topRejects}, "revived"},
		"found is committed: another writer has used the id":         {SettleOrder{Decide: foundCommits}, "lost"},
		"top reached is committed: another writer has passed the id": {SettleOrder{Decide: topCommits}, "lost"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { breaks(t, Settle(tt.order), tt.why) })
	}
}

func absentRejects(f SettleFacts) SettleVerdict {
	if !f.Found && !f.TopReached {
		return Rejected
	}
	return DecideSettle(f)
}

func topRejects(f SettleFacts) SettleVerdict {
	if v := DecideSettle(f); v != AskArchive {
		return v
	}
	return Rejected
}

func foundCommits(f SettleFacts) SettleVerdict {
	f.Same = f.Found
	return DecideSettle(f)
}

func topCommits(f SettleFacts) SettleVerdict {
	if f.TopReached {
		return Committed
	}
	return DecideSettle(f)
}

// TestSettleDecision pins the rule, fact by fact.
func TestSettleDecision(t *testing.T) {
	tests := map[string]struct {
		facts SettleFacts
		want  SettleVerdict
	}{
		"absent, top below":                {SettleFacts{}, Resend},
		"absent, top reached":              {SettleFacts{TopReached: true}, AskArchive},
		"found, same fields":               {SettleFacts{Found: true, Same: true, TopReached: true}, Committed},
		"found, other fields":              {SettleFacts{Found: true, TopReached: true}, Rejected},
		"found behind an older top":        {SettleFacts{Found: true, Same: true}, Committed},
		"archived with the same fields":    {SettleFacts{TopReached: true, Asked: true, Archived: true, ArchivedSame: true}, Committed},
		"archived with other fields":       {SettleFacts{TopReached: true, Asked: true, Archived: true}, Rejected},
		"neither in stream nor in archive": {SettleFacts{TopReached: true, Asked: true}, Rejected},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := DecideSettle(tt.facts); got != tt.want {
				t.Errorf("DecideSettle(%+v) = %d, want %d", tt.facts, got, tt.want)
			}
		})
	}
}
