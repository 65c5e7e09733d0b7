package main

import (
	"encoding/json"
	"fmt"
	goruntime "runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog/keyspace"
)

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "The version of this program and of the wire format it speaks",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version string `json:"version"`
				Wire    string `json:"wire"`
				Go      string `json:"go"`
			}{buildVersion(), keyspace.VersionValue, goruntime.Version()}
			if a.output != "table" {
				return json.NewEncoder(a.out).Encode(v)
			}
			_, err := fmt.Fprintf(a.out, "evtlog %s (wire %s, %s)\n", v.Version, v.Wire, v.Go)
			return err
		},
	}
	a.outputFlag(cmd, "table")
	return cmd
}

// buildVersion is the module version the program was built from, or "devel".
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
