package snapstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/evtlog/evtlog/archive/replica/manifest"
)

// Config configures a Store. Dir and Missing are required.
type Config struct {
	// Dir holds the files; it is made when it does not exist.
	Dir string
	// Missing returns what the node lacks of a manifest now.
	Missing func(manifest.Manifest) ([]manifest.Gap, error)
	// Accept is asked about each manifest that is written; an error refuses it.
	// nil accepts all.
	Accept func(manifest.Manifest) error
	// Retain is how many of the node's own snapshots are kept. Zero means 2.
	Retain int
	// Logger gets damaged files and deletions. nil discards.
	Logger *slog.Logger
}

// Store is a raft.SnapshotStore of manifests. It is safe for concurrent use.
type Store struct {
	cfg Config
	mu  sync.Mutex
}

// Open returns the store in cfg.Dir.
func Open(cfg Config) (*Store, error) {
	if cfg.Dir == "" || cfg.Missing == nil {
		return nil, errors.New("snapstore: Dir and Missing are required")
	}
	if cfg.Retain == 0 {
		cfg.Retain = 2
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("snapstore: %w", err)
	}
	leftovers, err := filepath.Glob(filepath.Join(cfg.Dir, "tmp-*"))
	if err != nil {
		return nil, fmt.Errorf("snapstore: %w", err)
	}
	for _, f := range leftovers {
		_ = os.Remove(f)
	}
	return &Store{cfg: cfg}, nil
}

// Sink is the raft.SnapshotSink of one manifest.
type Sink struct {
	store *Store
	meta  raft.SnapshotMeta
	own   bool
	buf   bytes.Buffer
	done  bool
}

var _ raft.SnapshotStore = (*Store)(nil)

// Create implements raft.SnapshotStore. Nothing is written before Close.
func (s *Store) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration, configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	if version != 1 {
		return nil, fmt.Errorf("snapstore: snapshot version %d is not supported", version)
	}
	id := fmt.Sprintf("%020d-%020d-%013d%s", index, term, time.Now().UnixMilli(), suffix)
	return &Sink{store: s, meta: raft.SnapshotMeta{
		Version: version, ID: id, Index: index, Term: term,
		Configuration: configuration, ConfigurationIndex: configurationIndex,
	}}, nil
}

// MarkOwn says that this node took the snapshot itself. Without it the snapshot
// counts as received.
func (k *Sink) MarkOwn() { k.own = true }

// ID implements raft.SnapshotSink.
func (k *Sink) ID() string { return k.meta.ID }

// Write implements io.Writer; the content stays in memory until Close.
func (k *Sink) Write(p []byte) (int, error) {
	if k.buf.Len()+len(p) > maxContent {
		return 0, fmt.Errorf("snapstore: a snapshot of more than %d bytes is no manifest", maxContent)
	}
	return k.buf.Write(p)
}

// Cancel implements raft.SnapshotSink.
func (k *Sink) Cancel() error {
	k.done = true
	return nil
}

// Close makes the snapshot durable, if it is a sound manifest, and then deletes
// what is not needed any more.
func (k *Sink) Close() error {
	if k.done {
		return nil
	}
	k.done = true
	m, err := manifest.Decode(k.buf.Bytes())
	if err == nil && k.store.cfg.Accept != nil {
		err = k.store.cfg.Accept(m)
	}
	if err != nil {
		return fmt.Errorf("snapstore: snapshot at index %d refused: %w", k.meta.Index, err)
	}
	k.meta.Size = int64(k.buf.Len())
	file, err := encodeFile(fileMeta{Own: k.own, Meta: k.meta}, k.buf.Bytes())
	if err != nil {
		return fmt.Errorf("snapstore: %w", err)
	}
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	if err := writeFile(k.store.cfg.Dir, k.meta.ID, file); err != nil {
		return fmt.Errorf("snapstore: write %s: %w", k.meta.ID, err)
	}
	return k.store.reap(k.meta.ID)
}

// Stored is one snapshot with what is known of it.
type Stored struct {
	Meta     raft.SnapshotMeta
	Own      bool
	Manifest manifest.Manifest
	// Gaps is what the node lacks; none means covered.
	Gaps []manifest.Gap
}

// All returns every readable snapshot, newest first, covered or not. A damaged
// file is renamed to "*.damaged" and reported, never deleted.
func (s *Store) All() ([]Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all()
}

func (s *Store) all() ([]Stored, error) {
	names, err := filepath.Glob(filepath.Join(s.cfg.Dir, "*"+suffix))
	if err != nil {
		return nil, fmt.Errorf("snapstore: %w", err)
	}
	byName := map[string]Stored{}
	var entries []entry
	for _, path := range names {
		st, err := s.load(path)
		if errors.Is(err, ErrBadFile) || errors.Is(err, manifest.ErrBad) {
			s.cfg.Logger.Error("snapshot file is damaged and was set aside", "file", path, "error", err)
			if err := os.Rename(path, path+".damaged"); err != nil {
				return nil, fmt.Errorf("snapstore: set aside %s: %w", path, err)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		name := filepath.Base(path)
		byName[name] = st
		entries = append(entries, st.entry(name))
	}
	newestFirst(entries)
	out := make([]Stored, len(entries))
	for i, e := range entries {
		out[i] = byName[e.name]
	}
	return out, nil
}

func (st Stored) entry(name string) entry {
	return entry{name: name, index: st.Meta.Index, term: st.Meta.Term, own: st.Own, covered: len(st.Gaps) == 0}
}

func (s *Store) load(path string) (Stored, error) {
	m, content, err := readFile(path)
	if err != nil {
		return Stored{}, err
	}
	man, err := manifest.Decode(content)
	if err != nil {
		return Stored{}, fmt.Errorf("snapstore: %s: %w", filepath.Base(path), err)
	}
	gaps, err := s.cfg.Missing(man)
	if err != nil {
		return Stored{}, fmt.Errorf("snapstore: compare %s with the volumes: %w", filepath.Base(path), err)
	}
	return Stored{Meta: m.Meta, Own: m.Own, Manifest: man, Gaps: gaps}, nil
}

func readFile(path string) (fileMeta, []byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return fileMeta{}, nil, fmt.Errorf("snapstore: %w", err)
	}
	m, content, err := decodeFile(b)
	if err != nil {
		return fileMeta{}, nil, fmt.Errorf("snapstore: %s: %w", filepath.Base(path), err)
	}
	return m, content, nil
}

// List implements raft.SnapshotStore: covered snapshots only, newest first.
func (s *Store) List() ([]*raft.SnapshotMeta, error) {
	all, err := s.All()
	if err != nil {
		return nil, err
	}
	var out []*raft.SnapshotMeta
	for _, st := range all {
		if len(st.Gaps) == 0 {
			meta := st.Meta
			out = append(out, &meta)
		}
	}
	return out, nil
}

// Open implements raft.SnapshotStore. Pending snapshots can be opened too: raft
// does so to restore the one it has just received.
func (s *Store) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if id != filepath.Base(id) || !strings.HasSuffix(id, suffix) {
		return nil, nil, fmt.Errorf("snapstore: %q is not a snapshot id", id)
	}
	m, content, err := readFile(filepath.Join(s.cfg.Dir, id))
	if err != nil {
		return nil, nil, err
	}
	return &m.Meta, io.NopCloser(bytes.NewReader(content)), nil
}

// reap deletes what reapable names after one was written; the caller holds mu.
func (s *Store) reap(written string) error {
	all, err := s.all()
	if err != nil {
		return err
	}
	entries := make([]entry, len(all))
	for i, st := range all {
		entries[i] = st.entry(st.Meta.ID)
	}
	for _, e := range reapable(entries, s.cfg.Retain, written) {
		if err := os.Remove(filepath.Join(s.cfg.Dir, e.name)); err != nil {
			return fmt.Errorf("snapstore: %w", err)
		}
	}
	return nil
}

// Check reads every file in dir and returns one error for each damaged one. It
// changes nothing and needs no Store.
func Check(dir string) (files int, bad []error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		return 0, []error{err}
	}
	for _, path := range names {
		_, content, err := readFile(path)
		if err == nil {
			_, err = manifest.Decode(content)
		}
		if err != nil {
			bad = append(bad, err)
		}
	}
	return len(names), bad
}
