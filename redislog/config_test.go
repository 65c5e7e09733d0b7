package redislog

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		url  string
		want endpoint
	}{
		{"redis://", endpoint{network: "tcp", addr: "127.0.0.1:6379", host: "127.0.0.1"}},
		{"redis://r.example", endpoint{network: "tcp", addr: "r.example:6379", host: "r.example"}},
		{"redis://r.example:1/7", endpoint{network: "tcp", addr: "r.example:1", host: "r.example", db: 7}},
		{"redis://[::1]:2/", endpoint{network: "tcp", addr: "[::1]:2", host: "::1"}},
		{"redis://:pw@h/0", endpoint{network: "tcp", addr: "h:6379", host: "h", password: "pw"}},
		{"redis://u:p%40%2F%3F@h", endpoint{network: "tcp", addr: "h:6379", host: "h", user: "u", password: "p@/?"}},
		{"rediss://h:3", endpoint{network: "tcp", addr: "h:3", host: "h", tls: true}},
		{"unix:///run/r.sock", endpoint{network: "unix", addr: "/run/r.sock"}},
		{"unix://u:pw@/run/r.sock?db=4", endpoint{network: "unix", addr: "/run/r.sock", user: "u", password: "pw", db: 4}},
	} {
		if got, err := parseURL(c.url); err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v", c.url, got, err)
		}
	}
}

func TestParseURLRefusesWithoutTellingSecrets(t *testing.T) {
	const secret = "hunter2"
	for _, url := range []string{
		"hunter2", "hunter2:6379", "http://:hunter2@h", "redis:hunter2", "redis://hunter2@h",
		"redis://u:@h", "redis://:hunter2/x@h", "redis://:hunter2?x@h", "redis://:hunter2#x@h/1",
		"redis://h/hunter2", "redis://h/-1", "redis://h/99999999999", "redis://h?hunter2=1", "redis://h?",
		"redis://u/hunter2@h", "redis://:hunter2 @h", "redis://:hunter2%zz@h", "redis://h:hunter2",
		"unix://hunter2/r.sock", "unix://", "unix:///r.sock?hunter2=1", "unix:///r.sock?db=hunter2", "unix:///r.sock#hunter2",
	} {
		_, err := parseURL(url)
		var config *ConfigError
		if !errors.As(err, &config) || config.Field != "URL" {
			t.Errorf("%s: got %v", url, err)
			continue
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error tells the secret: %v", url, err)
		}
	}
}

func TestParseURLSaysWhatASchemeIs(t *testing.T) {
	for _, url := range []string{"127.0.0.1:6379", "localhost:6379", "localhost", "/run/r.sock"} {
		if _, err := parseURL(url); err == nil || !strings.Contains(err.Error(), "it has no scheme; write redis://host:port/database") {
			t.Errorf("%s: got %v", url, err)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	cfg := Config{}.withDefaults()
	if cfg.URL != DefaultURL || cfg.ClientName != DefaultClientName || cfg.DialTimeout != DefaultDialTimeout ||
		cfg.CommandTimeout != DefaultCommandTimeout || cfg.PoolSize != DefaultPoolSize || cfg.Dialer == nil || cfg.Logger == nil {
		t.Fatalf("defaults: %+v", cfg)
	}
	if _, err := cfg.validate(); err != nil {
		t.Fatal(err)
	}
	own := Config{URL: "redis://h", ClientName: "n", DialTimeout: 1, CommandTimeout: 2, PoolSize: 3}.withDefaults()
	if own.URL != "redis://h" || own.ClientName != "n" || own.DialTimeout != 1 || own.CommandTimeout != 2 || own.PoolSize != 3 {
		t.Fatalf("given values changed: %+v", own)
	}
}

func TestConfigNamesTheField(t *testing.T) {
	for field, cfg := range map[string]Config{
		"URL":            {URL: "x"},
		"TLS":            {TLS: &tls.Config{}},
		"DialTimeout":    {DialTimeout: -1},
		"CommandTimeout": {CommandTimeout: time.Microsecond},
		"PoolSize":       {PoolSize: -1},
	} {
		_, err := Open(t.Context(), cfg)
		var config *ConfigError
		if !errors.As(err, &config) || config.Field != field || !strings.Contains(err.Error(), "Config."+field) {
			t.Errorf("%s: got %v", field, err)
		}
		if Classify(err) != Terminal {
			t.Errorf("%s: class %s", field, Classify(err))
		}
	}
}

func TestRoleName(t *testing.T) {
	if got := roleName("my app", "writer:cm/fe ed\n\u00fc"); got != "my_app:writer:cm/fe_ed___" {
		t.Fatalf("got %q", got)
	}
}
