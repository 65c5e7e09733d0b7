package feed

import (
	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// The members that tie an announcement to a record of a stream.
const (
	// IDName is the member with the record's own id.
	IDName = "evt"
	// PrevName is the member with the id of the record before it.
	PrevName = "prev"
)

// Announcement is one payload taken apart.
type Announcement struct {
	// Event is the name of what happened.
	Event string
	// Job is the branded id of what it happened to.
	Job string
	// ID is the record that was appended together with the announcement; zero
	// when there is none.
	ID evtid.ID
	// Prev is the record before ID in the stream. A subscriber that has seen an
	// older one than Prev has missed some and reads them from the stream. Zero
	// with an ID means that nothing stood before it, or that a foreign writer
	// did not say: a subscriber that has seen a record then asks the stream too.
	Prev evtid.ID
	// Extra are the other members in their order, duplicates included.
	Extra []evtlog.Field
}

// AppendTo appends the payload to dst, under the rules of AppendAnnouncement.
// The members evt and prev come right after job, and both are written whenever
// there is an ID, so that an extra of the same name cannot pass for them.
func (a Announcement) AppendTo(dst []byte) []byte {
	dst = appendHead(dst, a.Event, a.Job)
	if !a.ID.IsZero() {
		dst = append(dst, `,"`+IDName+`":"`...)
		dst = a.ID.AppendTo(dst)
		dst = append(dst, `","`+PrevName+`":"`...)
		dst = a.Prev.AppendTo(dst)
		dst = append(dst, '"')
	}
	return appendExtras(dst, a.Extra)
}
