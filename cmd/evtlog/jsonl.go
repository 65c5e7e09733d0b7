package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/evtlog/evtlog"
)

// lineError names the input line that was refused. Lines before it were kept,
// and so were those in behind, which were on their way with it.
type lineError struct {
	line   int
	err    error
	behind []int
}

func (e *lineError) Error() string {
	text := fmt.Sprintf("line %d: %v; the lines before it were appended", e.line, e.err)
	if len(e.behind) > 0 {
		text += ", and of those behind it " + lineRanges(e.behind)
	}
	var uncertain *evtlog.UncertainError
	if errors.As(e.err, &uncertain) {
		text += fmt.Sprintf("; see whether this one was with \"evtlog replay --from %s --to %s\"", uncertain.ID, uncertain.ID)
	}
	return text
}

func (e *lineError) Unwrap() error { return e.err }

// lineRanges writes ascending line numbers as "4, 7-9".
func lineRanges(lines []int) string {
	var b strings.Builder
	for i := 0; i < len(lines); {
		last := i
		for last+1 < len(lines) && lines[last+1] == lines[last]+1 {
			last++
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, lines[i])
		if last > i {
			fmt.Fprintf(&b, "-%d", lines[last])
		}
		i = last + 1
	}
	return b.String()
}

// parseFields reads one JSON object of scalars as fields, in the order written
// and with duplicate names kept. A string gives its text; a number, true, false
// and null give their JSON text. What could not come back byte for byte
// (invalid UTF-8, half of a surrogate pair) is refused rather than replaced.
func parseFields(line []byte) ([]evtlog.Field, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("it is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	var fields []evtlog.Field
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, notObject(err)
		}
		value, err := dec.Token()
		if err != nil {
			return nil, notObject(err)
		}
		text, err := scalarText(value)
		if err != nil {
			return nil, fmt.Errorf("member %q %w", name, err)
		}
		fields = append(fields, evtlog.F(name.(string), text))
	}
	if _, err := dec.Token(); err != nil {
		return nil, notObject(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something follows the JSON object")
	}
	return fields, checkReplaced(line, fields)
}

// notObject says why a line ended or broke before its object did.
func notObject(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it is not a JSON object: it ends in the middle")
	}
	return fmt.Errorf("it is not a JSON object: %w", err)
}

func scalarText(tok json.Token) (string, error) {
	switch v := tok.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		if v {
			return "true", nil
		}
		return "false", nil
	case nil:
		return "null", nil
	}
	return "", errors.New("is an object or array; only scalars are allowed")
}

// checkReplaced refuses a line in which the decoder had to put U+FFFD for half
// of a surrogate pair.
func checkReplaced(line []byte, fields []evtlog.Field) error {
	if strings.ContainsRune(string(line), utf8.RuneError) || bytes.Contains(bytes.ToLower(line), []byte(`\ufffd`)) {
		return nil
	}
	for _, f := range fields {
		if strings.ContainsRune(f.Name, utf8.RuneError) || strings.ContainsRune(f.Value, utf8.RuneError) {
			return fmt.Errorf("member %q holds half of a surrogate pair", f.Name)
		}
	}
	return nil
}

// appendRecordJSON appends {"id","at","source","fields"} to dst. fields is an
// object in the record's order, duplicates included. A record that is not valid
// UTF-8 cannot be written as text: it has "fields_base64", a list of pairs,
// instead.
func appendRecordJSON(dst []byte, r evtlog.Record) ([]byte, error) {
	dst = append(dst, `{"id":"`...)
	dst = r.ID.AppendTo(dst)
	dst = append(dst, `","at":"`...)
	dst = r.ID.Time().AppendFormat(dst, "2006-01-02T15:04:05.000Z07:00")
	dst = append(dst, `","source":"`...)
	dst = append(dst, r.Source.String()...)
	return appendFieldsJSON(append(dst, '"'), r.Fields)
}

// appendFieldsJSON ends an object that has members already with its fields.
func appendFieldsJSON(dst []byte, fields []evtlog.Field) ([]byte, error) {
	if !validText(fields) {
		return appendBinary(append(dst, `,"fields_base64":`...), fields)
	}
	dst = append(dst, `,"fields":{`...)
	for i, f := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendJSONString(dst, f.Name)
		dst = append(dst, ':')
		dst = appendJSONString(dst, f.Value)
	}
	return append(dst, '}', '}'), nil
}

func validText(fields []evtlog.Field) bool {
	for _, f := range fields {
		if !utf8.ValidString(f.Name) || !utf8.ValidString(f.Value) {
			return false
		}
	}
	return true
}

func appendBinary(dst []byte, fields []evtlog.Field) ([]byte, error) {
	pairs := make([][2][]byte, len(fields))
	for i, f := range fields {
		pairs[i] = [2][]byte{[]byte(f.Name), []byte(f.Value)}
	}
	b, err := json.Marshal(pairs)
	return append(append(dst, b...), '}'), err
}

// appendJSONString appends s, valid UTF-8, as a JSON string with no more
// escapes than JSON asks for.
func appendJSONString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c < 0x20 || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
