package snapstore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// Layout of a file; docs/formats/replication.md describes it.
const (
	fileMagic   = "EVTLOGSN"
	fileVersion = 1
	fileHeader  = len(fileMagic) + 2 + 4 + 4
	suffix      = ".snapshot"
	// maxContent bounds a snapshot; a manifest of 100,000 volumes stays below it.
	maxContent = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrBadFile: a snapshot file is damaged. It has been set aside; another
// snapshot or another node has the same content.
var ErrBadFile = errors.New("bad snapshot file")

// fileMeta is the readable half of a file.
type fileMeta struct {
	Own  bool              `json:"own"`
	Meta raft.SnapshotMeta `json:"meta"`
}

func encodeFile(m fileMeta, content []byte) ([]byte, error) {
	meta, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, fileHeader+len(meta)+len(content))
	out = append(out, fileMagic...)
	out = binary.BigEndian.AppendUint16(out, fileVersion)
	out = binary.BigEndian.AppendUint32(out, uint32(len(meta)))
	sum := crc32.Update(crc32.Checksum(meta, castagnoli), castagnoli, content)
	out = binary.BigEndian.AppendUint32(out, sum)
	out = append(out, meta...)
	return append(out, content...), nil
}

func decodeFile(b []byte) (fileMeta, []byte, error) {
	if len(b) < fileHeader || string(b[:len(fileMagic)]) != fileMagic {
		return fileMeta{}, nil, fmt.Errorf("%w: it does not begin with %q", ErrBadFile, fileMagic)
	}
	h := b[len(fileMagic):]
	if v := binary.BigEndian.Uint16(h); v != fileVersion {
		return fileMeta{}, nil, fmt.Errorf("%w: version %d is not %d", ErrBadFile, v, fileVersion)
	}
	size := binary.BigEndian.Uint32(h[2:])
	body := b[fileHeader:]
	if uint64(size) > uint64(len(body)) {
		return fileMeta{}, nil, fmt.Errorf("%w: it is cut short", ErrBadFile)
	}
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(h[6:]) {
		return fileMeta{}, nil, fmt.Errorf("%w: the checksum does not match", ErrBadFile)
	}
	var m fileMeta
	if err := json.Unmarshal(body[:size], &m); err != nil {
		return fileMeta{}, nil, fmt.Errorf("%w: %w", ErrBadFile, err)
	}
	return m, body[size:], nil
}

// writeFile makes the content durable under its name, or leaves nothing.
func writeFile(dir, name string, content []byte) (err error) {
	tmp, err := os.CreateTemp(dir, "tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if _, err = tmp.Write(content); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return err
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}
