package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// lagView is how far a group is behind. What could not be proved is null, and
// unknown says why.
type lagView struct {
	Entries  *int64   `json:"entries"`
	BehindMS *int64   `json:"behind_ms"`
	Oldest   evtid.ID `json:"oldest"`
	Unknown  string   `json:"unknown,omitempty"`
	// Holder is the member that has the oldest pending entry.
	Holder string `json:"holder,omitempty"`
	// Skipped are the ranges that were trimmed before the group was done with them.
	Skipped []string `json:"skipped"`
}

func viewLag(l runtime.Lag) lagView {
	v := lagView{Unknown: l.Why, Holder: l.Holder, Skipped: []string{}}
	if l.Known {
		v.Entries = &l.Entries
	}
	if l.OldestKnown {
		ms := l.Behind.Milliseconds()
		v.BehindMS, v.Oldest = &ms, l.Oldest
	}
	for _, r := range l.Skipped {
		v.Skipped = append(v.Skipped, rangeText(r))
	}
	return v
}

// cells are the two columns of a table.
func (v lagView) cells() (entries, behind string) {
	entries, behind = "unknown", "unknown"
	if v.Entries != nil {
		entries = fmt.Sprint(*v.Entries)
	}
	if v.BehindMS != nil {
		behind = (time.Duration(*v.BehindMS) * time.Millisecond).String()
	}
	return entries, behind
}

// loadLags measures all groups of a stream.
func loadLags(ctx context.Context, log *redislog.Log, join *joinFlags) (lags map[string]lagView, err error) {
	arch, shut, err := join.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shut()) }()
	list, err := runtime.GroupLags(ctx, log, arch)
	lags = map[string]lagView{}
	for _, l := range list {
		lags[l.Group] = viewLag(l)
	}
	return lags, err
}
