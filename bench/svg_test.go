package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func TestScore(t *testing.T) {
	for _, c := range []struct {
		row  Row
		want float64
	}{
		{Row{}.judge(0.5, atLeast(1)), 0.5},
		{Row{}.judge(1.5, atLeast(1)), 1.5},
		{Row{}.judge(50, atLeast(1)), farthest},
		{Row{}.judge(2, atMost(1)), 0.5},
		{Row{}.judge(1, atMost(1)), 1},
		{Row{}.judge(0, atMost(3)), farthest},
		{Row{}.judge(0, atMost(0)), farthest},
		{Row{}.judge(2, atMost(0)), 0},
		{Row{}.judge(math.NaN(), atLeast(1)), 0},
		{Row{Error: "x"}, 0},
		{Row{Skipped: "x"}, 0},
	} {
		if got := score(c.row); got != c.want {
			t.Errorf("%+v scores %v, want %v", c.row, got, c.want)
		}
	}
}

// elements counts the elements of a document, which has to be well-formed.
func elements(t *testing.T, svg []byte) map[string]int {
	t.Helper()
	found := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			found[e.Name.Local]++
		}
	}
}

func TestBars(t *testing.T) {
	r := Report{
		Host: Host{CPU: "<A & B>", Date: "2026-01-01T00:00:00Z", Redis: "7.0.15", LoadBefore: "0.10", Peers: map[string]string{
			"example.com/x/one": "v1.2.3", "example.com/y/two/v2": "v2.0.1",
		}},
		Rows: []Row{
			Row{Name: "good"}.judge(2, atLeast(1)), Row{Name: "bad"}.judge(0.5, atLeast(1)),
			{Name: "late", Skipped: "takes long"}, {Name: "beside", Informative: true, Ratio: 3},
		},
	}
	svg := chart(r)
	found := elements(t, svg)
	// The background and a bar for each row but the informative one.
	if found["svg"] != 1 || found["rect"] != 4 || found["title"] != 1 {
		t.Errorf("%v in\n%s", found, svg)
	}
	for _, part := range []string{colourMet, colourMissed, colourNone, "2.00 (target ≥ 1.00)", "takes long", "&lt;A &amp; B&gt;", "Redis 7.0.15", "v1.2.3", "two/v2 v2.0.1", "load average 0.10"} {
		if !strings.Contains(string(svg), part) {
			t.Errorf("the chart lacks %q:\n%s", part, svg)
		}
	}
	if strings.Contains(string(svg), "beside") {
		t.Error("the chart shows a row without a target")
	}
}

func TestPanels(t *testing.T) {
	s := series{name: "grow-x", unit: "one record"}
	r := Report{Rows: []Row{s.row([]Point{{X: 10, Cost: 2}, {X: 1000, Cost: 2.5}, {X: 2e6, Cost: 2.2}}), {Name: "failed", Error: "no disk"}}}
	svg := chart(r)
	if found := elements(t, svg); found["circle"] != 3 || found["polyline"] != 1 {
		t.Errorf("%v in\n%s", found, svg)
	}
	for _, part := range []string{"grow-x", "1k", "2M", "2.5 µs"} {
		if !strings.Contains(string(svg), part) {
			t.Errorf("the chart lacks %q", part)
		}
	}
	if strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf") {
		t.Errorf("the chart has a place that is no number:\n%s", svg)
	}
}

func TestAxisSpansATenfold(t *testing.T) {
	flat := axis([]Point{{Cost: 5}, {Cost: 5}}, Point.cost)
	if got := flat.at(5); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("a level line lies at %v", got)
	}
	wide := axis([]Point{{Cost: 1}, {Cost: 1000}}, Point.cost)
	if wide.at(1) != 0 || wide.at(1000) != 1 || wide.at(0) != 0 {
		t.Errorf("%v, %v, %v", wide.at(1), wide.at(1000), wide.at(0))
	}
}
