package main

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/oklog/ulid/v2"
)

// ulidStrings makes monotonic ids and writes each as a string.
func ulidStrings(_ context.Context, j job) (Result, error) {
	entropy := ulid.Monotonic(rand.Reader, 0)
	var last string
	return timed(j.records, nil, func() error {
		for range j.records {
			id, err := ulid.New(ulid.Timestamp(time.Now()), entropy)
			if err != nil {
				return err
			}
			last = id.String()
		}
		_ = last
		return nil
	})
}
