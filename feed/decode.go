package feed

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// DecodeError says why a payload is not an announcement of this format. Nothing
// is wrong with the subscription: a foreign writer published it. Its name can
// still be had with [Names.Lookup].
type DecodeError struct {
	// Offset is the byte of the payload at which the fault was seen.
	Offset int
	// Reason says what was expected there.
	Reason string
	// Err is the refusal of an id, when that is the fault, else nil.
	Err error
}

// Error implements error.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("feed: payload is no announcement: byte %d: %s; only its name can be read", e.Offset, e.Reason)
}

// Unwrap returns the refusal of an id, or nil.
func (e *DecodeError) Unwrap() error { return e.Err }

// Decode takes an announcement apart. It accepts what AppendAnnouncement and
// [Announcement.AppendTo] write, and the same with other JSON white space or
// escapes: one object, all values strings, members event and job present. Of
// several members of one name the first counts, the others stay in Extra.
//
// An evt member that is no EVT id is an ordinary extra, and so is prev without
// evt, since foreign writers may use the names as they like. A prev that is no
// EVT id beside an evt that is one is refused: it would hide a hole.
//
// The error is a *DecodeError. The strings of the result share one copy of the
// payload; payload itself is not kept.
func Decode(payload []byte) (Announcement, error) {
	p := parser{s: string(payload)}
	members, err := p.object()
	if err != nil {
		return Announcement{}, err
	}
	var a Announcement
	var ok bool
	if a.Event, ok = take(&members, "event"); !ok {
		return Announcement{}, fail(len(payload), "the object has no member event")
	}
	if a.Job, ok = take(&members, "job"); !ok {
		return Announcement{}, fail(len(payload), "the object has no member job")
	}
	if err := a.takeIDs(&members); err != nil {
		return Announcement{}, err
	}
	a.Extra = fields(members)
	return a, nil
}

// takeIDs moves the members evt and prev into a, when evt is an EVT id.
func (a *Announcement) takeIDs(members *[]member) error {
	i := indexOf(*members, IDName)
	if i < 0 {
		return nil
	}
	id, err := evtid.Parse((*members)[i].value)
	if err != nil {
		return nil // a foreign writer's own use of the name
	}
	a.ID = id
	*members = slices.Delete(*members, i, i+1)
	if i = indexOf(*members, PrevName); i < 0 {
		return nil
	}
	prev := (*members)[i]
	if err := a.Prev.UnmarshalText([]byte(prev.value)); err != nil {
		return &DecodeError{Offset: prev.at, Reason: "member prev: " + err.Error(), Err: err}
	}
	*members = slices.Delete(*members, i, i+1)
	return nil
}

// member is one name and value with the offset of the value.
type member struct {
	name, value string
	at          int
}

// indexOf returns the place of the first member of that name, or -1.
func indexOf(members []member, name string) int {
	return slices.IndexFunc(members, func(m member) bool { return m.name == name })
}

// take removes the first member of that name and returns its value.
func take(members *[]member, name string) (value string, ok bool) {
	i := indexOf(*members, name)
	if i < 0 {
		return "", false
	}
	value = (*members)[i].value
	*members = slices.Delete(*members, i, i+1)
	return value, true
}

func fields(members []member) []evtlog.Field {
	if len(members) == 0 {
		return nil
	}
	out := make([]evtlog.Field, len(members))
	for i, m := range members {
		out[i] = evtlog.F(m.name, m.value)
	}
	return out
}

// parser reads one flat JSON object of strings.
type parser struct {
	s string
	i int
}

func fail(at int, reason string) error { return &DecodeError{Offset: at, Reason: reason} }

// object reads the whole input: { "name" : "value" , … } and nothing behind it.
func (p *parser) object() ([]member, error) {
	if err := p.expect('{'); err != nil {
		return nil, err
	}
	members := make([]member, 0, 8)
	for !p.accept('}') {
		if len(members) > 0 {
			if err := p.expect(','); err != nil {
				return nil, err
			}
		}
		m, err := p.member()
		if err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	if p.space(); p.i < len(p.s) {
		return nil, fail(p.i, "expected the end after the object but found "+p.found())
	}
	return members, nil
}

func (p *parser) member() (m member, err error) {
	if m.name, err = p.string(); err != nil {
		return m, err
	}
	if err = p.expect(':'); err != nil {
		return m, err
	}
	p.space()
	m.at = p.i
	m.value, err = p.string()
	return m, err
}

// accept moves past white space, and past c when that comes next.
func (p *parser) accept(c byte) bool {
	p.space()
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *parser) expect(c byte) error {
	if p.accept(c) {
		return nil
	}
	return fail(p.i, "expected "+strconv.QuoteRune(rune(c))+" but found "+p.found())
}

func (p *parser) space() {
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

// found describes the byte at the current place for a message.
func (p *parser) found() string {
	if p.i >= len(p.s) {
		return "the end"
	}
	return strconv.QuoteToASCII(p.s[p.i : p.i+1])
}
