package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
)

// Sizes of a chart in user units.
const (
	chartWidth = 960
	labelWidth = 190
	barWidth   = 480
	lineHeight = 22
	margin     = 16
	captionGap = 18
)

// Colours that also differ in lightness, for those who see no red and green.
const (
	colourMet    = "#2a7f62"
	colourMissed = "#d1495b"
	colourNone   = "#9aa5b1"
	colourText   = "#1f2933"
)

// farthest is where a bar ends: so many times better than asked for.
const farthest = 2.0

// chart draws a report: bars to the target, or a panel for each growth series.
func chart(r Report) []byte {
	if slices.ContainsFunc(r.Rows, func(row Row) bool { return len(row.Points) > 0 }) {
		return panels(r)
	}
	return bars(r)
}

// drawing collects SVG elements.
type drawing struct{ bytes.Buffer }

func (d *drawing) open(height int, title string) {
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="%s">`+"\n",
		chartWidth, height, colourText)
	fmt.Fprintf(d, "<title>%s</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", escaped(title), chartWidth, height)
	d.text(margin, margin+8, "start", "bold", title)
}

func (d *drawing) close() []byte {
	d.WriteString("</svg>\n")
	return d.Bytes()
}

func (d *drawing) text(x, y float64, anchor, weight, s string) {
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" text-anchor="%s" font-weight="%s">%s</text>`+"\n", x, y, anchor, weight, escaped(s))
}

func (d *drawing) line(x1, y1, x2, y2 float64, colour string) {
	fmt.Fprintf(d, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, colour)
}

func escaped(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}

// score is how far a row is towards its target: 1 reaches it, 2 is twice as
// good, 0 is nothing.
func score(r Row) float64 {
	switch {
	case r.Error != "" || r.Skipped != "" || math.IsNaN(r.Ratio):
		return 0
	case !r.AtMost && r.Target > 0:
		return min(max(r.Ratio/r.Target, 0), farthest)
	case r.Ratio > 0:
		return min(r.Target/r.Ratio, farthest)
	case r.OK:
		return farthest
	}
	return 0
}

func colour(r Row) string {
	switch {
	case r.Error != "" || r.Skipped != "":
		return colourNone
	case r.OK:
		return colourMet
	}
	return colourMissed
}

// bars draws one bar for each row that has a target.
func bars(r Report) []byte {
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return row.Informative })
	lines := caption(r.Host)
	top := float64(margin + 2*lineHeight)
	bottom := top + float64(len(rows)*lineHeight)
	var d drawing
	d.open(int(bottom)+margin+captionGap*len(lines), "Ratios to their targets: the line is the target, a bar beyond it is better")
	for i, row := range rows {
		y := top + float64(i*lineHeight)
		d.text(labelWidth-8, y+15, "end", "normal", row.Name)
		fmt.Fprintf(&d, `<rect x="%d" y="%.1f" width="%.1f" height="%d" fill="%s"/>`+"\n",
			labelWidth, y+3, score(row)/farthest*barWidth, lineHeight-6, colour(row))
		d.text(labelWidth+barWidth+10, y+15, "start", "normal", said(row))
	}
	at := float64(labelWidth) + barWidth/farthest
	d.line(at, top-4, at, bottom+4, colourText)
	d.caption(bottom, lines)
	return d.close()
}

// said is what stands behind a bar.
func said(r Row) string {
	switch {
	case r.Error != "":
		return "not measured: it failed"
	case r.Skipped != "":
		return "not measured: " + r.Skipped
	}
	return fmt.Sprintf("%.2f (target %s)", r.Ratio, r.bound())
}

func (d *drawing) caption(below float64, lines []string) {
	for i, l := range lines {
		d.text(margin, below+float64(captionGap*(i+1)), "start", "normal", l)
	}
}

// caption says where and with what was measured.
func caption(h Host) []string {
	first := fmt.Sprintf("%s · %s, %d cores · %s · %s · Redis %s · revision %s", h.Date, h.CPU, h.Cores, h.System, h.Go, h.Redis, h.Revision)
	second := fmt.Sprintf("load average %s before and %s after", h.LoadBefore, h.LoadAfter)
	if h.Quick {
		second += " · quick run"
	}
	lines := []string{first, second}
	var peers []string
	for _, module := range slices.Sorted(maps.Keys(h.Peers)) {
		peers = append(peers, strings.TrimPrefix(module, path.Dir(path.Dir(module))+"/")+" "+h.Peers[module])
	}
	const perLine = 5
	for group := range slices.Chunk(peers, perLine) {
		lines = append(lines, strings.Join(group, " · "))
	}
	return lines
}

// Sizes of a panel.
const (
	panelWidth  = 440
	panelHeight = 190
	panelInset  = 44
)

// panels draws cost over size for each growth series, both axes logarithmic.
func panels(r Report) []byte {
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return len(row.Points) == 0 })
	lines := caption(r.Host)
	bottom := float64(margin + 2*lineHeight + (len(rows)+1)/2*panelHeight)
	var d drawing
	d.open(int(bottom)+margin+captionGap*len(lines), "Cost of one unit of work over size: a level line grows no faster than its work")
	for i, row := range rows {
		d.panel(row, float64(margin+i%2*(panelWidth+margin)), float64(margin+2*lineHeight+i/2*panelHeight))
	}
	d.caption(bottom, lines)
	return d.close()
}

func (d *drawing) panel(r Row, left, top float64) {
	d.text(left, top, "start", "bold", fmt.Sprintf("%s: exponent %.2f (target %s)", r.Name, r.Ratio, r.bound()))
	width, height := float64(panelWidth-2*panelInset), float64(panelHeight-3*panelInset/2)
	x0, y0 := left+panelInset, top+12
	xs, ys := axis(r.Points, func(p Point) float64 { return p.X }), axis(r.Points, Point.cost)
	d.line(x0, y0, x0, y0+height, colourNone)
	d.line(x0, y0+height, x0+width, y0+height, colourNone)
	var path []string
	for _, p := range r.Points {
		x, y := x0+xs.at(p.X)*width, y0+(1-ys.at(p.Cost))*height
		path = append(path, fmt.Sprintf("%.1f,%.1f", x, y))
		fmt.Fprintf(d, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x, y, colour(r))
		d.text(x, y0+height+14, "middle", "normal", short(p.X))
		d.text(x, y-7, "middle", "normal", figure(p.Cost)+" µs")
	}
	fmt.Fprintf(d, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, " "), colour(r))
}

// scale is a logarithmic axis. It spans at least a factor of ten, so that noise
// does not look like growth.
type scale struct{ low, high float64 }

func axis(points []Point, of func(Point) float64) scale {
	s := scale{math.Inf(1), math.Inf(-1)}
	for _, p := range points {
		if v := of(p); v > 0 {
			s.low, s.high = min(s.low, math.Log10(v)), max(s.high, math.Log10(v))
		}
	}
	if missing := 1 - (s.high - s.low); missing > 0 {
		s.low, s.high = s.low-missing/2, s.high+missing/2
	}
	return s
}

// at is the place of a value, from 0 to 1.
func (s scale) at(v float64) float64 {
	if v <= 0 {
		return 0
	}
	return (math.Log10(v) - s.low) / (s.high - s.low)
}

// short prints a size in few characters.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%gk", v/1e3)
	}
	return fmt.Sprintf("%g", v)
}
