package evtid

import (
	"encoding/json"
	"slices"
)

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// notDigit marks a byte that is no base62 digit.
const notDigit = 0xFF

// digitValue maps a byte to its base62 value, or to notDigit.
var digitValue = func() (t [256]byte) {
	for i := range t {
		t[i] = notDigit
	}
	for i := range len(digits) {
		t[digits[i]] = byte(i)
	}
	return t
}()

// text is what the parsers accept: both kinds without a conversion.
type text interface{ ~string | ~[]byte }

// Parse reads a branded EVT id. It is strict: exactly 14 bytes, upper-case
// namespace, base62 payload of at most 2^63-1, namespace EVT. The error is a
// *ParseError that wraps ErrMalformed, ErrOverflow or ErrWrongKind, looked for
// in this order.
func Parse[T text](s T) (ID, error) { return ParseBrand(s, Brand) }

// ParseBrand reads a branded id of another namespace (the job of an
// announcement is a JOB id). Errors are those of Parse.
func ParseBrand[T text](s T, brand string) (ID, error) {
	v, reason, err := parse(s)
	if err == nil && string(s[:brandLen]) != brand {
		reason, err = "the namespace is not "+brand, ErrWrongKind
	}
	if err != nil {
		return ID{}, &ParseError{Input: string(s), Reason: reason, Err: err}
	}
	return fromPayload(v), nil
}

// ValidBranded reports, as Parse does, whether s is a well-formed branded id of
// any namespace.
func ValidBranded[T text](s T) error {
	if _, reason, err := parse(s); err != nil {
		return &ParseError{Input: string(s), Reason: reason, Err: err}
	}
	return nil
}

func parse[T text](s T) (v uint64, reason string, err error) {
	if len(s) != Len {
		return 0, "it must be 14 bytes", ErrMalformed
	}
	for i := range brandLen {
		if s[i] < 'A' || s[i] > 'Z' {
			return 0, "it must begin with three letters A-Z", ErrMalformed
		}
	}
	// Ten base62 digits stay below 2^60; only the last step can pass 2^63.
	for i := brandLen; i < Len-1; i++ {
		d := digitValue[s[i]]
		if d == notDigit {
			return 0, "the last 11 bytes must be 0-9, A-Z or a-z", ErrMalformed
		}
		v = v*62 + uint64(d)
	}
	last := digitValue[s[Len-1]]
	if last == notDigit {
		return 0, "the last 11 bytes must be 0-9, A-Z or a-z", ErrMalformed
	}
	if v > (MaxSnowflake-uint64(last))/62 {
		return 0, "the payload is larger than 2^63-1", ErrOverflow
	}
	return v*62 + uint64(last), "", nil
}

// AppendTo appends the branded form, 14 bytes, to dst. It does not allocate
// when dst has room. The zero ID appends nothing.
func (id ID) AppendTo(dst []byte) []byte {
	if id.IsZero() {
		return dst
	}
	n := len(dst)
	dst = append(dst, Brand+"00000000000"...)
	putBase62(dst[n+brandLen:], id.Snowflake())
	return dst
}

// String returns the branded form, or "" for the zero ID.
func (id ID) String() string {
	var buf [Len]byte
	return string(id.AppendTo(buf[:0]))
}

// AppendEntry appends the entry form, "<unix ms>-<tail>", to dst. It does not
// allocate when dst has room for 22 bytes, all of which it may write to. The zero
// ID appends "0-0".
func (id ID) AppendEntry(dst []byte) []byte {
	if id.IsZero() {
		return append(dst, "0-0"...)
	}
	n := len(dst)
	dst = slices.Grow(dst, entryRoom)
	out := dst[n : n+entryRoom]
	putMillis(out, uint64(id.UnixMilli()))
	out[millisLen] = '-'
	return dst[:n+millisLen+1+putTail(out[millisLen+1:], uint32(id.Snowflake()&MaxTail))]
}

// Entry returns the entry form: what XADD is given and XRANGE returns.
func (id ID) Entry() string {
	var buf [24]byte
	return string(id.AppendEntry(buf[:0]))
}

// ParseEntry reads the entry form. "0-0" is the zero ID. An entry id that no
// EVT id can have (before 2024, after 2093, second half above MaxTail) is
// ErrOverflow: the stream holds an entry that a foreign writer put there under
// an id of its own making. Anything else that is not two decimal numbers
// joined by '-' is ErrMalformed. Leading zeros are refused, as Redis never
// writes them.
func ParseEntry[T text](s T) (ID, error) {
	ms, tail, ok := cutEntry(s)
	switch {
	case !ok:
		return ID{}, &ParseError{Input: string(s), Reason: "an entry id is two decimal numbers joined by '-'", Err: ErrMalformed}
	case ms == 0 && tail == 0:
		return ID{}, nil
	case ms < uint64(EpochMillis) || ms > uint64(MaxMillis) || tail > MaxTail:
		return ID{}, &ParseError{Input: string(s), Reason: "no EVT id has this position", Err: ErrOverflow}
	}
	return fromPayload((ms-uint64(EpochMillis))<<tailBits | tail), nil
}

func cutEntry[T text](s T) (ms, tail uint64, ok bool) {
	for i := range len(s) {
		if s[i] == '-' {
			ms, okMS := parseDecimal(s[:i])
			tail, okTail := parseDecimal(s[i+1:])
			return ms, tail, okMS && okTail
		}
	}
	return 0, 0, false
}

func parseDecimal[T text](s T) (v uint64, ok bool) {
	if len(s) == 0 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 || v > (1<<64-1-uint64(d))/10 {
			return 0, false
		}
		v = v*10 + uint64(d)
	}
	return v, true
}

// AppendText implements encoding.TextAppender with the branded form.
func (id ID) AppendText(dst []byte) ([]byte, error) { return id.AppendTo(dst), nil }

// MarshalText implements encoding.TextMarshaler with the branded form, so that
// JSON carries a string: a bare 63-bit number would be rounded by JavaScript.
// The zero ID is the empty string.
func (id ID) MarshalText() ([]byte, error) { return id.AppendTo(nil), nil }

// UnmarshalText implements encoding.TextUnmarshaler. The empty text is the
// zero ID; everything else is read as Parse does.
func (id *ID) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*id = ID{}
		return nil
	}
	return id.set(Parse(b))
}

// set stores v unless there is an error.
func (id *ID) set(v ID, err error) error {
	if err == nil {
		*id = v
	}
	return err
}

// UnmarshalJSON reads the string form, or a bare snowflake number as other
// systems write it. null changes nothing, as everywhere in encoding/json.
func (id *ID) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	if len(b) > 0 && b[0] != '"' {
		v, ok := parseDecimal(b)
		if !ok {
			return &ParseError{Input: string(b), Reason: "a bare number must be a whole snowflake", Err: ErrMalformed}
		}
		return id.set(FromSnowflake(v))
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	return id.UnmarshalText([]byte(s))
}
