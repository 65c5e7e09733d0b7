package game

import (
	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// Names of the facts. The first two travel as work in the guesses stream, the
// others are announced and appended to the feed.
const (
	KindOpen  = "open"
	KindGuess = "guess"

	EventOpened  = "opened"
	EventScored  = "scored"
	EventSettled = "settled"
)

// Table is what the score consumer knows about the rounds that are being
// played: a fold of both streams. It decides, and does no I/O; it belongs to
// one goroutine.
type Table struct {
	rounds map[string]*round
}

type round struct {
	secret Code
	// opened and settled are the facts that bound the round, zero until they
	// stand in the feed.
	opened, settled evtid.ID

	best   int
	leader string
	// scored are the guesses that already stand in the feed: the work stream is
	// at-least-once, so each guess may come again.
	scored map[evtid.ID]bool
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{rounds: map[string]*round{}} }

// Open takes an "open" work item. It reports whether the round is new.
func (t *Table) Open(work evtlog.Record) (secret Code, fresh bool, err error) {
	name, _ := work.Get("round")
	text, _ := work.Get("secret")
	if secret, err = ParseCode(text); err != nil {
		return secret, false, err
	}
	if _, known := t.rounds[name]; known {
		return secret, false, nil
	}
	t.rounds[name] = &round{secret: secret, scored: map[evtid.ID]bool{}}
	return secret, true, nil
}

// Opened reports whether the opening of a round already stands in the feed.
func (t *Table) Opened(name string) bool {
	r := t.rounds[name]
	return r != nil && !r.opened.IsZero()
}

// Verdict is the outcome of a guess.
type Verdict struct {
	Round  string
	Player string
	Code   Code
	Score  int
	// Beats is the player who led until this guess, if another one.
	Beats string
	// Repeat is true when the guess was scored before.
	Repeat bool
	// Late is true when the round is settled or unknown: nothing is announced.
	Late bool
}

// Judge decides a guess without changing the table.
func (t *Table) Judge(work evtlog.Record) (Verdict, error) {
	var v Verdict
	v.Round, _ = work.Get("round")
	v.Player, _ = work.Get("player")
	text, _ := work.Get("code")
	code, err := ParseCode(text)
	if err != nil {
		return v, err
	}
	v.Code = code
	r := t.rounds[v.Round]
	switch {
	case r == nil:
		v.Late = true
	case r.scored[work.ID]:
		v.Repeat = true
	case !r.settled.IsZero():
		v.Late = true
	default:
		v.Score = Score(r.secret, code)
		if v.Score > r.best && r.leader != "" && r.leader != v.Player {
			v.Beats = r.leader
		}
	}
	return v, nil
}

// Apply takes a record of the feed: it is how the table learns what is settled,
// from its own facts as well as when it is rebuilt after a restart.
func (t *Table) Apply(fact evtlog.Record) {
	name, _ := fact.Get("round")
	r := t.rounds[name]
	if r == nil {
		return
	}
	switch event, _ := fact.Get("event"); event {
	case EventOpened:
		r.opened = fact.ID
	case EventSettled:
		r.settled = fact.ID
		r.scored = nil // whatever comes now is late
	case EventScored:
		job, _ := fact.Get("job")
		if guess, err := evtid.Parse(job); err == nil && r.scored != nil {
			r.scored[guess] = true
		}
		player, _ := fact.Get("player")
		if score := scoreOf(fact); score > r.best {
			r.best, r.leader = score, player
		}
	}
}

// Cracked reports whether a round has its full score but is not settled yet.
func (t *Table) Cracked(name string) bool {
	r := t.rounds[name]
	return r != nil && r.best == Crack && r.settled.IsZero()
}

// Window returns the window of the feed that a round's facts lie in: from its
// opening to its settling, or open-ended while it is played.
func (t *Table) Window(name string) (w evtlog.Window, known bool) {
	r := t.rounds[name]
	if r == nil || r.opened.IsZero() {
		return w, false
	}
	return evtlog.Window{After: r.opened.Prev(), To: r.settled}, true
}
