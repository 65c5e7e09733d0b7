package redislog

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// endpoint is what a URL says.
type endpoint struct {
	// network and addr are net.Dial's; addr is also what errors show.
	network, addr  string
	user, password string
	db             int
	tls            bool
	// host is the name that TLS verifies.
	host string
}

// parseURL reads a redis://, rediss:// or unix:// URL. The error is a
// *ConfigError that repeats nothing of the URL: in a malformed one, any part
// can turn out to hold the password.
func parseURL(raw string) (endpoint, error) {
	if !strings.Contains(raw, "://") {
		return endpoint{}, badURL("it has no scheme; write redis://host:port/database")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" {
		// url's own error quotes the whole URL, password included.
		return endpoint{}, badURL("it cannot be parsed; percent-encode special characters in the password")
	}
	var ep endpoint
	switch u.Scheme {
	case "redis", "rediss":
		ep, err = parseTCP(u)
	case "unix":
		ep, err = parseUnix(u)
	default:
		err = badURL("its scheme must be redis, rediss or unix")
	}
	if err == nil && u.Fragment != "" {
		err = badURL("it has a fragment; percent-encode '#' in the password")
	}
	if err == nil {
		ep.user, ep.password, err = parseUser(u.User)
	}
	if err != nil {
		return endpoint{}, err
	}
	return ep, nil
}

func parseTCP(u *url.URL) (endpoint, error) {
	host, port := u.Hostname(), u.Port()
	if host == "" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = "6379"
	}
	if u.RawQuery != "" || u.ForceQuery {
		return endpoint{}, badURL("it has parameters, and none are known; percent-encode '?' in the password")
	}
	db, err := parseDB(strings.TrimPrefix(u.Path, "/"))
	if err != nil {
		return endpoint{}, err
	}
	return endpoint{network: "tcp", addr: net.JoinHostPort(host, port), db: db, tls: u.Scheme == "rediss", host: host}, nil
}

func parseUnix(u *url.URL) (endpoint, error) {
	if u.Host != "" || u.Path == "" {
		return endpoint{}, badURL("a socket is written unix:///absolute/path.sock")
	}
	for name := range u.Query() {
		if name != "db" {
			return endpoint{}, badURL("the only parameter is db; percent-encode '?' in the password")
		}
	}
	db, err := parseDB(u.Query().Get("db"))
	if err != nil {
		return endpoint{}, err
	}
	return endpoint{network: "unix", addr: u.Path, db: db}, nil
}

func parseDB(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	db, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, badURL("what follows the host is not the number of a database; percent-encode '/' in the password")
	}
	return int(db), nil
}

// parseUser refuses the two forms that redigo would treat as "no password" or
// take for one: both end in a session under another user than was meant.
func parseUser(info *url.Userinfo) (user, password string, err error) {
	if info == nil {
		return "", "", nil
	}
	password, _ = info.Password()
	if password == "" {
		return "", "", badURL("it names a user without a password; write user:password@ or :password@")
	}
	return info.Username(), password, nil
}

func badURL(reason string) error { return &ConfigError{Field: "URL", Reason: reason} }
