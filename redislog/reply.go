package redislog

import (
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/evtlog/evtlog/evtid"
)

// flatMap reads the name-value list that XINFO answers with. Anything else is an
// empty map: what a server does not tell reads as absent.
func flatMap(reply any) map[string]any {
	list, _ := reply.([]any)
	m := make(map[string]any, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		name, err := redis.String(list[i], nil)
		if err == nil {
			m[name] = list[i+1]
		}
	}
	return m
}

// word, words and integer take an answer of that one kind.
func word(reply any) (string, error) {
	s, err := redis.String(reply, nil)
	if err != nil {
		return "", protocolError("the answer is not a string")
	}
	return s, nil
}

func words(reply any) ([]string, error) {
	list, err := redis.Strings(reply, nil)
	if err != nil {
		return nil, protocolError("the answer is not a list of strings")
	}
	return list, nil
}

func integer(reply any) (int64, error) {
	n, ok := reply.(int64)
	if !ok {
		return 0, protocolError("the answer is not an integer")
	}
	return n, nil
}

// intOr returns an integer of a reply, or other when it is absent or nil.
func intOr(reply any, other int64) int64 {
	n, err := redis.Int64(reply, nil)
	if err != nil {
		return other
	}
	return n
}

// entryID reads an entry id. raw is set, and id zero, when no EVT id has that
// position.
func entryID(reply any) (id evtid.ID, raw string, err error) {
	text, err := redis.String(reply, nil)
	if err != nil {
		return evtid.ID{}, "", protocolError("an entry id is missing")
	}
	id, err = evtid.ParseEntry(text)
	if errors.Is(err, evtid.ErrOverflow) {
		return evtid.ID{}, text, nil
	}
	if err != nil {
		return evtid.ID{}, "", protocolError("an entry's id is not one")
	}
	return id, "", nil
}

// firstID reads the id of the first entry of a range's answer; found is false
// when the range is empty. A foreign position is rounded down.
func firstID(reply any) (id evtid.ID, raw string, found bool, err error) {
	entries, _ := reply.([]any)
	if len(entries) == 0 {
		return evtid.ID{}, "", false, nil
	}
	pair, _ := entries[0].([]any)
	if len(pair) == 0 {
		return evtid.ID{}, "", false, protocolError("an entry is not a pair of id and body")
	}
	raw, err = redis.String(pair[0], nil)
	if err != nil {
		return evtid.ID{}, "", false, protocolError("an entry id is missing")
	}
	id, err = floorPosition(raw)
	return id, raw, err == nil, err
}

// isNoKey reports whether the server said that the stream does not exist.
func isNoKey(err error) bool {
	var server *ServerError
	return errors.As(err, &server) && strings.Contains(server.Message, "no such key")
}

// infoField returns the value of one line of INFO.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
