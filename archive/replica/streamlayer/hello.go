// Package streamlayer carries raft's connections between nodes: TCP or mutual
// TLS, each opened by a handshake in which both ends say which cluster they
// belong to. Nodes of different clusters never exchange a raft message, even
// when their addresses were mixed up.
package streamlayer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/evtlog/evtlog/archive/replica/api"
)

// Layout of the handshake; docs/formats/replication.md describes it.
const (
	helloMagic   = "EVTR"
	helloVersion = 1
	maxText      = 1 << 10
)

// errHandshake: the other side does not speak this protocol.
var errHandshake = errors.New("replica: raft handshake failed")

func appendHello(b []byte, id api.Identity) []byte {
	b = append(b, helloMagic...)
	b = append(b, helloVersion)
	b = appendText(b, id.Cluster)
	return appendText(b, id.Incarnation)
}

func readHello(r io.Reader) (api.Identity, error) {
	head := make([]byte, len(helloMagic)+1)
	if _, err := io.ReadFull(r, head); err != nil {
		return api.Identity{}, fmt.Errorf("%w: %w", errHandshake, err)
	}
	if string(head[:len(helloMagic)]) != helloMagic || head[len(helloMagic)] != helloVersion {
		return api.Identity{}, fmt.Errorf("%w: the other side does not speak version %d of this protocol", errHandshake, helloVersion)
	}
	cluster, err := readText(r)
	if err != nil {
		return api.Identity{}, err
	}
	incarnation, err := readText(r)
	return api.Identity{Cluster: cluster, Incarnation: incarnation}, err
}

// The answer is the acceptor's identity followed by a text: empty for welcome,
// else why not.
func appendAnswer(b []byte, id api.Identity, refusal string) []byte {
	if len(refusal) > maxText {
		refusal = refusal[:maxText]
	}
	return appendText(appendHello(b, id), refusal)
}

func readAnswer(r io.Reader) (api.Identity, string, error) {
	id, err := readHello(r)
	if err != nil {
		return id, "", err
	}
	refusal, err := readText(r)
	return id, refusal, err
}

func appendText(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

func readText(r io.Reader) (string, error) {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return "", fmt.Errorf("%w: %w", errHandshake, err)
	}
	n := binary.BigEndian.Uint16(size[:])
	if n > maxText {
		return "", fmt.Errorf("%w: a text of %d bytes", errHandshake, n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return "", fmt.Errorf("%w: %w", errHandshake, err)
	}
	return string(b), nil
}
