package api

import (
	"fmt"
	"net"
	"strings"
)

// Address is where a node is reached: its raft port and its HTTP port, as
// "raft-host:port,http-host:port". Hosts may be DNS names. Both travel as one
// string so that the membership, which raft replicates, carries them together:
// an address changes in one step and no second directory can disagree.
type Address struct {
	Raft, HTTP string
}

// String returns the form that ParseAddress reads.
func (a Address) String() string { return a.Raft + "," + a.HTTP }

// ParseAddress reads the form of String. The error wraps ErrBadRequest.
func ParseAddress(s string) (Address, error) {
	raft, http, ok := strings.Cut(s, ",")
	if !ok {
		return Address{}, fmt.Errorf("replica: %w: address %q is not of the form raft-host:port,http-host:port", ErrBadRequest, s)
	}
	for _, part := range []string{raft, http} {
		if err := CheckHostPort(part); err != nil {
			return Address{}, err
		}
	}
	return Address{Raft: raft, HTTP: http}, nil
}

// CheckHostPort reports whether s is a host and a port that others can dial.
// The error wraps ErrBadRequest.
func CheckHostPort(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("replica: %w: address %q: %w", ErrBadRequest, s, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("replica: %w: address %q cannot be dialled by others; give the host's name", ErrBadRequest, s)
	}
	if port == "" || port == "0" {
		return fmt.Errorf("replica: %w: address %q has no port", ErrBadRequest, s)
	}
	return nil
}

// IsLoopback reports whether a listen address is reachable from this host only.
// A name other than localhost is taken to be reachable from elsewhere.
func IsLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
