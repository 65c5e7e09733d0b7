package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// outputFlag declares -o. Every verb knows table, json (one document) and jsonl (a
// line for each element of what json prints as a list); verbs whose lines are records
// know id as well, which more says.
func (a *app) outputFlag(cmd *cobra.Command, preset string, more ...string) {
	formats := append([]string{"table", "json", "jsonl"}, more...)
	format := cmd.Flags().StringP("output", "o", preset, "output format: "+strings.Join(formats, "|"))
	before(cmd, func() error {
		if !slices.Contains(formats, *format) {
			return usage(fmt.Errorf("output format %q is unknown here; use one of %s", *format, strings.Join(formats, ", ")))
		}
		a.output = *format
		return nil
	})
}

// show prints a value as JSON, or its rows as an aligned table.
func (a *app) show(v any, rows [][2]string) error {
	if a.output != "table" {
		return a.json(v)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\n", r[0], r[1])
	}
	return w.Flush()
}

// json prints a value as one document, or as lines.
func (a *app) json(v any) error {
	enc := json.NewEncoder(a.out)
	list := reflect.ValueOf(v)
	switch {
	case a.output != "jsonl":
		enc.SetIndent("", "  ")
	case list.Kind() == reflect.Slice:
		for i := range list.Len() {
			if err := enc.Encode(list.Index(i).Interface()); err != nil {
				return err
			}
		}
		return nil
	}
	return enc.Encode(v)
}

// itemPrinter writes the items of a list as they come. An array of json is closed by
// end alone, so that one that broke off cannot be taken for a whole one.
type itemPrinter struct {
	format string
	out    *bufio.Writer
	n      int
}

// put writes one item, which has no line break.
func (p *itemPrinter) put(item []byte) error {
	before, behind := "", "\n"
	if p.format == "json" {
		before, behind = ",\n", ""
		if p.n == 0 {
			before = "[\n"
		}
	}
	p.n++
	for _, part := range [][]byte{[]byte(before), item, []byte(behind)} {
		if _, err := p.out.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// flush passes on what was put; last says that there is nothing more.
func (p *itemPrinter) flush(last bool) (err error) {
	if last {
		err = p.end()
	}
	return errors.Join(err, p.out.Flush())
}

func (p *itemPrinter) end() error {
	if p.format != "json" {
		return nil
	}
	text := "\n]\n"
	if p.n == 0 {
		text = "[]\n"
	}
	_, err := p.out.WriteString(text)
	return err
}
