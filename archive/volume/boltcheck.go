package volume

import (
	"fmt"
	"os"
)

// CheckFile examines the structure of any file of bbolt, also one that holds no
// volumes, without bbolt: that trusts its file, and a damaged one can end the
// whole program when it is opened. Nobody may be writing to the file meanwhile.
// Keys and values are not looked at. Damage, which includes one broken meta page,
// is a *CorruptError that wraps archive.ErrCorrupt; any other error is one of
// reading the file.
func CheckFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("volume: check %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("volume: check %s: %w", path, err)
	}
	reason, err := checkBolt(f, st.Size(), deep, false)
	if err != nil {
		return fmt.Errorf("volume: check %s: %w", path, err)
	}
	if reason != "" {
		return &CorruptError{Path: path, Reason: reason}
	}
	return nil
}
