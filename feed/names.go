package feed

// Unknown is what Lookup answers when a payload holds no declared name. It is
// the empty string, so no declared name can be mistaken for it.
const Unknown = ""

// Names is a declared set of event names. It never grows from what it reads, so
// a peer cannot make a subscriber keep strings, or count under labels, of the
// peer's choosing. The zero Names knows no name. It is not changed after
// NewNames and safe for concurrent use.
type Names struct {
	// declared maps a name as the encoder writes it to the name as declared.
	declared map[string]string
}

// NewNames returns the set of the given names. The empty name and names that
// contain '"' can be declared and announced, but a scan cannot find them: they
// are always answered with Unknown.
func NewNames(names ...string) Names {
	declared := make(map[string]string, len(names))
	for _, name := range names {
		declared[string(appendEscaped(nil, name))] = name
	}
	return Names{declared: declared}
}

// Lookup returns the declared name that payload announces, or Unknown. It finds
// the name as [Scan] does and does not allocate. The answer is the string given
// to NewNames, never a part of payload.
func (n Names) Lookup(payload []byte) string {
	name, ok := Scan(payload)
	if !ok {
		return Unknown
	}
	return n.declared[string(name)]
}
