// Package portable writes an archive to one file and reads it back: a backup
// that was taken while folding went on, or the way from one cluster to another.
//
// The file holds the commits as they are stored, each with its checksum, the
// chain of each volume, and a hash over everything at the end.
// docs/formats/export.md describes every byte. The package does not link raft.
package portable

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/volume"
)

// ErrBadFile: the file is no export, is damaged, or ends too early. Take another
// copy of it; what was imported before the damage was sound.
var ErrBadFile = errors.New("bad export file")

const (
	magic   = "EVTLOGEX"
	version = 1
	// maxFrame is above the largest stored commit.
	maxFrame = volume.MaxCommitBytes + 1<<16

	frameVolume = 'V'
	frameCommit = 'C'
	frameEnd    = 'E'
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frameWriter writes frames and hashes all it writes.
type frameWriter struct {
	w   *bufio.Writer
	sum hash.Hash
}

func newFrameWriter(w io.Writer) *frameWriter {
	f := &frameWriter{w: bufio.NewWriterSize(w, 1<<16), sum: sha256.New()}
	return f
}

func (f *frameWriter) raw(b []byte) error {
	f.sum.Write(b)
	_, err := f.w.Write(b)
	return err
}

func (f *frameWriter) frame(kind byte, payload []byte) error {
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(payload)))
	sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
	if err := f.raw(head); err != nil {
		return err
	}
	if err := f.raw(payload); err != nil {
		return err
	}
	return f.raw(binary.BigEndian.AppendUint32(nil, sum))
}

// end writes the last frame: how many commits there are, and the hash over
// everything before it.
func (f *frameWriter) end(commits uint64) error {
	payload := binary.BigEndian.AppendUint64(nil, commits)
	payload = f.sum.Sum(payload)
	if err := f.frame(frameEnd, payload); err != nil {
		return err
	}
	return f.w.Flush()
}

// frameReader reads frames and hashes all it reads.
type frameReader struct {
	r   *bufio.Reader
	sum hash.Hash
}

func newFrameReader(r io.Reader) (*frameReader, error) {
	f := &frameReader{r: bufio.NewReaderSize(r, 1<<16), sum: sha256.New()}
	head := make([]byte, len(magic)+2)
	if err := f.full(head); err != nil {
		return nil, err
	}
	if string(head[:len(magic)]) != magic {
		return nil, fmt.Errorf("portable: %w: it does not begin with %q", ErrBadFile, magic)
	}
	if v := binary.BigEndian.Uint16(head[len(magic):]); v != version {
		return nil, fmt.Errorf("portable: %w: version %d is not %d", ErrBadFile, v, version)
	}
	return f, nil
}

func (f *frameReader) full(b []byte) error {
	_, err := io.ReadFull(f.r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("portable: %w: it ends too early", ErrBadFile)
	}
	f.sum.Write(b)
	return err
}

// next returns the next frame. before is the hash over everything before it.
func (f *frameReader) next() (kind byte, payload, before []byte, err error) {
	before = f.sum.Sum(nil)
	head := make([]byte, 5)
	if err := f.full(head); err != nil {
		return 0, nil, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > maxFrame {
		return 0, nil, nil, fmt.Errorf("portable: %w: a frame of %d bytes", ErrBadFile, size)
	}
	payload = make([]byte, size)
	if err := f.full(payload); err != nil {
		return 0, nil, nil, err
	}
	tail := make([]byte, 4)
	if err := f.full(tail); err != nil {
		return 0, nil, nil, err
	}
	sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
	if sum != binary.BigEndian.Uint32(tail) {
		return 0, nil, nil, fmt.Errorf("portable: %w: the checksum of a frame does not match", ErrBadFile)
	}
	return head[0], payload, before, nil
}

// encodeVolume is the payload of a volume's frame.
func encodeVolume(v api.Volume) []byte {
	b := []byte{byte(len(v.Stream.Queue))}
	b = append(b, v.Stream.Queue...)
	b = append(b, byte(len(v.Stream.Name)))
	b = append(b, v.Stream.Name...)
	b = binary.BigEndian.AppendUint64(b, v.LSN)
	b = binary.BigEndian.AppendUint64(b, v.Records)
	return append(b, v.Chain[:]...)
}

func decodeVolume(b []byte) (v api.Volume, err error) {
	bad := fmt.Errorf("portable: %w: a volume's frame does not parse", ErrBadFile)
	var ok bool
	var stream evtlog.StreamName
	if stream.Queue, b, ok = cutName(b); !ok {
		return v, bad
	}
	if stream.Name, b, ok = cutName(b); !ok || len(b) != 16+len(v.Chain) {
		return v, bad
	}
	v = api.Volume{Stream: stream, LSN: binary.BigEndian.Uint64(b), Records: binary.BigEndian.Uint64(b[8:])}
	copy(v.Chain[:], b[16:])
	return v, nil
}

func cutName(b []byte) (string, []byte, bool) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", nil, false
	}
	return string(b[1 : 1+b[0]]), b[1+b[0]:], true
}
