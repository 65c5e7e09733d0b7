package archive

import (
	"testing"

	"github.com/evtlog/evtlog/evtid"
)

// at returns the n-th id; at(0) is the zero ID.
func at(n uint64) evtid.ID {
	if n == 0 {
		return evtid.ID{}
	}
	id, err := evtid.FromSnowflake(10 * n)
	if err != nil {
		panic(err)
	}
	return id
}

func TestDecidePage(t *testing.T) {
	floor := func(n uint64) Proof { return Proof{Floor: at(n)} }
	asked := func(n uint64) Proof { return Proof{Watermark: at(n), Asked: true} }
	tests := map[string]struct {
		cursor, to     uint64
		records, asked int
		last           uint64
		proof          Proof
		want           Step
	}{
		"full page above the floor":             {5, 9, 2, 2, 7, floor(5), YieldPage},
		"full page far above the floor":         {5, 9, 2, 2, 7, floor(1), YieldPage},
		"full page that reaches the end":        {5, 7, 2, 2, 7, floor(5), YieldLast},
		"short page above the floor":            {5, 9, 1, 2, 6, floor(5), YieldLast},
		"empty page above the floor":            {5, 9, 0, 2, 0, floor(5), YieldLast},
		"full page, floor above the cursor":     {5, 9, 2, 2, 7, floor(6), ReadArchive},
		"floor inside the page":                 {5, 9, 3, 3, 8, floor(7), ReadArchive},
		"floor at the end of the window":        {5, 9, 2, 2, 7, floor(9), ReadArchive},
		"floor beyond the window":               {5, 9, 2, 2, 7, floor(12), ReadArchive},
		"short page, floor above the cursor":    {5, 9, 1, 2, 9, floor(6), ReadArchive},
		"empty page, floor above the cursor":    {5, 9, 0, 2, 0, floor(6), ReadArchive},
		"no floor":                              {5, 9, 2, 2, 7, Proof{}, AskWatermark},
		"no floor, empty page":                  {5, 9, 0, 2, 0, Proof{}, AskWatermark},
		"no floor, from the first record":       {0, 9, 2, 2, 2, Proof{}, AskWatermark},
		"no floor, nothing archived":            {0, 9, 2, 2, 2, asked(0), YieldPage},
		"no floor, nothing archived, short":     {0, 9, 1, 2, 2, asked(0), YieldLast},
		"no floor, archived above the cursor":   {5, 9, 2, 2, 7, asked(6), ReadArchive},
		"no floor, archived up to the cursor":   {5, 9, 2, 2, 7, asked(5), YieldPage},
		"from the first record, floor":          {0, 9, 2, 2, 2, floor(1), ReadArchive},
		"the floor counts, not the old answer":  {5, 9, 2, 2, 7, Proof{Floor: at(6), Watermark: at(5), Asked: true}, ReadArchive},
		"one record asked for, one given":       {5, 9, 1, 1, 6, floor(5), YieldPage},
		"one record asked for, the last of all": {5, 6, 1, 1, 6, floor(5), YieldLast},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			facts := PageFacts{Cursor: at(tt.cursor), To: at(tt.to), Records: tt.records, Asked: tt.asked, Last: at(tt.last), Proof: tt.proof}
			if got := DecidePage(facts); got != tt.want {
				t.Errorf("DecidePage(%+v) = %s, want %s", facts, got, tt.want)
			}
		})
	}
}

func TestDecideBelow(t *testing.T) {
	tests := map[string]struct {
		after, high uint64
		proof       Proof
		want        Step
	}{
		"nothing left of the window":          {5, 5, Proof{Floor: at(9)}, End},
		"no floor":                            {5, 7, Proof{}, AskWatermark},
		"nothing archived":                    {5, 7, Proof{Asked: true}, End},
		"archived below the window":           {5, 7, Proof{Floor: at(5)}, End},
		"archived inside the window":          {5, 7, Proof{Floor: at(6)}, ReadArchive},
		"archived above the window":           {5, 7, Proof{Floor: at(9)}, ReadArchive},
		"no floor, archived below the window": {5, 7, Proof{Watermark: at(5), Asked: true}, End},
		"no floor, archived":                  {0, 7, Proof{Watermark: at(1), Asked: true}, ReadArchive},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			facts := BelowFacts{After: at(tt.after), High: at(tt.high), Proof: tt.proof}
			if got := DecideBelow(facts); got != tt.want {
				t.Errorf("DecideBelow(%+v) = %s, want %s", facts, got, tt.want)
			}
		})
	}
}

func TestGapBefore(t *testing.T) {
	tests := map[string]struct {
		facts liveFacts
		to    evtid.ID
		gone  bool
	}{
		"first page, no floor":                    {liveFacts{cursor: at(2), to: at(9), first: at(5)}, evtid.ID{}, false},
		"first page, floor at the cursor":         {liveFacts{cursor: at(2), to: at(9), first: at(5), floor: at(2)}, evtid.ID{}, false},
		"first page, floor above the cursor":      {liveFacts{cursor: at(2), to: at(9), first: at(5), floor: at(4)}, at(4), true},
		"first page begins below the floor":       {liveFacts{cursor: at(2), to: at(9), first: at(3), floor: at(7)}, at(3).Prev(), true},
		"first page is dense, floor above":        {liveFacts{cursor: at(3).Prev(), to: at(9), first: at(3), floor: at(7)}, evtid.ID{}, false},
		"first page is empty, floor above":        {liveFacts{cursor: at(2), to: at(9), floor: at(4)}, at(4), true},
		"first page is empty, floor above window": {liveFacts{cursor: at(2), to: at(9), floor: at(12)}, at(9), true},
		"anchor seen":                  {liveFacts{cursor: at(2), to: at(9), first: at(5), anchored: true, seen: true}, evtid.ID{}, false},
		"anchor seen, floor above":     {liveFacts{cursor: at(2), to: at(9), first: at(5), floor: at(8), anchored: true, seen: true}, evtid.ID{}, false},
		"anchor gone":                  {liveFacts{cursor: at(2), to: at(9), first: at(5), anchored: true}, at(5).Prev(), true},
		"anchor gone, page empty":      {liveFacts{cursor: at(2), to: at(9), anchored: true}, at(9), true},
		"anchor gone, nothing between": {liveFacts{cursor: at(2), to: at(9), first: at(2).Next(), anchored: true}, evtid.ID{}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			to, gone := gapBefore(tt.facts)
			if gone != tt.gone || gone && to != tt.to {
				t.Errorf("gapBefore(%+v) = %s, %t; want %s, %t", tt.facts, to, gone, tt.to, tt.gone)
			}
		})
	}
}

func TestReached(t *testing.T) {
	tests := []struct {
		newest, known, to uint64
		want              bool
	}{
		{5, 5, 9, true},
		{6, 5, 9, true},
		{4, 5, 9, false},
		{0, 5, 9, false},
		{9, 9, 9, true},
		{8, 9, 9, false},
		{8, 10, 9, true},
		{0, 10, 9, true},
	}
	for _, tt := range tests {
		if got := reached(at(tt.newest), at(tt.known), at(tt.to)); got != tt.want {
			t.Errorf("reached(newest %d, known %d, to %d) = %t, want %t", tt.newest, tt.known, tt.to, got, tt.want)
		}
	}
}

func TestStepsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for s := AskWatermark; s <= End; s++ {
		if name := s.String(); name == "" || seen[name] {
			t.Errorf("step %d is called %q", s, name)
		} else {
			seen[name] = true
		}
	}
}
