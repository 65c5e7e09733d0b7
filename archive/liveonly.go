package archive

import (
	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

const (
	reasonElsewhere = "they were archived elsewhere and may have been trimmed; read with that archive, or go on behind them"
	reasonTrimmed   = "they were trimmed while they were being read; go on behind them"
)

// forwardLive reads oldest first without an archive. From the second page on,
// each page begins at the record that was yielded last: while that one is in
// the stream, no trim can have passed it.
func (m *merge) forwardLive() error {
	facts := liveFacts{cursor: m.after, to: m.to}
	for short := false; facts.cursor.Less(m.to) && m.left > 0 && !short; {
		var err error
		if facts.cursor, short, err = m.livePage(facts); err != nil {
			return err
		}
		facts.anchored = true
	}
	return nil
}

func (m *merge) livePage(f liveFacts) (next evtid.ID, short bool, err error) {
	if err := m.stopped(f.cursor); err != nil {
		return f.cursor, false, err
	}
	after, asked := f.cursor, m.pageLen()
	if f.anchored {
		after, asked = f.cursor.Prev(), asked+1
	}
	page, floor, err := m.live.Page(m.ctx, after, m.to, asked)
	foreign, err := m.split(f.cursor, err)
	if err != nil {
		return f.cursor, false, err
	}
	short, f.floor = len(page) < asked, floor
	if f.anchored && len(page) > 0 && page[0].ID == f.cursor {
		f.seen, page = true, page[1:]
	}
	if err := m.checkGap(f, page); err != nil {
		return f.cursor, false, err
	}
	if err := m.emitPage(page); err != nil {
		return f.cursor, false, err
	}
	return later(f.cursor, lastID(page)), short, m.unlessFull(foreign)
}

func (m *merge) checkGap(f liveFacts, page []evtlog.Record) error {
	if len(page) > 0 {
		f.first = page[0].ID
	}
	to, gone := gapBefore(f)
	if !gone {
		return nil
	}
	reason := reasonElsewhere
	if f.anchored {
		reason = reasonTrimmed
	}
	return m.gapError(f.cursor, to, reason)
}
