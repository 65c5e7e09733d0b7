package feed

import "bytes"

// nameKey is the member that holds the name, quotes included.
const nameKey = `"event"`

// Scan finds the name of an announcement: the first match of
//
//	"event"\s*:\s*"([^"]+)"
//
// where \s is an ASCII space, tab, newline, vertical tab, form feed or carriage
// return. It looks at bytes only, so it also answers for payloads of foreign
// writers that are not flat, not in our order, or no JSON at all. name is what
// stands between the quotes, escapes not undone; it is a part of payload and
// changes with it. Scan does not allocate. To turn a name into something that a
// program branches on or counts, use [Names.Lookup].
func Scan(payload []byte) (name []byte, ok bool) {
	for rest := payload; ; {
		at := bytes.Index(rest, []byte(nameKey))
		if at < 0 {
			return nil, false
		}
		if name, ok := nameAfterKey(rest[at+len(nameKey):]); ok {
			return name, true
		}
		// The closing quote of this occurrence may open the next one.
		rest = rest[at+len(nameKey)-1:]
	}
}

// nameAfterKey matches \s*:\s*"([^"]+)" at the beginning of b.
func nameAfterKey(b []byte) (name []byte, ok bool) {
	for _, want := range []byte{':', '"'} {
		b = skipSpace(b)
		if len(b) == 0 || b[0] != want {
			return nil, false
		}
		b = b[1:]
	}
	end := bytes.IndexByte(b, '"')
	if end <= 0 {
		return nil, false
	}
	return b[:end], true
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] >= '\t' && b[0] <= '\r') {
		b = b[1:]
	}
	return b
}
