package publisher

import (
	"testing"

	"github.com/evtlog/evtlog/evtid"
)

func TestDecide(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    sight
		want step
	}{
		{"there, as sent", sight{Found: true, Same: true, Passed: true}, commit},
		{"there, but another record", sight{Found: true, Passed: true}, rejectOther},
		{"absent above the top", sight{}, resend},
		{"absent above the top, whatever the archive said before", sight{Archive: missing}, resend},
		{"absent below the top", sight{Passed: true}, askArchive},
		{"archived as sent", sight{Passed: true, Archive: same}, commit},
		{"archived, but another record", sight{Passed: true, Archive: different}, rejectOther},
		{"nowhere", sight{Passed: true, Archive: missing}, reject},
		{"no archive", sight{Passed: true, Archive: noArchive}, askHorizon},
		{"no archive, an older one is live", sight{Passed: true, Archive: noArchive, Horizon: below}, reject},
		{"no archive, all that is live is newer", sight{Passed: true, Archive: noArchive, Horizon: past}, unknowable},
	} {
		if got := decide(tc.s); got != tc.want {
			t.Errorf("%s: step %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestArrive(t *testing.T) {
	id := func(n uint64) evtid.ID {
		if n == 0 {
			return evtid.ID{}
		}
		v, err := evtid.FromSnowflake(n)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, tc := range []struct {
		name                     string
		first                    bool
		top, mark, known, minted uint64
		seed, nowKnown           uint64
		wantSecond, wantLost     bool
	}{
		{name: "an empty stream", first: true},
		{name: "a stream with history", first: true, top: 50, mark: 40, seed: 50, nowKnown: 50},
		{name: "a deleted stream with an archive", first: true, mark: 40, seed: 40, nowKnown: 40},
		{name: "as it was left", top: 50, known: 50, minted: 50, seed: 50, nowKnown: 50},
		{name: "answers were lost, the records arrived", top: 53, known: 50, minted: 55, seed: 53, nowKnown: 50},
		{name: "answers were lost, nothing arrived", top: 50, known: 50, minted: 55, seed: 50, nowKnown: 50},
		{name: "someone else wrote", top: 60, known: 50, minted: 55, seed: 60, nowKnown: 60, wantSecond: true},
		{name: "someone else wrote before this one did", top: 60, known: 50, seed: 60, nowKnown: 60, wantSecond: true},
		{name: "records are gone", top: 45, known: 50, minted: 55, seed: 45, nowKnown: 45, wantLost: true},
		{name: "the stream is gone", known: 50, minted: 55, wantLost: true},
		{name: "the stream is gone, part of it archived", mark: 30, known: 50, minted: 50, seed: 30, nowKnown: 30, wantLost: true},
		{name: "the stream is gone, all of it archived", mark: 50, known: 50, minted: 50, seed: 50, nowKnown: 50},
	} {
		got := arrive(arrival{First: tc.first, Top: id(tc.top), Watermark: id(tc.mark), Known: id(tc.known), Minted: id(tc.minted)})
		want := bearing{Seed: id(tc.seed), Known: id(tc.nowKnown), Second: tc.wantSecond, Lost: tc.wantLost}
		if got != want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, want)
		}
	}
}

func TestFlushSize(t *testing.T) {
	for _, tc := range []struct{ queued, flying, want int }{
		{0, 0, 0}, {1, 0, 1}, {worthHalving - 1, 0, worthHalving - 1},
		{worthHalving, 0, worthHalving / 2}, {worthHalving + 1, 0, worthHalving/2 + 1},
		{worthHalving, 1, worthHalving}, {10_000, 0, 300}, {10_000, 2, 300},
	} {
		if got := flushSize(tc.queued, tc.flying, 300); got != tc.want {
			t.Errorf("flushSize(%d, %d) = %d, want %d", tc.queued, tc.flying, got, tc.want)
		}
	}
}
