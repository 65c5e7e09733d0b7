//go:build !(linux || darwin)

package replica

import "math"

// freeSpace cannot be told here; a write that finds no room still makes the node
// step aside.
func (n *Node) freeSpace() (uint64, error) {
	if n.cfg.faults.free != nil {
		return n.cfg.faults.free()
	}
	return math.MaxUint64, nil
}
