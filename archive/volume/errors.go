package volume

import (
	"errors"
	"fmt"
	"strings"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
)

// At Open, besides archive.ErrLocked and archive.ErrCorrupt.
var (
	// ErrFormat is wrapped by every *FormatError.
	ErrFormat = errors.New("not a volume file of this version")
	// ErrNetworkDisk: the file lies on a network disk, where locks and fsync
	// cannot be trusted. Put it on a local disk, or set AllowNetworkDisk.
	ErrNetworkDisk = errors.New("file is on a network disk")
	// ErrOptions: an option is out of range; the message names it.
	ErrOptions = errors.New("bad option")
)

// When writing.
var (
	// ErrFull: the disk, the quota or MaxBytes leaves no room. Nothing was
	// written, and the store goes on serving. Make room and fold the same
	// records again.
	ErrFull = errors.New("no space left for the archive")
	// ErrFailed: an earlier write ended in an error of the disk, after which
	// nobody knows what is on it. The store serves nothing more. Look at the
	// disk, then close and open the store.
	ErrFailed = errors.New("archive file has failed")
)

// CorruptError says what does not match and where. Nothing was changed.
//
// For a whole file: restore it from a copy, or move it aside with Quarantine
// and fill a new one. For one volume: the others are served on; move it aside
// with Store.Quarantine and fill it from a copy.
type CorruptError struct {
	// Path is the file, when the file itself is damaged.
	Path string
	// Stream is the volume, when one is to blame.
	Stream evtlog.StreamName
	// LSN is the first bad commit, 0 when it is not known.
	LSN uint64
	// Page is the first bad page, 0 when it is not known.
	Page uint64
	// Reason says what does not match.
	Reason string
}

// Error implements error.
func (e *CorruptError) Error() string {
	var b strings.Builder
	b.WriteString("volume: ")
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	if e.Stream != (evtlog.StreamName{}) {
		b.WriteString(e.Stream.String() + ": ")
	}
	if e.LSN != 0 {
		fmt.Fprintf(&b, "commit %d: ", e.LSN)
	}
	if e.Page != 0 {
		fmt.Fprintf(&b, "page %d: ", e.Page)
	}
	b.WriteString(archive.ErrCorrupt.Error() + ": " + e.Reason)
	b.WriteString("; restore it from a copy, or set it aside with Quarantine and fill it anew")
	return b.String()
}

// Unwrap returns archive.ErrCorrupt.
func (e *CorruptError) Unwrap() error { return archive.ErrCorrupt }

// FormatError is a sound file that is not a volume file, or one of another
// version. It was not changed. Give the right path, or the program that wrote it.
type FormatError struct {
	Path string
	// Version is the version found, 0 when the file is something else.
	Version int
}

// Error implements error.
func (e *FormatError) Error() string {
	if e.Version == 0 {
		return fmt.Sprintf("volume: %s: %v: another program wrote it; give another path", e.Path, ErrFormat)
	}
	return fmt.Sprintf("volume: %s: %v: it has version %d, this program reads %d; use the program that wrote it", e.Path, ErrFormat, e.Version, FormatVersion)
}

// Unwrap returns ErrFormat.
func (e *FormatError) Unwrap() error { return ErrFormat }

// HeadConflictError is a commit whose base is not the head: someone else
// committed. Nothing changed. Decide anew from Head.
type HeadConflictError struct {
	// Base is what the caller started from.
	Base Head
	// Head is what the volume has.
	Head Head
}

// Error implements error.
func (e *HeadConflictError) Error() string {
	return fmt.Sprintf("volume: commit into %s refused: it was based on commit %d (%q), but the head is %d (%q); decide anew from there",
		e.Head.Stream, e.Base.LSN, e.Base.Watermark, e.Head.LSN, e.Head.Watermark)
}

// Unwrap returns archive.ErrConflict.
func (e *HeadConflictError) Unwrap() error { return archive.ErrConflict }

// FullError is a write that found no room; it wraps ErrFull and the cause.
type FullError struct {
	Path string
	Err  error
}

// Error implements error.
func (e *FullError) Error() string {
	return fmt.Sprintf("volume: %s: %v: %v; nothing was written; make room and fold the same records again", e.Path, ErrFull, e.Err)
}

// Unwrap returns ErrFull and the cause.
func (e *FullError) Unwrap() []error { return []error{ErrFull, e.Err} }

// FailedError is the end of a store; it wraps ErrFailed and the cause.
type FailedError struct {
	Path string
	Err  error
}

// Error implements error.
func (e *FailedError) Error() string {
	return fmt.Sprintf("volume: %s: %v: %v; look at the disk, then close and open the store", e.Path, ErrFailed, e.Err)
}

// Unwrap returns ErrFailed and the cause.
func (e *FailedError) Unwrap() []error { return []error{ErrFailed, e.Err} }
