package keyspace

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// What a NameError is about.
const (
	KindQueue  = "queue"
	KindStream = "stream"
	KindGroup  = "group"
	KindMember = "consumer"
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
	return fmt.Sprintf("keyspace: %s name %q refused: %s", e.Kind, e.Value, e.Reason)
}

// CheckQueue applies the rule for queue names: 1..128 bytes of printable UTF-8
// without '{', '}', space or control bytes. The error is a *NameError.
func CheckQueue(queue string) error {
	if err := checkLength(KindQueue, queue); err != nil {
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
func CheckGroup(group string) error { return checkSimple(KindGroup, group) }

// CheckMember applies the same rule to the name of a group's member.
func CheckMember(member string) error { return checkSimple(KindMember, member) }

func checkSimple(kind, name string) error {
	if err := checkLength(kind, name); err != nil {
		return err
	}
	for i := range len(name) {
		c := name[i]
		if !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return &NameError{Kind: kind, Value: name, Reason: fmt.Sprintf("byte %d (%q): only A-Z a-z 0-9 . _ - are allowed", i, c)}
		}
	}
	return nil
}

func checkLength(kind, name string) error {
	if len(name) == 0 || len(name) > MaxName {
		return &NameError{Kind: kind, Value: name, Reason: fmt.Sprintf("it has %d bytes; 1 to %d are allowed", len(name), MaxName)}
	}
	return nil
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}
