package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

// Report is what one run has measured.
type Report struct {
	Host Host  `json:"host"`
	Rows []Row `json:"rows"`
}

// failure names the rows that could not be measured. Missed targets are no
// failure.
func (r Report) failure() error {
	var failed []string
	for _, row := range r.Rows {
		if row.Error != "" {
			failed = append(failed, row.Name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("could not measure %s", strings.Join(failed, ", "))
	}
	return nil
}

func readReport(path string) (Report, error) {
	var r Report
	b, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s is not a recorded report: %w", path, err)
	}
	return r, nil
}

func writeReport(path string, r Report) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// show prints a report. As JSON it is the rows only; -record keeps the rest.
func show(out io.Writer, format string, r Report) error {
	switch format {
	case "json":
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(r.Rows)
	case "md":
		return showMarkdown(out, r)
	case "svg":
		_, err := out.Write(chart(r))
		return err
	}
	return showTable(out, r)
}

func showTable(out io.Writer, r Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tRATIO\tTARGET\tOK\tPRODUCT\tLIMIT\tUNIT\tP50 µs\tP99 µs\tALLOCS\tBYTES\tCLIENT s/M\tSERVER s/M\tAGAINST")
	for _, row := range r.Rows {
		switch {
		case row.Error != "":
			fmt.Fprintf(w, "%s\tfailed: %s\n", row.Name, row.Error)
			continue
		case row.Skipped != "":
			fmt.Fprintf(w, "%s\tskipped: %s\n", row.Name, row.Skipped)
			continue
		}
		fmt.Fprintf(w, "%s\t%.2f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			row.Name, row.Ratio, row.bound(), yes(row), figure(row.Product), figure(row.Limit), row.Unit,
			figure(row.P50), figure(row.P99), figure(row.Allocs), figure(row.Bytes),
			figure(row.ClientCPU), figure(row.ServerCPU), row.Against)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, row := range r.Rows {
		if row.Note != "" {
			fmt.Fprintf(out, "%s: %s\n", row.Name, row.Note)
		}
	}
	h := r.Host
	_, err := fmt.Fprintf(out, "%s, %s, %d cores, %s, Redis %s, %s, load %s before and %s after\n",
		h.System, h.CPU, h.Cores, h.Go, h.Redis, h.Date, h.LoadBefore, h.LoadAfter)
	return err
}

// showMarkdown prints the table of a document.
func showMarkdown(out io.Writer, r Report) error {
	var b strings.Builder
	b.WriteString("| row | ratio | target | reached | product | limit | unit | against |\n|---|---|---|---|---|---|---|---|\n")
	for _, row := range r.Rows {
		switch {
		case row.Error != "":
			fmt.Fprintf(&b, "| %s | | | failed | | | | |\n", row.Name)
		case row.Skipped != "":
			fmt.Fprintf(&b, "| %s | | | skipped: %s | | | | |\n", row.Name, row.Skipped)
		default:
			fmt.Fprintf(&b, "| %s | %.2f | %s | %s | %s | %s | %s | %s |\n", row.Name, row.Ratio, row.bound(), yes(row),
				figure(row.Product), figure(row.Limit), row.Unit, row.Against)
		}
	}
	for _, line := range caption(r.Host) {
		b.WriteString("\n" + line + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// yes is the verdict in the table.
func yes(r Row) string {
	switch {
	case r.Informative:
		return "–"
	case r.OK:
		return "yes"
	}
	return "NO"
}

// figure prints a number with as many digits as it deserves, and nothing for 0.
func figure(v float64) string {
	switch {
	case v == 0:
		return ""
	case v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f", v)
	case v >= 1:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
