package feed

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// string reads one JSON string. Without escapes the result is a part of the
// input; with them it is a copy.
func (p *parser) string() (string, error) {
	if err := p.expect('"'); err != nil {
		return "", err
	}
	start := p.i
	var unescaped []byte
	for {
		if err := p.skipPlain(); err != nil {
			return "", err
		}
		plain := p.s[start:p.i]
		if p.s[p.i] == '"' {
			p.i++
			if unescaped == nil {
				return plain, nil
			}
			return string(append(unescaped, plain...)), nil
		}
		r, err := p.escape()
		if err != nil {
			return "", err
		}
		unescaped = utf8.AppendRune(append(unescaped, plain...), r)
		start = p.i
	}
}

// skipPlain moves to the next quote or backslash.
func (p *parser) skipPlain() error {
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '"' || c == '\\':
			return nil
		case c < ' ':
			return fail(p.i, "the control character "+p.found()+" must be escaped in a string")
		case c < utf8.RuneSelf:
			p.i++
		default:
			r, size := utf8.DecodeRuneInString(p.s[p.i:])
			if r == utf8.RuneError && size == 1 {
				return fail(p.i, "the byte "+p.found()+" is not UTF-8")
			}
			p.i += size
		}
	}
	return fail(p.i, "the string is not closed")
}

// escape reads one escape sequence.
func (p *parser) escape() (rune, error) {
	at := p.i
	p.i++ // the backslash
	if p.i >= len(p.s) {
		return 0, fail(at, "the string is not closed")
	}
	c := p.s[p.i]
	p.i++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return p.unicodeEscape(at)
	}
	return 0, fail(at, "no such escape: "+strconv.QuoteToASCII(p.s[at:p.i]))
}

// unicodeEscape reads the digits of \uXXXX, and the second half when the first
// is a surrogate. A surrogate alone is no character and is refused.
func (p *parser) unicodeEscape(at int) (rune, error) {
	r, ok := p.hex4()
	if !ok {
		return 0, fail(at, `\u needs four hexadecimal digits`)
	}
	if !utf16.IsSurrogate(r) {
		return r, nil
	}
	if strings.HasPrefix(p.s[p.i:], `\u`) {
		p.i += 2
		if low, ok := p.hex4(); ok {
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				return r, nil
			}
		}
	}
	return 0, fail(at, "half of a surrogate pair")
}

func (p *parser) hex4() (rune, bool) {
	if len(p.s)-p.i < 4 {
		return 0, false
	}
	digits := p.s[p.i : p.i+4]
	v, err := strconv.ParseUint(digits, 16, 16)
	if err != nil {
		return 0, false
	}
	p.i += 4
	return rune(v), true
}
