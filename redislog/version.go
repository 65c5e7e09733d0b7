package redislog

import (
	"fmt"
	"strconv"
	"strings"
)

// VersionError says that the server's version is known not to work. Upgrade the
// server.
type VersionError struct {
	// Version is the server's, Reason what is wrong with it.
	Version, Reason string
	// Addr is the server's address.
	Addr string
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("redislog: redis %s at %s is not supported: %s", e.Version, e.Addr, e.Reason)
}

// version is major, minor, patch.
type version [3]int

// parseVersion reads "7.0.15". Missing or odd parts read as 0; ok is false when
// there is no leading number.
func parseVersion(s string) (v version, ok bool) {
	for i, part := range strings.SplitN(s, ".", 3) {
		n := 0
		digits := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		if digits < 0 {
			digits = len(part)
		}
		n, err := strconv.Atoi(part[:digits])
		if err != nil {
			return v, i > 0
		}
		v[i] = n
	}
	return v, true
}

func (v version) less(o version) bool {
	for i := range v {
		if v[i] != o[i] {
			return v[i] < o[i]
		}
	}
	return false
}

// badVersions are refused: from is the first, until the first good one again.
var badVersions = []struct {
	from, until version
	reason      string
}{
	{version{0, 0, 0}, version{6, 2, 0}, "6.2 or later is needed (XAUTOCLAIM, XTRIM MINID, exclusive ranges)"},
	{version{6, 2, 0}, version{6, 2, 7}, "XTRIM MINID can remove entries above the id asked for (redis issue 9410); upgrade to 6.2.7 or later"},
	{version{7, 0, 0}, version{7, 0, 5}, "XAUTOCLAIM over trimmed entries corrupts the server's memory (CVE-2022-31144, CVE-2022-35951); upgrade to 7.0.5 or later"},
}

// checkVersion refuses known bad versions. A server that does not say its
// version passes.
func checkVersion(s string) (reason string, ok bool) {
	v, known := parseVersion(s)
	if !known {
		return "", true
	}
	for _, bad := range badVersions {
		if !v.less(bad.from) && v.less(bad.until) {
			return bad.reason, false
		}
	}
	return "", true
}
