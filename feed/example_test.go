package feed_test

import (
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/feed"
)

func ExampleAppendAnnouncement() {
	payload := feed.AppendAnnouncement(nil, "failed", "JOB0KHTOWnGLuC", []evtlog.Field{evtlog.F("error", "line 1\nC:\\tmp")})
	fmt.Printf("%s\n", payload)
	// Output: {"event":"failed","job":"JOB0KHTOWnGLuC","error":"line 1\nC:\\tmp"}
}

func ExampleAnnouncement_AppendTo() {
	id, _ := evtid.Parse("EVT0KHTOWnGLuC")
	prev, _ := evtid.Parse("EVT0KHTOWnGLuB")
	a := feed.Announcement{Event: "scored", Job: "JOB0KHTOWnGLuC", ID: id, Prev: prev, Extra: []evtlog.Field{evtlog.F("pct", "83")}}
	fmt.Printf("%s\n", a.AppendTo(nil))
	// Output: {"event":"scored","job":"JOB0KHTOWnGLuC","evt":"EVT0KHTOWnGLuC","prev":"EVT0KHTOWnGLuB","pct":"83"}
}

func ExampleNames_Lookup() {
	names := feed.NewNames("scored", "settled")
	for _, payload := range []string{
		`{"job":"JOB0KHTOWnGLuC","event":"scored"}`,
		`{"event":"a name nobody declared","job":"JOB0KHTOWnGLuC"}`,
	} {
		switch names.Lookup([]byte(payload)) {
		case "scored":
			fmt.Println("a guess was scored")
		case feed.Unknown:
			fmt.Println("not for us")
		}
	}
	// Output:
	// a guess was scored
	// not for us
}

func ExampleDecode() {
	a, err := feed.Decode([]byte(`{"event":"scored","job":"JOB0KHTOWnGLuC","evt":"EVT0KHTOWnGLuC","prev":"EVT0KHTOWnGLuB","pct":"83"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	seen, _ := evtid.Parse("EVT0KHTOWnGLuA")
	if seen.Less(a.Prev) {
		fmt.Printf("missed something between %s and %s\n", seen, a.ID)
	}
	fmt.Println(a.Event, a.Job, a.Extra)

	_, err = feed.Decode([]byte(`{"event":"progress","job":"JOB0KHTOWnGLuC","progress":50}`))
	fmt.Println(err)
	// Output:
	// missed something between EVT0KHTOWnGLuA and EVT0KHTOWnGLuC
	// scored JOB0KHTOWnGLuC [{pct 83}]
	// feed: payload is no announcement: byte 54: expected '"' but found "5"; only its name can be read
}
