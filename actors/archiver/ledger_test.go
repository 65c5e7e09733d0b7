package archiver

import (
	"testing"

	"github.com/evtlog/evtlog/evtid"
)

func TestLedgerCompares(t *testing.T) {
	// Through record 50 of 50, as many as were added.
	at50 := ledger{known: true, through: id(50), added: 50, sure: id(50)}
	for _, c := range []struct {
		name      string
		l         ledger
		v         view
		missing   int64
		after, to evtid.ID
	}{
		{"nothing happened", at50, view{w: id(50), first: id(1), last: id(50), length: 50, added: 50}, 0, none, none},
		{"appended", at50, view{w: id(50), first: id(1), last: id(60), length: 60, added: 60}, 0, none, none},
		{"archived ones are gone", at50, view{w: id(50), first: id(51), last: id(60), length: 10, added: 60}, 0, none, none},
		{"some above are gone", at50, view{w: id(50), first: id(54), last: id(60), length: 7, added: 60}, 3, id(50), id(54).Prev()},
		{"all are gone", at50, view{w: id(50), last: id(60), added: 60}, 10, id(50), id(60)},
		{"folded past them", ledger{known: true, through: id(60), added: 57, sure: id(50)}, view{w: id(60), first: id(54), last: id(60), length: 7, added: 60}, 3, id(50), id(54).Prev()},
		{"folded past them, not all", ledger{known: true, through: id(58), added: 55, sure: id(50)}, view{w: id(58), first: id(54), last: id(60), length: 7, added: 60}, 0, none, none},
		{"a single one is deleted and passed", ledger{known: true, through: id(60), added: 59, sure: id(50)}, view{w: id(60), first: id(1), last: id(60), length: 59, added: 60}, 1, id(50), id(60)},
		{"a foreign entry is the oldest", at50, view{w: id(50), last: id(60), length: 7, added: 60}, 0, none, none},
		{"made anew", at50, view{w: id(50), first: id(61), last: id(62), length: 2, added: 2}, 0, none, none},
		{"the server does not count", at50, view{w: id(50), first: id(54), last: id(60), length: 7, added: -1}, 0, none, none},
		{"somebody else folded", at50, view{w: id(53), first: id(54), last: id(60), length: 7, added: 60}, 0, none, none},
		{"the first look", ledger{}, view{w: id(50), first: id(54), last: id(60), length: 7, added: 60}, 0, none, none},
	} {
		missing, next := c.l.compare(c.v)
		if missing != c.missing {
			t.Errorf("%s: %d are missing, want %d", c.name, missing, c.missing)
		}
		if after, to := c.l.gap(c.v); missing > 0 && (after != c.after || to != c.to) {
			t.Errorf("%s: in (%s, %s], want (%s, %s]", c.name, after, to, c.after, c.to)
		}
		if again, _ := next.compare(c.v); again != 0 {
			t.Errorf("%s: %d are missing once more", c.name, again)
		}
	}
}

func TestLedgerFollowsOwnFoldsOnly(t *testing.T) {
	l := ledger{known: true, through: id(50), added: 50, sure: id(50)}
	l.folded(id(50), id(60), 10)
	if want := (ledger{known: true, through: id(60), added: 60, sure: id(50)}); l != want {
		t.Errorf("%+v, want %+v", l, want)
	}
	l.folded(id(70), id(80), 10)
	if l.known {
		t.Errorf("%+v although somebody else folded up to 70", l)
	}
	l.folded(id(80), id(90), 10)
	if l.known {
		t.Errorf("%+v: one's own fold does not tell what was before it", l)
	}
}
