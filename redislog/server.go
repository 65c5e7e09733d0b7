package redislog

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/evtlog/evtlog/keyspace"
)

// ServerInfo describes the server. What it does not tell, or does not let this
// user ask, is "" or -1.
type ServerInfo struct {
	// Version is such as "7.0.15", Mode "standalone" or "cluster", Role "master"
	// or "slave".
	Version, Mode, Role string
	// Replicas is the number of connected replicas.
	Replicas int64
	// AppendOnly and AppendFsync are the settings of the append-only file, Save
	// that of snapshots ("" is none or unknown).
	AppendOnly, AppendFsync, Save string
	// MaxMemory is the limit in bytes, 0 for none; MaxMemoryPolicy what happens
	// there.
	MaxMemory       int64
	MaxMemoryPolicy string
	// NodeBytes and NodeEntries are stream-node-max-bytes and -entries.
	NodeBytes, NodeEntries int64
	// Warnings name what endangers the log on this server, and the remedy.
	Warnings []string
}

// serverSettings are the CONFIG parameters that matter here.
var serverSettings = []string{"appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy", "stream-node-max-bytes", "stream-node-max-entries"}

// Server describes the server, with warnings about settings that can lose or
// corrupt streams. What cannot be asked is left out; the error is about the
// connection only.
func (c *Client) Server(ctx context.Context) (info ServerInfo, err error) {
	err = c.with(ctx, "INFO", func(s *session) error {
		cmds := []command{{"INFO", "server"}, {"INFO", "replication"}, {"INFO", "memory"}}
		for _, name := range serverSettings {
			cmds = append(cmds, command{"CONFIG", "GET", name})
		}
		replies, err := s.pipeline(cmds...)
		if err != nil {
			return err
		}
		settings := map[string]string{}
		// A server that lets nobody see its CONFIG, as hosted ones do, tells these two
		// all the same.
		memory, _ := redis.String(replies[2], nil)
		for setting, field := range map[string]string{"maxmemory": "maxmemory", "maxmemory-policy": "maxmemory_policy"} {
			settings[setting] = infoField(memory, field)
		}
		for i, name := range serverSettings {
			if value, err := redis.String(flatMap(replies[3+i])[name], nil); err == nil {
				settings[name] = value
			}
		}
		server, _ := redis.String(replies[0], nil)
		replication, _ := redis.String(replies[1], nil)
		info = describe(server, replication, settings)
		return nil
	})
	return info, err
}

// Clock returns how far the server's clock is ahead of this machine's, negative when
// it is behind; half of the round trip is the error.
func (c *Client) Clock(ctx context.Context) (ahead time.Duration, err error) {
	began := time.Now()
	err = c.ask(ctx, "TIME", command{"TIME"}, func(reply any) error {
		parts, err := redis.Int64s(reply, nil)
		if err != nil || len(parts) != 2 {
			return protocolError("the time is not seconds and microseconds")
		}
		middle := began.Add(time.Since(began) / 2)
		ahead = time.Unix(parts[0], parts[1]*1000).Sub(middle)
		return nil
	})
	return ahead, err
}

// describe puts the answers together.
func describe(server, replication string, settings map[string]string) ServerInfo {
	info := ServerInfo{
		Version: infoField(server, "redis_version"), Mode: infoField(server, "redis_mode"),
		Role: infoField(replication, "role"), Replicas: number(infoField(replication, "connected_slaves")),
		AppendOnly: settings["appendonly"], AppendFsync: settings["appendfsync"], Save: settings["save"],
		MaxMemory: number(settings["maxmemory"]), MaxMemoryPolicy: settings["maxmemory-policy"],
		NodeBytes: number(settings["stream-node-max-bytes"]), NodeEntries: number(settings["stream-node-max-entries"]),
	}
	info.Warnings = warnings(info)
	return info
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// The smallest node settings that are not warned about. Redis' defaults are 4096
// bytes and 100 entries; 0 is no limit.
const (
	minNodeBytes   = 1024
	minNodeEntries = 10
)

// warnings is the table of settings that endanger a log.
func warnings(i ServerInfo) []string {
	v, _ := parseVersion(i.Version)
	var list []string
	for _, row := range []struct {
		bad  bool
		text string
	}{
		{i.Version == "", "the server does not tell its version: known faults of old versions are not ruled out"},
		{!v.less(version{8, 0, 0}), "this version can write a snapshot that it cannot load after XDEL and XTRIM MINID met in one stream: never use XDEL on a log"},
		{i.Mode == "cluster", "the server is a node of a Redis Cluster, which is not supported: use a single primary"},
		{i.Role == "slave", "the server is a replica: appends are refused there, point the URL at the primary"},
		{i.AppendOnly == "no" && i.Save == "", "nothing is persisted: a restart of the server loses what is not archived; set appendonly yes"},
		{strings.HasPrefix(i.MaxMemoryPolicy, "allkeys-") && i.MaxMemory != 0, fmt.Sprintf("maxmemory-policy %s evicts whole streams with their groups: set noeviction", i.MaxMemoryPolicy)},
		{strings.HasPrefix(i.MaxMemoryPolicy, "volatile-") && i.MaxMemory != 0, fmt.Sprintf("maxmemory-policy %s evicts leases, and two members may then hold one name: set noeviction", i.MaxMemoryPolicy)},
		{i.NodeBytes > 0 && i.NodeBytes < minNodeBytes, fmt.Sprintf("stream-node-max-bytes %d is too small and can abort the server: set 4096 or more", i.NodeBytes)},
		{i.NodeEntries > 0 && i.NodeEntries < minNodeEntries, fmt.Sprintf("stream-node-max-entries %d makes streams slow and large: set 100", i.NodeEntries)},
	} {
		if row.bad {
			list = append(list, row.text)
		}
	}
	return list
}

// Streams lists the names of the streams of a queue, in order. Own helper keys
// are left out, dead-letter streams are listed. It scans the whole database
// without blocking it; a stream made or deleted meanwhile may or may not be
// listed.
func (c *Client) Streams(ctx context.Context, queue string) ([]string, error) {
	if err := keyspace.CheckQueue(queue); err != nil {
		return nil, err
	}
	prefix := "emq:{" + queue + "}:stream:"
	keys, err := c.scan(ctx, escapeGlob(prefix)+"*", "TYPE", "stream")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, key := range keys {
		name := strings.TrimPrefix(key, prefix)
		if _, err := keyspace.NewStream(queue, name); err == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// scan lists the keys that match a pattern, in order and each once.
func (c *Client) scan(ctx context.Context, pattern string, filter ...any) ([]string, error) {
	var found []string
	for cursor := "0"; ; {
		cmd := append(command{"SCAN", cursor, "MATCH", pattern, "COUNT", 1000}, filter...)
		err := c.ask(ctx, "SCAN "+pattern, cmd, func(reply any) (err error) {
			parts, _ := reply.([]any)
			if len(parts) != 2 {
				return protocolError("not a cursor and keys")
			}
			if cursor, err = word(parts[0]); err != nil {
				return err
			}
			keys, err := words(parts[1])
			found = append(found, keys...)
			return err
		})
		if err != nil {
			return nil, err
		}
		if cursor == "0" {
			slices.Sort(found)
			return slices.Compact(found), nil
		}
	}
}

// escapeGlob makes a MATCH pattern that matches s alone. The braces of a hash tag
// have no meaning in it.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
