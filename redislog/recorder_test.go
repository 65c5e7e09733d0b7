package redislog

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"slices"
	"strings"
	"sync"
)

// recorder is a Dialer that keeps every command that is sent, in order.
type recorder struct {
	mu       sync.Mutex
	commands [][]string
}

func (r *recorder) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &recorded{Conn: conn, r: r}, nil
}

type recorded struct {
	net.Conn
	r    *recorder
	rest []byte // of a command that was written in pieces
}

func (c *recorded) Write(b []byte) (int, error) {
	c.r.mu.Lock()
	c.rest = append(c.rest, b...)
	for {
		in := bytes.NewReader(c.rest)
		buffered := bufio.NewReader(in)
		words, err := readCommand(buffered)
		if err != nil {
			break
		}
		c.rest = c.rest[len(c.rest)-in.Len()-buffered.Buffered():]
		c.r.commands = append(c.r.commands, words)
	}
	c.r.mu.Unlock()
	return c.Conn.Write(b)
}

// take returns what was sent since the last time, without what sets a connection
// up.
func (r *recorder) take() [][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := slices.DeleteFunc(r.commands, func(words []string) bool {
		return slices.Contains([]string{"AUTH", "CLIENT", "SELECT", "PING", "INFO"}, words[0]) || strings.HasPrefix(words[min(1, len(words)-1)], "{emq}")
	})
	r.commands = nil
	return sent
}
