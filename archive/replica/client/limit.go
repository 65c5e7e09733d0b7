package client

import (
	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
)

var _ archive.Limited = (*Client)(nil)

// MaxRecordBytes implements archive.Limited: a fold travels as one entry of the
// replicated log, and an entry has a largest size.
func (c *Client) MaxRecordBytes() int { return evtlog.DefaultMaxRecordBytes }
