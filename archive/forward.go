package archive

import (
	"errors"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// forward reads oldest first. What the archive is known to hold is read from
// it; above that come live pages, each proved whole by the floor that was read
// behind it. A page that cannot be proved is discarded, and since the floor is
// the id of an archived record, the archive then gives at least that one: no
// page is discarded twice without output in between.
func (m *merge) forward() error {
	cursor, last := m.after, false
	for cursor.Less(m.to) && m.left > 0 && !last {
		err := m.stopped(cursor)
		switch {
		case err != nil:
		case cursor.Less(m.known):
			cursor, err = m.forwardArchive(cursor)
		default:
			cursor, last, err = m.forwardPage(cursor)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forwardArchive yields the archived records of the window above cursor, from a
// state that has reached known.
func (m *merge) forwardArchive(cursor evtid.ID) (evtid.ID, error) {
	newest, err := m.emitArchive(Range{After: cursor, To: m.to, AtLeast: earlier(m.known, m.to)})
	return later(newest, m.known), err
}

// forwardPage reads one live page and yields it when it is proved whole.
// Otherwise it only learns how far the archive reaches.
func (m *merge) forwardPage(cursor evtid.ID) (next evtid.ID, last bool, err error) {
	asked := m.pageLen()
	page, floor, err := m.live.Page(m.ctx, cursor, m.to, asked)
	foreign, err := m.split(cursor, err)
	if err != nil {
		return cursor, false, err
	}
	facts := PageFacts{Cursor: cursor, To: m.to, Records: len(page), Asked: asked, Last: lastID(page), Proof: Proof{Floor: floor}}
	step := DecidePage(facts)
	if step == AskWatermark {
		if err := m.ask(&facts.Proof); err != nil {
			return cursor, false, err
		}
		step = DecidePage(facts)
	}
	if step == ReadArchive {
		bound, _ := facts.Proof.Bound()
		m.learn(bound)
		return cursor, false, nil
	}
	if err := m.emitPage(page); err != nil {
		return cursor, false, err
	}
	return later(cursor, facts.Last), step == YieldLast, m.unlessFull(foreign)
}

// split tells the error that comes with a usable page, the one about a foreign
// entry behind it, from those that come with none.
func (m *merge) split(at evtid.ID, err error) (foreign, fatal error) {
	if err == nil {
		return nil, nil
	}
	wrapped := m.wrap("live stream", at, err)
	if errors.Is(err, evtlog.ErrForeignEntry) {
		return wrapped, nil
	}
	return nil, wrapped
}

// unlessFull drops the error about an entry behind the limit of the window.
func (m *merge) unlessFull(foreign error) error {
	if m.left == 0 {
		return nil
	}
	return foreign
}

func lastID(page []evtlog.Record) evtid.ID {
	if len(page) == 0 {
		return evtid.ID{}
	}
	return page[len(page)-1].ID
}
