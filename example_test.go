package evtlog_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// A handler has one shape for work and for streams. It is idempotent: the id of
// the delivery is the key to deduplicate on.
func ExampleHandler() {
	sent := map[evtid.ID]bool{}
	var notify evtlog.Handler = func(ctx context.Context, d evtlog.Delivery) error {
		if sent[d.ID] {
			return nil // acknowledged again, done once
		}
		player, ok := d.Get("player")
		if !ok {
			return errors.New("no player in the record") // stays pending, offered again later
		}
		fmt.Printf("attempt %d: %s was beaten\n", d.Attempts, player)
		sent[d.ID] = true
		return nil
	}

	id, _ := evtid.Parse("EVT0KHTOWnGLuC")
	record := evtlog.Record{ID: id, Fields: []evtlog.Field{evtlog.F("event", "scored"), evtlog.F("player", "ada")}}
	for attempt := 1; attempt <= 2; attempt++ {
		fmt.Println(notify(context.Background(), evtlog.Delivery{Record: record, Group: "notify", Attempts: attempt}))
	}
	// Output:
	// attempt 1: ada was beaten
	// <nil>
	// <nil>
}

func ExampleBetween() {
	opened := time.Date(2025, 6, 11, 14, 30, 0, 0, time.UTC)
	settled := opened.Add(2 * time.Minute)
	w, err := evtlog.Between(opened, settled)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("after", w.After, "to", w.To)

	_, err = evtlog.Between(settled, opened)
	fmt.Println(errors.Is(err, evtlog.ErrBadWindow), err)
	// Output:
	// after EVT0E7gWWmS7Rv to EVT0E7gfOB4NJv
	// true evtlog: window to 2025-06-11T14:30:00Z refused: it is before from, 2025-06-11T14:32:00Z
}

func ExampleCheckFields() {
	fmt.Println(evtlog.CheckFields([]evtlog.Field{evtlog.F("event", "scored"), evtlog.F("id", "7")}, 0))
	// Output: evtlog: field 1 "id" refused: the name is reserved for the event id; choose another
}

func ExampleKeep_Check() {
	fmt.Println(evtlog.KeepLast(10_000).Check())
	fmt.Println(evtlog.Keep{Last: 10_000, For: time.Hour}.Check())
	// Output:
	// <nil>
	// evtlog: retention Last and For together refused: give only one of them
}

// The caller of an append learns one of three things.
func ExampleUncertainError() {
	report := func(id evtid.ID, err error) {
		var rejected *evtlog.RejectedError
		var uncertain *evtlog.UncertainError
		switch {
		case err == nil:
			fmt.Println("committed", id)
		case errors.As(err, &uncertain):
			fmt.Println("ask Resolve later for", uncertain.ID)
		case errors.As(err, &rejected):
			fmt.Println("not written:", rejected.Err)
		}
	}
	id, _ := evtid.Parse("EVT0KHTOWnGLuC")
	report(id, nil)
	report(id, &evtlog.RejectedError{ID: id, Err: evtlog.ErrOutOfMemory})
	report(id, &evtlog.UncertainError{ID: id, Err: context.DeadlineExceeded})
	// Output:
	// committed EVT0KHTOWnGLuC
	// not written: redis is out of memory
	// ask Resolve later for EVT0KHTOWnGLuC
}

// A handler that knows better than the back-off says so in its error.
func ExampleRetryAfter() {
	var notify evtlog.Handler = func(ctx context.Context, d evtlog.Delivery) error {
		switch mail, _ := d.Get("mail"); mail {
		case "":
			return evtlog.Dead("the record has no mail address")
		case "busy@example.org":
			return evtlog.RetryAfter(time.Minute, errors.New("the mail server asks to come back later"))
		}
		return nil
	}

	for _, fields := range [][]evtlog.Field{{evtlog.F("mail", "busy@example.org")}, {evtlog.F("event", "scored")}} {
		err := notify(context.Background(), evtlog.Delivery{Record: evtlog.Record{Fields: fields}})
		var retry *evtlog.RetryError
		var dead *evtlog.DeadError
		switch {
		case errors.As(err, &retry):
			fmt.Printf("again in %s: %v\n", retry.After, err)
		case errors.As(err, &dead):
			fmt.Println("to the dead stream:", dead.Reason)
		}
	}
	// Output:
	// again in 1m0s: the mail server asks to come back later
	// to the dead stream: the record has no mail address
}
