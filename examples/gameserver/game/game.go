// Package game is the emoji code-breaking game that the example server plays,
// and the demonstration of the command line with it.
//
// A round has a secret of six different emojis. Guesses go through one stream
// as work for the score consumer, which announces and appends what it decides
// to the feed. A second group on the feed tells players that they were beaten.
// Every handler is idempotent on the id of what it handles.
package game

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/runtime"
)

// Names in Redis.
const (
	DefaultQueue = "cm"

	Guesses = "guesses"
	Feed    = "feed"

	ScoreGroup  = "score"
	NotifyGroup = "notify"
)

// Options tune a game. The zero value is what the example server uses.
type Options struct {
	// Queue holds the game's streams. Zero means DefaultQueue.
	Queue string
	// Archive takes the feed before it is trimmed. nil keeps everything live.
	Archive archive.Archive
	// Hot is how many records of each stream stay in Redis. 0 means 10,000.
	Hot int64
	// Receipt is called with the id of every committed append. nil is not called.
	Receipt func(stream string, id evtid.ID)
}

// Game is one running game. Make it with New, declare its streams and consumers
// to a runtime, then call Attach. It is safe for concurrent use.
type Game struct {
	opts    Options
	guesses *runtime.Log
	feed    *runtime.Log
	ready   chan struct{}

	mu      sync.Mutex
	table   *Table
	pending map[string]evtid.ID
	notices map[string][]Notice
	noticed map[evtid.ID]bool
}

// Notice tells a player that another one has taken the lead.
type Notice struct {
	// ID is the fact it follows from.
	ID    evtid.ID `json:"id"`
	Round string   `json:"round"`
	By    string   `json:"by"`
	Score int      `json:"score"`
}

// New returns a game that is not attached yet.
func New(opts Options) *Game {
	if opts.Hot == 0 {
		opts.Hot = 10_000
	}
	if opts.Queue == "" {
		opts.Queue = DefaultQueue
	}
	if opts.Receipt == nil {
		opts.Receipt = func(string, evtid.ID) {}
	}
	return &Game{
		opts: opts, ready: make(chan struct{}), table: NewTable(),
		pending: map[string]evtid.ID{}, notices: map[string][]Notice{}, noticed: map[evtid.ID]bool{},
	}
}

// Streams declares the two streams.
func (g *Game) Streams() []runtime.Stream {
	streams := []runtime.Stream{
		{Queue: g.opts.Queue, Name: Guesses},
		{Queue: g.opts.Queue, Name: Feed},
	}
	if g.opts.Archive != nil {
		for i := range streams {
			streams[i].Archive = g.opts.Archive
			streams[i].Durability = runtime.Window(50)
			streams[i].Retention = evtlog.KeepLast(g.opts.Hot)
		}
	}
	return streams
}

// Consumers declares the score consumer and the notifier. MinIdle is short: the
// handlers take milliseconds.
func (g *Game) Consumers() []runtime.Consumer {
	return []runtime.Consumer{
		{
			Queue: g.opts.Queue, Stream: Guesses, Group: ScoreGroup, Name: "score-1",
			Start: streamconsumer.FromHead, Handler: g.score,
			Block: 200 * time.Millisecond, RetryMin: 50 * time.Millisecond,
		},
		{
			Queue: g.opts.Queue, Stream: Feed, Group: NotifyGroup, Name: "notify-1",
			Start: streamconsumer.FromHead, Handler: g.notify,
			Block: 200 * time.Millisecond, RetryMin: 50 * time.Millisecond,
		},
	}
}

// Attach gives the game its streams and rebuilds the table from them. Handlers
// wait for it.
func (g *Game) Attach(ctx context.Context, rt *runtime.Runtime) error {
	var err error
	if g.guesses, err = rt.Stream(g.opts.Queue, Guesses); err != nil {
		return err
	}
	if g.feed, err = rt.Stream(g.opts.Queue, Feed); err != nil {
		return err
	}
	if err := g.rebuild(ctx); err != nil {
		return fmt.Errorf("rebuild the table: %w", err)
	}
	close(g.ready)
	return nil
}

// rebuild folds both streams: rounds from the work, what became of them from
// the feed.
func (g *Game) rebuild(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for work, err := range g.guesses.Read(ctx, evtlog.Window{}) {
		if err != nil {
			return err
		}
		if kind, _ := work.Get("kind"); kind == KindOpen {
			if _, _, err := g.table.Open(work); err != nil {
				return err
			}
		}
	}
	for fact, err := range g.feed.Read(ctx, evtlog.Window{}) {
		if err != nil {
			return err
		}
		g.table.Apply(fact)
	}
	return nil
}

// Open starts a round and returns its name.
func (g *Game) Open(ctx context.Context, secret Code) (string, error) {
	round := "r" + strconv.FormatInt(time.Now().UnixNano(), 36)
	_, err := g.submit(ctx, evtlog.F("kind", KindOpen), evtlog.F("round", round), evtlog.F("secret", secret.String()))
	return round, err
}

// Guess submits a guess as work. The id is the receipt; what it scored follows
// on the feed.
func (g *Game) Guess(ctx context.Context, round, player string, code Code) (evtid.ID, error) {
	return g.submit(ctx, evtlog.F("kind", KindGuess), evtlog.F("round", round),
		evtlog.F("player", player), evtlog.F("code", code.String()))
}

func (g *Game) submit(ctx context.Context, fields ...evtlog.Field) (evtid.ID, error) {
	id, err := g.guesses.Append(ctx, fields...)
	if err == nil {
		g.opts.Receipt(Guesses, id)
	}
	return id, err
}

// Feed returns the handle on the feed, to read rounds back.
func (g *Game) Feed() *runtime.Log { return g.feed }

// Notices returns what a player has been told.
func (g *Game) Notices(player string) []Notice {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]Notice{}, g.notices[player]...)
}

// score handles the work: it decides, then announces and appends the verdict.
func (g *Game) score(ctx context.Context, d evtlog.Delivery) error {
	select {
	case <-g.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// One call runs at a time; the lock is for the readers of other goroutines.
	g.mu.Lock()
	defer g.mu.Unlock()
	switch kind, _ := d.Get("kind"); kind {
	case KindOpen:
		return g.open(ctx, d)
	case KindGuess:
		return g.guess(ctx, d)
	default:
		return fmt.Errorf("work %s has the unknown kind %q", d.ID, kind)
	}
}

func (g *Game) open(ctx context.Context, d evtlog.Delivery) error {
	if _, _, err := g.table.Open(d.Record); err != nil {
		return err
	}
	round, _ := d.Get("round")
	if g.table.Opened(round) {
		return nil
	}
	return g.announce(ctx, EventOpened, d.ID, evtlog.F("round", round))
}

func (g *Game) guess(ctx context.Context, d evtlog.Delivery) error {
	v, err := g.table.Judge(d.Record)
	if err != nil || v.Late {
		return err
	}
	if !v.Repeat {
		fields := []evtlog.Field{
			evtlog.F("round", v.Round), evtlog.F("player", v.Player),
			evtlog.F("code", v.Code.String()), evtlog.F("score", strconv.Itoa(v.Score)),
		}
		if v.Beats != "" {
			fields = append(fields, evtlog.F("beats", v.Beats))
		}
		if err := g.announce(ctx, EventScored, d.ID, fields...); err != nil {
			return err
		}
	}
	if g.table.Cracked(v.Round) {
		return g.announce(ctx, EventSettled, d.ID, evtlog.F("round", v.Round), evtlog.F("winner", v.Player))
	}
	return nil
}

// announce appends and publishes one fact about the work item with the given
// id, and applies it to the table. An append whose outcome is not known is
// settled before it is tried again: appending anew could write it twice.
func (g *Game) announce(ctx context.Context, event string, work evtid.ID, fields ...evtlog.Field) error {
	key := event + " " + work.String()
	id, open := g.pending[key]
	if open {
		err := g.feed.Resolve(ctx, id)
		var uncertain *evtlog.UncertainError
		switch {
		case errors.As(err, &uncertain):
			return err
		case err != nil:
			open = false // it never was written: append it now
		}
		delete(g.pending, key)
	}
	if !open {
		var err error
		id, err = g.feed.Announce(ctx, event, work.String(), fields...)
		var uncertain *evtlog.UncertainError
		if errors.As(err, &uncertain) {
			g.pending[key] = uncertain.ID
		}
		if err != nil {
			return err
		}
	}
	g.opts.Receipt(Feed, id)
	g.table.Apply(evtlog.Record{ID: id, Fields: append([]evtlog.Field{evtlog.F("event", event), evtlog.F("job", work.String())}, fields...)})
	return nil
}

// notify handles the feed: it tells the player who lost the lead.
func (g *Game) notify(_ context.Context, d evtlog.Delivery) error {
	beaten, ok := d.Get("beats")
	if !ok {
		return nil
	}
	round, _ := d.Get("round")
	by, _ := d.Get("player")
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.noticed[d.ID] {
		return nil
	}
	g.noticed[d.ID] = true
	g.notices[beaten] = append(g.notices[beaten], Notice{ID: d.ID, Round: round, By: by, Score: scoreOf(d.Record)})
	return nil
}

func scoreOf(fact evtlog.Record) int {
	text, _ := fact.Get("score")
	score, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return score
}
