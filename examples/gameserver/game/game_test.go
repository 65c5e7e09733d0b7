package game

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func code(t *testing.T, s string) Code {
	t.Helper()
	c, err := ParseCode(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestScore(t *testing.T) {
	secret := code(t, "🍎 🍋 🍇 🍉 🍒 🥝")
	for _, c := range []struct {
		guess string
		want  int
	}{
		{"🍎 🍋 🍇 🍉 🍒 🥝", Crack},
		{"🍍 🥥 🌶 🌽 🍄 🥕", 0},
		{"🍎 🥥 🌶 🌽 🍄 🥕", 100},
		{"🥥 🍎 🌶 🌽 🍄 🥕", 80},
		{"🥥 🌶 🌽 🍄 🥕 🍎", 0}, // found at distance 5
		{"🍋 🍎 🍇 🍉 🍒 🥝", 560},
		{"🥝 🍒 🍉 🍇 🍋 🍎", 2*0 + 2*40 + 2*80},
	} {
		if got := Score(secret, code(t, c.guess)); got != c.want {
			t.Errorf("%s scores %d, want %d", c.guess, got, c.want)
		}
	}
}

func TestParseCodeRefuses(t *testing.T) {
	for _, s := range []string{"", "🍎", "🍎 🍎 🍇 🍉 🍒 🥝", "🍎 🍋 🍇 🍉 🍒 x", "🍎 🍋 🍇 🍉 🍒 🥝 🍍"} {
		if c, err := ParseCode(s); err == nil {
			t.Errorf("%q was read as %v", s, c)
		}
	}
}

// played is a game on a server of its own, with an archive.
type played struct {
	*Game
	rt    *runtime.Runtime
	store *volume.Store
}

func play(t *testing.T, srv *redistest.Server, file string) played {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	store, err := volume.Open(file, volume.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := New(Options{Archive: store, Hot: 10})
	rt, err := runtime.Start(ctx, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()}, Streams: g.Streams(), Consumers: g.Consumers(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Attach(ctx, rt); err != nil {
		t.Fatal(err)
	}
	return played{Game: g, rt: rt, store: store}
}

func (p played) end(t *testing.T) {
	t.Helper()
	if err := p.rt.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if err := p.store.Close(); err != nil {
		t.Error(err)
	}
}

func (p played) drain(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := p.rt.Drain(ctx); err != nil {
		t.Fatal(err)
	}
}

func (p played) replay(t *testing.T, round string) []Fact {
	t.Helper()
	facts, err := p.Replay(context.Background(), round)
	if err != nil {
		t.Fatal(err)
	}
	var all []Fact
	for f, err := range facts {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// TestRound plays a round over a restart of the server program: facts stand
// once, the loser is told once, and the round is replayed from the archive.
func TestRound(t *testing.T) {
	srv := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "archive.db")
	ctx := context.Background()
	secret := code(t, "🍎 🍋 🍇 🍉 🍒 🥝")

	p := play(t, srv, file)
	round, err := p.Open(ctx, secret)
	if err != nil {
		t.Fatal(err)
	}
	guess := func(player, c string) {
		if _, err := p.Guess(ctx, round, player, code(t, c)); err != nil {
			t.Fatal(err)
		}
	}
	guess("ann", "🍎 🥥 🌶 🌽 🍄 🥕")
	guess("bob", "🍎 🍋 🌶 🌽 🍄 🥕")
	p.drain(t)
	if n := p.Notices("ann"); len(n) != 1 || n[0].By != "bob" || n[0].Score != 200 {
		t.Errorf("ann was told %+v", n)
	}
	p.end(t)

	p = play(t, srv, file)
	defer func() { p.end(t) }()
	guess("ann", "🍎 🍋 🍇 🍉 🍒 🥝")
	guess("bob", "🍋 🍎 🍇 🍉 🍒 🥝") // late: the round is settled
	p.drain(t)
	if n := p.Notices("bob"); len(n) != 1 || n[0].By != "ann" || n[0].Score != Crack {
		t.Errorf("bob was told %+v", n)
	}
	if err := p.Feed().Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	facts := p.replay(t, round)
	var events []string
	for _, f := range facts {
		events = append(events, f.Fields["event"]+" "+f.Fields["score"])
	}
	if got := strings.Join(events, ", "); got != "opened , scored 100, scored 200, scored 600, settled " {
		t.Errorf("the round is replayed as %s", got)
	}
	if facts[0].Source != "archive" {
		t.Errorf("the opening was read from %s", facts[0].Source)
	}
}

// TestHandlersAreIdempotent hands every delivery to the handlers twice.
func TestHandlersAreIdempotent(t *testing.T) {
	srv := redistest.Start(t)
	p := play(t, srv, filepath.Join(t.TempDir(), "archive.db"))
	defer p.end(t)
	ctx := context.Background()
	round, err := p.Open(ctx, code(t, "🍎 🍋 🍇 🍉 🍒 🥝"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{"🍎 🥥 🌶 🌽 🍄 🥕", "🍎 🍋 🍇 🍉 🍒 🥝"} {
		for _, player := range []string{"ann", "bob"} {
			if _, err := p.Guess(ctx, round, player, code(t, c)); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.drain(t)
	before := len(p.replay(t, round))
	again := func(log *runtime.Log, h evtlog.Handler) {
		for r, err := range log.Read(ctx, evtlog.Window{}) {
			if err != nil {
				t.Fatal(err)
			}
			if err := h(ctx, evtlog.Delivery{Record: r, Attempts: 2}); err != nil {
				t.Errorf("%#v again: %v", r, err)
			}
		}
	}
	notices := len(p.Notices("ann"))
	again(p.guesses, p.score)
	again(p.feed, p.notify)
	if after := len(p.replay(t, round)); after != before {
		t.Errorf("%d facts became %d", before, after)
	}
	if got := len(p.Notices("ann")); got != notices {
		t.Errorf("%d notices became %d", notices, got)
	}
}

func TestHTTP(t *testing.T) {
	srv := redistest.Start(t)
	p := play(t, srv, filepath.Join(t.TempDir(), "archive.db"))
	defer p.end(t)
	web := httptest.NewServer(p.Handler(p.rt))
	defer web.Close()
	defer web.CloseClientConnections()
	request := func(method, path, body string, into any) int {
		t.Helper()
		req, err := http.NewRequest(method, web.URL+path, bytes.NewBufferString(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if into != nil && res.StatusCode < 300 {
			if err := json.NewDecoder(res.Body).Decode(into); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
		return res.StatusCode
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+"/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	live, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer live.Body.Close()

	var opened struct{ Round string }
	if status := request(http.MethodPost, "/rounds", "", &opened); status != http.StatusCreated || opened.Round == "" {
		t.Fatalf("a round: %d %+v", status, opened)
	}
	var accepted struct{ ID evtid.ID }
	body := `{"player":"ann","code":"🍎 🍋 🍇 🍉 🍒 🥝"}`
	if status := request(http.MethodPost, "/rounds/"+opened.Round+"/guesses", body, &accepted); status != http.StatusAccepted || accepted.ID.IsZero() {
		t.Fatalf("a guess: %d %+v", status, accepted)
	}
	for path, bad := range map[string]string{
		"/rounds/x/guesses": `{"player":"ann","code":"🍎"}`, "/rounds/y/guesses": `{"code":"🍎 🍋 🍇 🍉 🍒 🥝"}`, "/rounds/z/guesses": `no`,
	} {
		if status := request(http.MethodPost, path, bad, nil); status != http.StatusBadRequest {
			t.Errorf("%s is answered with %d", bad, status)
		}
	}
	if status := request(http.MethodGet, "/rounds/unknown/replay", "", nil); status != http.StatusNotFound {
		t.Errorf("an unknown round is answered with %d", status)
	}
	lines := bufio.NewScanner(live.Body)
	for lines.Scan() {
		if text := lines.Text(); strings.HasPrefix(text, "data:") && strings.Contains(text, `"scored"`) {
			if !strings.Contains(text, accepted.ID.String()) {
				t.Errorf("the live page was told %s", text)
			}
			break
		}
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the scored fact did not arrive: %v", err)
	}
	p.drain(t)
	var first Fact
	if status := request(http.MethodGet, "/rounds/"+opened.Round+"/replay", "", &first); status != http.StatusOK || first.Fields["event"] != EventOpened {
		t.Errorf("replay: %d %+v", status, first)
	}
	var notices []Notice
	if status := request(http.MethodGet, "/players/ann/notices", "", &notices); status != http.StatusOK || len(notices) != 0 {
		t.Errorf("notices: %d %+v", status, notices)
	}
	if status := request(http.MethodGet, "/", "", nil); status != http.StatusOK {
		t.Errorf("the page: %d", status)
	}
}

func TestBotsCrackEveryRound(t *testing.T) {
	srv := redistest.Start(t)
	p := play(t, srv, filepath.Join(t.TempDir(), "archive.db"))
	defer p.end(t)
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if err := p.Bots(ctx, 2, time.Millisecond, 7); err != nil {
		t.Fatal(err)
	}
	p.drain(t)
	opened, settled := 0, 0
	for r, err := range p.Feed().Read(context.Background(), evtlog.Window{}) {
		if err != nil {
			t.Fatal(err)
		}
		switch event, _ := r.Get("event"); event {
		case EventOpened:
			opened++
		case EventSettled:
			settled++
		}
	}
	if settled == 0 || opened-settled > 1 {
		t.Errorf("%d rounds were opened and %d settled", opened, settled)
	}
}
