package redislog_test

import (
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/redislog"
)

// The archive's reader declares what it needs of the live stream. Only the test
// imports it: redislog itself knows no archive.
var _ archive.Live = (*redislog.Log)(nil)
