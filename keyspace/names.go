package keyspace

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// MaxName is the longest queue, stream, group or member name in bytes.
const MaxName = 128

// What a NameError is about.
const (
	KindQueue  = "queue name"
	KindStream = "stream name"
	KindGroup  = "group name"
	KindMember = "consumer name"
	KindJob    = "job id"
)

// NameError says which name was refused and which rule it breaks. Nothing has
// been sent to Redis. Choose another name.
type NameError struct {
	// Kind is one of the Kind constants.
	Kind string
	// Value is the refused name.
	Value string
	// Reason is the rule it breaks.
	Reason string
}

// Error implements error.
func (e *NameError) Error() string {
	return fmt.Sprintf("keyspace: %s %s refused: %s", e.Kind, quote(e.Value), e.Reason)
}

// quote shows a name in a message. What is no name may be of any length.
func quote(s string) string {
	const most = 2 * MaxName
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q… (%d bytes)", s[:most], len(s))
}

// CheckQueue applies the rule for queue names: 1..128 bytes of printable UTF-8
// without '{', '}', space or control bytes. The error is a *NameError.
func CheckQueue(queue string) error {
	if err := checkLength(KindQueue, queue, MaxName); err != nil {
		return err
	}
	if !utf8.ValidString(queue) {
		return &NameError{Kind: KindQueue, Value: queue, Reason: "it is not valid UTF-8"}
	}
	for i, r := range queue {
		if r == '{' || r == '}' || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return &NameError{Kind: KindQueue, Value: queue, Reason: fmt.Sprintf("%q at byte %d: braces, spaces and unprintable characters are not allowed", r, i)}
		}
	}
	return nil
}

// CheckGroup applies the rule for group names: 1..128 of A-Z a-z 0-9 . _ -
// The error is a *NameError.
func CheckGroup(group string) error { return checkSimple(KindGroup, group, MaxName) }

// CheckMember applies the same rule to the name of a group's member.
func CheckMember(member string) error { return checkSimple(KindMember, member, MaxName) }

func checkSimple(kind, name string, longest int) error {
	if err := checkLength(kind, name, longest); err != nil {
		return err
	}
	for i := range len(name) {
		c := name[i]
		if !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return &NameError{Kind: kind, Value: name, Reason: fmt.Sprintf("byte %d (%q): only A-Z a-z 0-9 . _ - are allowed", i, name[i:i+1])}
		}
	}
	return nil
}

func checkLength(kind, name string, longest int) error {
	if len(name) == 0 || len(name) > longest {
		return &NameError{Kind: kind, Value: name, Reason: fmt.Sprintf("it has %d bytes; 1 to %d are allowed", len(name), longest)}
	}
	return nil
}

// checkBranded applies the rule for branded ids: three letters A-Z and eleven
// base62 digits of a number of at most 63 bits. The digits ascend in ASCII, so
// the largest number is also the largest text.
func checkBranded(id string) error {
	const brand, size, largest = 3, 14, "AzL8n0Y58m7"
	refuse := func(reason string) error { return &NameError{Kind: KindJob, Value: id, Reason: reason} }
	if len(id) != size {
		return refuse(fmt.Sprintf("it has %d bytes; an id has %d", len(id), size))
	}
	for i := range size {
		switch c := id[i]; {
		case i < brand && (c < 'A' || c > 'Z'):
			return refuse("it must begin with three letters A-Z")
		case !isAlphanumeric(c):
			return refuse(fmt.Sprintf("byte %d (%q) is not 0-9, A-Z or a-z", i, id[i:i+1]))
		}
	}
	if id[brand:] > largest {
		return refuse("its number has more than 63 bits")
	}
	return nil
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}
