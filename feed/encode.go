package feed

import (
	"unicode/utf8"

	"github.com/evtlog/evtlog"
)

// AppendAnnouncement appends the payload that announces event for job, with the
// extras in their order, to dst. It allocates only when dst has no room.
//
// The payload is valid JSON whatever the inputs hold. '"' and '\' are escaped,
// control characters are escaped, and each byte that is not UTF-8 becomes
// U+FFFD; this holds for the names of extras as well as for values. Everything
// else, '/', HTML and letters of any script, is written as it is. Extras may
// repeat a name, "event" and "job" included: all are written, and readers that
// take the first member of a name see the announcement's own.
//
// The job is not checked here; keyspace.JobKey is the gate in front of it.
func AppendAnnouncement(dst []byte, event, job string, extra []evtlog.Field) []byte {
	return appendExtras(appendHead(dst, event, job), extra)
}

func appendHead(dst []byte, event, job string) []byte {
	dst = append(dst, `{"event":"`...)
	dst = appendEscaped(dst, event)
	dst = append(dst, `","job":"`...)
	dst = appendEscaped(dst, job)
	return append(dst, '"')
}

func appendExtras(dst []byte, extra []evtlog.Field) []byte {
	for _, f := range extra {
		dst = append(dst, `,"`...)
		dst = appendEscaped(dst, f.Name)
		dst = append(dst, `":"`...)
		dst = appendEscaped(dst, f.Value)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// appendEscaped appends the inside of a JSON string. Runs of bytes that need no
// change are copied in one piece.
func appendEscaped(dst []byte, s string) []byte {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		if c < ' ' || c == '"' || c == '\\' {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			start = i + 1
		}
		i++
	}
	return append(dst, s[start:]...)
}

func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xF])
}
