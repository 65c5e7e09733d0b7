package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/evtid"
)

func sample(volumes int) Manifest {
	m := Manifest{Identity: api.Identity{Cluster: "c", Incarnation: "i"}, Source: "h:1,h:2"}
	for i := range volumes {
		m.Volumes = append(m.Volumes, Volume{
			Stream: evtlog.StreamName{Queue: "cm", Name: fmt.Sprintf("s%05d", i)}, LSN: uint64(i + 1), Count: 100,
			Watermark: evtid.Max, Chain: [32]byte{byte(i), 1}, RaftIndex: 9, RaftTerm: 2,
		})
	}
	return m
}

func TestManifestComesBack(t *testing.T) {
	for _, n := range []int{0, 1, 3, 2000} {
		m := sample(n)
		b := m.Encode()
		if len(b)%PadTo != 0 {
			t.Errorf("%d volumes take %d bytes, which is not padded", n, len(b))
		}
		got, err := Decode(b)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(m) {
			t.Errorf("%d volumes: %v", n, err)
		}
	}
	if n := len(sample(3).Encode()); n != PadTo {
		t.Errorf("a small manifest takes %d bytes", n)
	}
}

func TestEveryFlippedByteIsNoticed(t *testing.T) {
	good := sample(2).Encode()
	used := bytes.LastIndexFunc(good, func(r rune) bool { return r != 0 }) + 1
	for i := range used {
		b := bytes.Clone(good)
		b[i] ^= 0x10
		if _, err := Decode(b); !errors.Is(err, ErrBad) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
	}
	for _, n := range []int{0, 5, headerSize, headerSize + 4} {
		if _, err := Decode(good[:n]); !errors.Is(err, ErrBad) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(sample(1).Encode()[:300])
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = Decode(b) })
}

func TestSort(t *testing.T) {
	m := sample(3)
	m.Volumes[0], m.Volumes[2] = m.Volumes[2], m.Volumes[0]
	m.Sort()
	if fmt.Sprint(m) != fmt.Sprint(sample(3)) {
		t.Errorf("%v", m.Volumes)
	}
}

func TestMissing(t *testing.T) {
	m := sample(1)
	s, chain := m.Volumes[0].Stream, m.Volumes[0].Chain
	m.Volumes[0].LSN = 10
	for _, c := range []struct {
		name string
		have map[evtlog.StreamName]Have
		want []Gap
	}{
		{"nothing here", nil, []Gap{{Want: m.Volumes[0]}}},
		{"behind", map[evtlog.StreamName]Have{s: {LSN: 4}}, []Gap{{Want: m.Volumes[0], After: 4}}},
		{"covered", map[evtlog.StreamName]Have{s: {LSN: 10, Chain: chain}}, nil},
		{"ahead", map[evtlog.StreamName]Have{s: {LSN: 30, Chain: chain}}, nil},
		{"diverged", map[evtlog.StreamName]Have{s: {LSN: 30}}, []Gap{{Want: m.Volumes[0], Diverged: true}}},
	} {
		if got := Missing(m, c.have); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
