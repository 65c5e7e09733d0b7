package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// xadd are the arguments of one append; '*' lets the server choose the id.
func xadd(key string) []any {
	args := []any{key, "*", "id", "EVT0KHTOWnGLuC"}
	for i := range names {
		args = append(args, names[i], values[i])
	}
	return args
}

// redigoLone appends one after the other, each with its own round trip.
func redigoLone(_ context.Context, j job) (Result, error) {
	conn, err := redis.Dial("tcp", j.redis)
	if err != nil {
		return Result{}, err
	}
	defer conn.Close()
	args := xadd(j.stream)
	return called(j.records, 1, func() error {
		_, err := redis.String(conn.Do("XADD", args...))
		return err
	})
}

// batch is how many appends go out together.
const batch = 256

// redigoAppend appends with Send, Flush, Receive, one batch after the other.
func redigoAppend(_ context.Context, j job) (Result, error) {
	conn, err := redis.Dial("tcp", j.redis)
	if err != nil {
		return Result{}, err
	}
	defer conn.Close()
	records := j.records / batch * batch
	return timed(records, nil, func() error { return appendBatches(conn, j.stream, records) })
}

func appendBatches(conn redis.Conn, key string, records int) error {
	for at := 0; at < records; at += batch {
		for range batch {
			if err := conn.Send("XADD", xadd(key)...); err != nil {
				return err
			}
		}
		if err := conn.Flush(); err != nil {
			return err
		}
		for range batch {
			if _, err := redis.String(conn.Receive()); err != nil {
				return err
			}
		}
	}
	return nil
}

// redigoConsume reads 100 at a time; the acknowledgement of a batch rides with
// the next read.
func redigoConsume(_ context.Context, j job) (Result, error) {
	conn, err := redis.Dial("tcp", j.redis)
	if err != nil {
		return Result{}, err
	}
	defer conn.Close()
	records := j.records / batch * batch
	if err := appendBatches(conn, j.stream, records); err != nil {
		return Result{}, err
	}
	if _, err := conn.Do("XGROUP", "CREATE", j.stream, "g", "0"); err != nil {
		return Result{}, err
	}
	return timed(records, nil, func() error {
		ack := []any{j.stream, "g"}
		for seen := 0; ; {
			riding := len(ack) > 2
			if riding {
				if err := conn.Send("XACK", ack...); err != nil {
					return err
				}
			}
			if err := conn.Send("XREADGROUP", "GROUP", "g", "c", "COUNT", 100, "STREAMS", j.stream, ">"); err != nil {
				return err
			}
			if err := conn.Flush(); err != nil {
				return err
			}
			if riding {
				if _, err := conn.Receive(); err != nil {
					return err
				}
			}
			entries, err := streamEntries(conn.Receive())
			if err == redis.ErrNil && seen == records {
				return nil
			}
			if err != nil {
				return err
			}
			seen += len(entries)
			ack = ack[:2]
			for _, e := range entries {
				ack = append(ack, e.id)
			}
		}
	})
}

// entry is one decoded entry.
type entry struct {
	id     string
	fields []string
}

// streamEntries decodes a reply of XREADGROUP on one stream.
func streamEntries(reply any, err error) ([]entry, error) {
	streams, err := redis.Values(reply, err)
	if err != nil {
		return nil, err
	}
	stream, err := redis.Values(streams[0], nil)
	if err != nil {
		return nil, err
	}
	return entries(stream[1], nil)
}

// entries decodes a reply of XRANGE.
func entries(reply any, err error) ([]entry, error) {
	items, err := redis.Values(reply, err)
	if err != nil {
		return nil, err
	}
	out := make([]entry, len(items))
	for i, item := range items {
		pair, err := redis.Values(item, nil)
		if err != nil {
			return nil, err
		}
		if out[i].id, err = redis.String(pair[0], nil); err != nil {
			return nil, err
		}
		if out[i].fields, err = redis.Strings(pair[1], nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// redigoReplay reads the whole stream in pages of 1,000.
func redigoReplay(_ context.Context, j job) (Result, error) {
	conn, err := redis.Dial("tcp", j.redis)
	if err != nil {
		return Result{}, err
	}
	defer conn.Close()
	return timed(j.records, nil, func() error {
		seen := 0
		for from := "-"; ; {
			page, err := entries(conn.Do("XRANGE", j.stream, from, "+", "COUNT", 1000))
			if err != nil {
				return err
			}
			seen += len(page)
			if len(page) < 1000 {
				break
			}
			from = "(" + page[len(page)-1].id
		}
		if seen != j.records {
			return fmt.Errorf("read %d of %d records", seen, j.records)
		}
		return nil
	})
}

// pause lies between two lone entries, so that the reader is parked again.
const pause = time.Millisecond

// redigoEndToEnd measures from the append of a lone entry to the moment at which
// a reader that was blocked has decoded it.
func redigoEndToEnd(_ context.Context, j job) (Result, error) {
	writer, err := redis.Dial("tcp", j.redis)
	if err != nil {
		return Result{}, err
	}
	defer writer.Close()
	reader, err := redis.Dial("tcp", j.redis)
	if err != nil {
		return Result{}, err
	}
	defer reader.Close()
	if _, err := writer.Do("XGROUP", "CREATE", j.stream, "g", "$", "MKSTREAM"); err != nil {
		return Result{}, err
	}
	seen, failed := make(chan time.Time), make(chan error, 1)
	go func() {
		for range j.records {
			got, err := streamEntries(reader.Do("XREADGROUP", "GROUP", "g", "c", "COUNT", 100, "BLOCK", 1000, "STREAMS", j.stream, ">"))
			if err != nil {
				failed <- err
				return
			}
			seen <- time.Now()
			if _, err := reader.Do("XACK", j.stream, "g", got[0].id); err != nil {
				failed <- err
				return
			}
		}
	}()
	latencies := make([]time.Duration, j.records)
	return timed(j.records, latencies, func() error {
		for i := range latencies {
			time.Sleep(pause)
			start := time.Now()
			if _, err := writer.Do("XADD", xadd(j.stream)...); err != nil {
				return err
			}
			select {
			case at := <-seen:
				latencies[i] = at.Sub(start)
			case err := <-failed:
				return err
			}
		}
		return nil
	})
}
