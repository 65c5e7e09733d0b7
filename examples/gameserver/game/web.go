package game

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/feed"
	"github.com/evtlog/evtlog/runtime"
)

//go:embed index.html
var page []byte

// maxBody is the largest request body in bytes.
const maxBody = 4 << 10

// Handler serves the game over HTTP:
//
//	GET  /                          a page to play on
//	POST /rounds                    open a round → {"round"}
//	POST /rounds/{round}/guesses    {"player","code"} → 202 {"id"}
//	GET  /rounds/{round}/replay     the facts of a round, one JSON object a line
//	GET  /players/{player}/notices  what a player was told
//	GET  /live                      announcements as server-sent events
func (g *Game) Handler(rt *runtime.Runtime) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	})
	mux.HandleFunc("POST /rounds", g.postRound)
	mux.HandleFunc("POST /rounds/{round}/guesses", g.postGuess)
	mux.HandleFunc("GET /rounds/{round}/replay", g.getReplay)
	mux.HandleFunc("GET /players/{player}/notices", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, g.Notices(r.PathValue("player")))
	})
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, r *http.Request) { g.live(rt, w, r) })
	return mux
}

func (g *Game) postRound(w http.ResponseWriter, r *http.Request) {
	round, err := g.Open(r.Context(), Deal(rand.IntN))
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusCreated, map[string]string{"round": round})
}

func (g *Game) postGuess(w http.ResponseWriter, r *http.Request) {
	var in struct{ Player, Code string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in); err != nil {
		http.Error(w, fmt.Sprintf("the body must be {\"player\",\"code\"}: %v", err), http.StatusBadRequest)
		return
	}
	code, err := ParseCode(in.Code)
	if err != nil || in.Player == "" {
		http.Error(w, fmt.Sprintf("a guess needs a player and a code: %v", err), http.StatusBadRequest)
		return
	}
	id, err := g.Guess(r.Context(), r.PathValue("round"), in.Player, code)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusAccepted, map[string]evtid.ID{"id": id})
}

// Fact is one line of a replay.
type Fact struct {
	ID     evtid.ID          `json:"id"`
	At     time.Time         `json:"at"`
	Source string            `json:"source"`
	Fields map[string]string `json:"fields"`
}

// ErrUnknownRound: no such round was opened.
var ErrUnknownRound = errors.New("unknown round")

// Replay reads the facts of a round in mint order: the feed between its opening
// and its settling, from archive and live stream as one. Rounds that were played
// at the same time are left out.
func (g *Game) Replay(ctx context.Context, round string) (iter.Seq2[Fact, error], error) {
	g.mu.Lock()
	w, known := g.table.Window(round)
	g.mu.Unlock()
	if !known {
		return nil, fmt.Errorf("%w %q", ErrUnknownRound, round)
	}
	return func(yield func(Fact, error) bool) {
		for r, err := range g.feed.Read(ctx, w) {
			if err != nil {
				yield(Fact{}, err)
				return
			}
			if name, _ := r.Get("round"); name == round && !yield(factOf(r), nil) {
				return
			}
		}
	}, nil
}

func factOf(r evtlog.Record) Fact {
	f := Fact{ID: r.ID, At: r.ID.Time(), Source: r.Source.String(), Fields: map[string]string{}}
	for _, field := range r.Fields {
		f.Fields[field.Name] = field.Value
	}
	return f
}

func (g *Game) getReplay(w http.ResponseWriter, r *http.Request) {
	facts, err := g.Replay(r.Context(), r.PathValue("round"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	enc := json.NewEncoder(w)
	for f, err := range facts {
		if err != nil {
			// The status line is gone: the broken-off body is the signal.
			panic(http.ErrAbortHandler)
		}
		if enc.Encode(f) != nil {
			return
		}
	}
}

// live passes announcements on as server-sent events.
func (g *Game) live(rt *runtime.Runtime, w http.ResponseWriter, r *http.Request) {
	events, err := rt.Subscribe(r.Context(), g.opts.Queue)
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	if out.Flush() != nil {
		return
	}
	for a, err := range events {
		if err != nil {
			continue // at-most-once: the next announcement tells what is new
		}
		if writeEvent(w, a) != nil || out.Flush() != nil {
			return
		}
	}
}

func writeEvent(w http.ResponseWriter, a feed.Announcement) error {
	fields := map[string]string{"event": a.Event, "job": a.Job}
	for _, f := range a.Extra {
		fields[f.Name] = f.Value
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "id: %s\ndata: %s\n\n", a.ID, data)
	return err
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// writeError answers a failed append. An uncertain one is not an error of the
// client's: it must not be sent again under a new id.
func writeError(w http.ResponseWriter, err error) {
	var uncertain *evtlog.UncertainError
	if errors.As(err, &uncertain) {
		writeJSON(w, http.StatusAccepted, map[string]any{"id": uncertain.ID, "uncertain": true})
		return
	}
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}
