package streamlayer

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/evtlog/evtlog/archive/replica/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func layer(t *testing.T, id api.Identity) *Layer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := api.Address{Raft: l.Addr().String(), HTTP: "127.0.0.1:1"}
	out := New(Config{Listener: l, Advertise: addr, Identity: func() api.Identity { return id }, HandshakeTimeout: 500 * time.Millisecond})
	t.Cleanup(func() { _ = out.Close() })
	return out
}

func TestHandshake(t *testing.T) {
	a := layer(t, api.Identity{Cluster: "c", Incarnation: "1"})
	for _, c := range []struct {
		name string
		id   api.Identity
		ok   bool
	}{
		{"same", api.Identity{Cluster: "c", Incarnation: "1"}, true},
		{"not told yet", api.Identity{Cluster: "c"}, true},
		{"another cluster", api.Identity{Cluster: "d", Incarnation: "1"}, false},
		{"another incarnation", api.Identity{Cluster: "c", Incarnation: "2"}, false},
	} {
		b := layer(t, c.id)
		conn, err := b.Dial(raft.ServerAddress(a.Addr().String()), time.Second)
		if !c.ok {
			if !errors.Is(err, api.ErrForeignCluster) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		peer, err := a.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("hi")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 2)
		if _, err := io.ReadFull(peer, got); err != nil || string(got) != "hi" {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// A connection that says nothing, or rubbish, does not hold up the others.
func TestSilentConnectionsDoNotHoldUp(t *testing.T) {
	id := api.Identity{Cluster: "c", Incarnation: "1"}
	a, b := layer(t, id), layer(t, id)
	for _, say := range []string{"", "GET / HTTP/1.1\r\n\r\n"} {
		for range 5 {
			c, err := net.Dial("tcp", a.cfg.Advertise.Raft)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, say); err != nil {
				t.Fatal(err)
			}
		}
	}
	began := time.Now()
	if _, err := b.Dial(raft.ServerAddress(a.Addr().String()), time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Accept(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d > 400*time.Millisecond {
		t.Errorf("accepted after %s", d)
	}
}

func TestCloseEndsConnections(t *testing.T) {
	id := api.Identity{Cluster: "c"}
	a, b := layer(t, id), layer(t, id)
	conn, err := b.Dial(raft.ServerAddress(a.Addr().String()), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Accept(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlived its layer")
	}
}

func FuzzHello(f *testing.F) {
	f.Add(appendHello(nil, api.Identity{Cluster: "c", Incarnation: "1"}))
	f.Add(appendAnswer(nil, api.Identity{Cluster: "c"}, "no"))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := readHello(bytes.NewReader(b))
		if err == nil && !bytes.HasPrefix(b, appendHello(nil, id)) {
			t.Errorf("%x reads as something else", b)
		}
	})
}
