package archive

import "github.com/evtlog/evtlog/evtid"

// backward reads newest first: the live stream down to its oldest record, then
// the archive below that. The archive is read from a state that has reached a
// floor read after the last live page, so whatever a trim took from under the
// read is in it.
func (m *merge) backward() error {
	high := m.to
	if m.arch != nil && !m.known.Less(m.to) {
		// All of the window is archived.
		return m.backwardArchive(high)
	}
	for short := false; m.after.Less(high) && m.left > 0 && !short; {
		var err error
		if high, short, err = m.backwardPage(high); err != nil {
			return err
		}
	}
	if m.left == 0 || !m.after.Less(high) {
		return nil
	}
	return m.below(high)
}

// backwardPage yields one live page below and including high. It returns the
// new high, and whether the page was short: nothing is left in the live stream.
func (m *merge) backwardPage(high evtid.ID) (next evtid.ID, short bool, err error) {
	if err := m.stopped(high); err != nil {
		return high, false, err
	}
	asked := m.pageLen()
	page, err := m.live.PageBefore(m.ctx, m.after, high, asked)
	foreign, err := m.split(high, err)
	if err != nil {
		return high, false, err
	}
	if err := m.emitPage(page); err != nil {
		return high, false, err
	}
	if len(page) > 0 {
		high = lastID(page).Prev()
	}
	return high, len(page) < asked, m.unlessFull(foreign)
}

// below yields what the window holds below the live stream.
func (m *merge) below(high evtid.ID) error {
	if err := m.stopped(high); err != nil {
		return err
	}
	// Nothing of this range is live any more. The call is for the floor.
	_, floor, err := m.live.Page(m.ctx, m.after, high, 1)
	if err != nil {
		return m.wrap("floor", high, err)
	}
	// Without an archive there is nobody to ask, and only a floor can tell.
	facts := BelowFacts{After: m.after, High: high, Proof: Proof{Floor: floor, Asked: m.arch == nil}}
	step := DecideBelow(facts)
	if step == AskWatermark {
		if err := m.ask(&facts.Proof); err != nil {
			return err
		}
		step = DecideBelow(facts)
	}
	if step != ReadArchive {
		return nil
	}
	bound, _ := facts.Proof.Bound()
	if m.arch == nil {
		return m.gapError(m.after, earlier(bound, high), reasonElsewhere)
	}
	m.learn(bound)
	return m.backwardArchive(high)
}

// backwardArchive yields what the archive holds of the window up to and
// including high, from a state that has reached known.
func (m *merge) backwardArchive(high evtid.ID) error {
	_, err := m.emitArchive(Range{After: m.after, To: high, AtLeast: earlier(m.known, high), Reverse: true})
	return err
}
