package publisher

import (
	"errors"
	"sync"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// keepOutcomes is how many settled outcomes are remembered for Resolve. An older
// one is looked up in the stream and the archive instead.
const keepOutcomes = 4096

// outcomes are the appends whose callers were told that they are uncertain.
type outcomes struct {
	mu   sync.Mutex
	byID map[evtid.ID]*outcome
	// old are the settled ones in the order they were settled.
	old []evtid.ID
}

// outcome is open until done is closed. known is false when the publisher
// stopped before it was settled.
type outcome struct {
	done  chan struct{}
	known bool
	err   error
}

// expect opens the outcome of an id.
func (o *outcomes) expect(id evtid.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byID == nil {
		o.byID = map[evtid.ID]*outcome{}
	}
	o.byID[id] = &outcome{done: make(chan struct{})}
}

// settle closes it. An outcome that is still uncertain, because the publisher
// stops, is forgotten: whoever asks looks it up.
func (o *outcomes) settle(id evtid.ID, err error) {
	var open *evtlog.UncertainError
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.byID[id]
	if out == nil {
		return
	}
	defer close(out.done)
	if errors.As(err, &open) {
		delete(o.byID, id)
		return
	}
	out.known, out.err = true, err
	if o.old = append(o.old, id); len(o.old) > keepOutcomes {
		delete(o.byID, o.old[0])
		o.old = o.old[1:]
	}
}

// get returns nil for an id that was never uncertain.
func (o *outcomes) get(id evtid.ID) *outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byID[id]
}
