package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Host is where and with what a report was measured.
type Host struct {
	Date     string `json:"date"`
	System   string `json:"system"`
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	Go       string `json:"go"`
	Redis    string `json:"redis"`
	Revision string `json:"revision,omitempty"`
	// Quick is set when the run had fewer records.
	Quick bool `json:"quick,omitempty"`
	// LoadBefore and LoadAfter are the load averages over one minute: whether
	// somebody else used the machine.
	LoadBefore string `json:"load_before,omitempty"`
	LoadAfter  string `json:"load_after,omitempty"`
	// Peers are the versions of the peers that were built.
	Peers map[string]string `json:"peers,omitempty"`
}

func describeHost(ctx context.Context, e *env) Host {
	h := Host{
		Date: time.Now().UTC().Format(time.RFC3339), System: system(), CPU: cpuModel(), Cores: runtime.NumCPU(),
		Go: runtime.Version(), Quick: e.quick, LoadBefore: load(), Revision: revision(ctx),
	}
	if out, err := exec.CommandContext(ctx, "redis-server", "--version").Output(); err == nil {
		h.Redis = field(string(out), "v=")
	}
	if program, err := e.peers(); err == nil {
		if out, err := exec.CommandContext(ctx, program, "versions").Output(); err == nil {
			_ = json.Unmarshal(out, &h.Peers)
		}
	}
	return h
}

// field returns the word that begins with a prefix, without it.
func field(text, prefix string) string {
	for word := range strings.FieldsSeq(text) {
		if v, ok := strings.CutPrefix(word, prefix); ok {
			return v
		}
	}
	return ""
}

func system() string {
	b, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return runtime.GOOS + "/" + runtime.GOARCH
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(v, `"`)
		}
	}
	return runtime.GOOS + "/" + runtime.GOARCH
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(b)) {
		if name, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return runtime.GOARCH
}

// load is the load average over the last minute, "" where it is not known.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b), " ")
	return first
}

// revision is the commit that was measured.
func revision(ctx context.Context) string {
	if out, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output(); err == nil {
		return strings.TrimSpace(string(out))
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}
