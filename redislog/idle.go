package redislog

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/evtlog/evtlog/evtid"
)

// sweepFactor is how many pending entries a step of a sweep looks at for each
// one it may take: as many as XAUTOCLAIM does.
const sweepFactor = 10

// Idle is one step of a sweep over the entries that are pending for a group.
type Idle struct {
	// Claimed are the entries that were taken over and are the member's now; only
	// their ID or Raw is set. Read them with ReadPending, which counts a delivery.
	Claimed []PendingEntry
	// Trimmed were pending and not worked on, and had been trimmed. They are in
	// recorded ranges now, and not pending any more. A foreign one, of which only
	// Raw is set, can be in no range.
	Trimmed []PendingEntry
	// Dropped were deleted one by one: the server has dropped them, and only this
	// answer names them. Record them (AddSkipped).
	Dropped []PendingEntry
	// Cursor continues the sweep; "" is its end.
	Cursor string
}

// ClaimIdle takes over entries that no member has touched for minIdle: it looks
// at ten times count pending entries from cursor on ("" begins), takes up to
// count, and counts no delivery.
//
// It begins XAUTOCLAIM at the oldest live entry, because that drops trimmed
// entries from the pending list of any member, also of one that works on them.
// Trimmed entries stay with a member for as long as it names them (see Renew),
// and while the server has no memory for the record of the others.
func (l *Log) ClaimIdle(ctx context.Context, group, member string, minIdle time.Duration, cursor string, count int) (step Idle, err error) {
	if err := checkGroupMember(group, member); err != nil {
		return Idle{}, err
	}
	if count <= 0 {
		return Idle{}, badArgument("ClaimIdle", "count", "it must be positive")
	}
	if n, _, _, err := l.PendingSummary(ctx, group); err != nil || n == 0 {
		return Idle{}, err
	}
	err = l.watching(ctx, "claim "+group+"/"+member, []string{l.stream.Epoch()}, func(s *session) (bool, error) {
		reply, err := s.do(l.firstCommand())
		if err != nil {
			return false, err
		}
		first, below, err := sweepFrom(reply, cursor)
		if err != nil {
			return false, err
		}
		step = Idle{}
		var record []command
		if below {
			if record, err = l.sweepTrimmed(s, group, minIdle, cursor, first, count, &step); err != nil {
				return false, err
			}
			cursor = first
		}
		if first != "" && step.Cursor == "" {
			return l.sweepLive(s, group, member, minIdle, cursor, count, record, &step)
		}
		return l.sweepEnds(s, record, &step)
	})
	return step, err
}

func (l *Log) firstCommand() command {
	return command{"XRANGE", l.stream.Key(), "-", "+", "COUNT", 1}
}

// sweepFrom reads the oldest live position, "" when there is none, and whether a
// sweep from cursor begins below it.
func sweepFrom(reply any, cursor string) (first string, below bool, err error) {
	oldest, first, found, err := firstID(reply)
	if err != nil || !found || cursor == "" {
		return first, true, err
	}
	at, err := floorPosition(cursor)
	return first, at.Less(oldest), err
}

// sweepTrimmed looks at what is pending below the oldest live position, and
// returns what records it and takes it off the list.
func (l *Log) sweepTrimmed(s *session, group string, minIdle time.Duration, cursor, first string, count int, step *Idle) ([]command, error) {
	from, to, page := cursor, "+", sweepFactor*count
	if from == "" {
		from = "-"
	}
	if first != "" {
		to = positionBefore(first)
	}
	idle, err := l.idleOf(s, group, command{"XPENDING", l.stream.Key(), group, from, to, page}, evtid.Max, minIdle)
	if err != nil {
		return nil, err
	}
	// Foreign entries stand at no position that the list tells to be trimmed, but
	// all these are.
	idle.trimmed = append(idle.trimmed, idle.live...)
	if len(idle.page) == page {
		step.Cursor = positionAfter(entryText(idle.page[page-1]))
	}
	step.Trimmed = idle.trimmed
	return l.recordCommands(group, idle), nil
}

// positionBefore and positionAfter return the neighbours of a position as the
// server writes it, which need not be one of an id.
func positionBefore(entry string) string {
	ms, seq, _ := cutPosition(entry)
	if seq > 0 {
		return joinPosition(ms, seq-1)
	}
	return joinPosition(max(ms, 1)-1, math.MaxUint64)
}

func positionAfter(entry string) string {
	ms, seq, _ := cutPosition(entry)
	if seq < math.MaxUint64 {
		return joinPosition(ms, seq+1)
	}
	return joinPosition(ms+1, 0)
}

func joinPosition(ms, seq uint64) string {
	return strconv.FormatUint(ms, 10) + "-" + strconv.FormatUint(seq, 10)
}

// sweepEnds does what follows from a step that claims nothing.
func (l *Log) sweepEnds(s *session, record []command, step *Idle) (done bool, err error) {
	if len(record) == 0 {
		return true, nil
	}
	replies, done, err := s.transaction(record...)
	if outOfMemory(err) {
		step.Trimmed = nil
		return true, nil
	}
	if err != nil || !done {
		return false, err
	}
	return true, s.firstRefusal(replies)
}

// sweepLive claims, in one transaction with the record of what is trimmed.
func (l *Log) sweepLive(s *session, group, member string, minIdle time.Duration, cursor string, count int, record []command, step *Idle) (done bool, err error) {
	claim := command{"XAUTOCLAIM", l.stream.Key(), group, member, minIdle.Milliseconds(), cursor, "COUNT", count, "JUSTID"}
	replies, done, err := s.transaction(append(record, claim)...)
	if outOfMemory(err) {
		// A server without memory takes the claim, but no transaction.
		step.Trimmed, done = nil, true
		replies, err = s.all(claim)
	}
	if err != nil || !done {
		return false, err
	}
	if err := s.firstRefusal(replies); err != nil {
		return true, err
	}
	return true, step.claimed(replies[len(replies)-1])
}

// claimed reads "[cursor, ids, deleted ids]"; Redis 6.2 has no third part, and
// names deleted entries as claimed.
func (i *Idle) claimed(reply any) error {
	parts, _ := reply.([]any)
	if len(parts) != 2 && len(parts) != 3 {
		return protocolError("a claim does not answer cursor and entries")
	}
	cursor, err := word(parts[0])
	if err != nil {
		return err
	}
	if cursor != "0-0" {
		i.Cursor = cursor
	}
	if i.Claimed, err = positions(parts[1]); err != nil || len(parts) == 2 {
		return err
	}
	i.Dropped, err = positions(parts[2])
	return err
}

// positions reads a list of entry ids.
func positions(reply any) (entries []PendingEntry, err error) {
	list, ok := reply.([]any)
	if !ok {
		return nil, protocolError("the ids are not an array")
	}
	for _, item := range list {
		id, raw, err := entryID(item)
		if err != nil {
			return nil, err
		}
		entries = append(entries, PendingEntry{ID: id, Raw: raw})
	}
	return entries, nil
}

// idleEntries is a page of pending entries and what may be taken of it.
type idleEntries struct {
	page []PendingEntry
	live []PendingEntry // idle, with a body or foreign
	// trimmed are idle, without a body, and not in their owner's hold; unrecorded
	// are those of them that no range holds yet.
	trimmed    []PendingEntry
	unrecorded []evtid.ID
}

// idleOf lists pending entries and tells apart what is idle. The session watches
// the epoch since before oldest was looked at, so that no trim can come in
// between.
func (l *Log) idleOf(s *session, group string, list command, oldest evtid.ID, minIdle time.Duration) (idleEntries, error) {
	page, err := s.pending(list)
	if err != nil {
		return idleEntries{}, err
	}
	idle := idleEntries{page: page}
	var gone []PendingEntry
	for _, p := range page {
		switch {
		case p.Idle < minIdle:
		case p.Raw != "" || !p.ID.Less(oldest):
			idle.live = append(idle.live, p)
		default:
			gone = append(gone, p)
		}
	}
	if len(gone) == 0 {
		return idle, nil
	}
	return idle, l.idleTrimmed(s, group, list, gone, minIdle, &idle)
}

// idleTrimmed fills in those of the entries without a body that nobody works on.
func (l *Log) idleTrimmed(s *session, group string, list command, gone []PendingEntry, minIdle time.Duration, idle *idleEntries) error {
	h, err := l.watchHolds(s, group, gone)
	if err != nil {
		return err
	}
	replies, err := s.all(list, command{"LRANGE", l.stream.Skipped(group), 0, -1})
	if err != nil {
		return err
	}
	page, err := pendingOf(replies[0])
	if err != nil {
		return err
	}
	texts, err := words(replies[1])
	if err != nil {
		return err
	}
	last := gone[len(gone)-1].ID
	for _, p := range page {
		if p.Raw == "" && !last.Less(p.ID) && !h.of(p, minIdle) {
			idle.trimmed = append(idle.trimmed, p)
		}
	}
	ranges, _ := parseRanges(l.stream.Skipped(group), texts)
	idle.unrecorded = uncovered(pendingIDsOf(idle.trimmed), ranges)
	return nil
}

// recordCommands records trimmed entries and takes them off the pending list.
func (l *Log) recordCommands(group string, idle idleEntries) []command {
	if len(idle.trimmed) == 0 {
		return nil
	}
	cmds := pushRanges(l.stream.Skipped(group), pendingRanges(idle.unrecorded))
	return append(cmds, l.ackCommand(group, idle.trimmed))
}

// oldest returns the oldest live id; with none in the stream everything is
// trimmed, and it is the highest there can be.
func (l *Log) oldest(s *session) (evtid.ID, error) {
	reply, err := s.do(l.firstCommand())
	if err != nil {
		return evtid.ID{}, err
	}
	return oldestLive(reply)
}

func oldestLive(reply any) (evtid.ID, error) {
	id, _, found, err := firstID(reply)
	if err == nil && !found {
		id = evtid.Max
	}
	return id, err
}

// idsBelow and idsFrom tell trimmed ids from live ones.
func idsBelow(ids []evtid.ID, oldest evtid.ID) (below []evtid.ID) {
	for _, id := range ids {
		if id.Less(oldest) {
			below = append(below, id)
		}
	}
	return below
}

func idsFrom(ids []evtid.ID, oldest evtid.ID) (from []evtid.ID) {
	for _, id := range ids {
		if !id.Less(oldest) {
			from = append(from, id)
		}
	}
	return from
}

func pendingIDsOf(entries []PendingEntry) (ids []evtid.ID) {
	for _, p := range entries {
		ids = append(ids, p.ID)
	}
	return ids
}

func sortedIDs(ids []evtid.ID) []evtid.ID {
	return slices.SortedFunc(slices.Values(ids), evtid.ID.Compare)
}
