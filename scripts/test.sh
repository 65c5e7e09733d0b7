#!/usr/bin/env bash
# Vets and tests everything, with the race detector and a real redis-server.
# What is missing for that (redis-server, a C compiler) is installed with apt.
#
#   scripts/test.sh                             all packages
#   scripts/test.sh -run TestMint ./evtid/...   arguments go to go test
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
	echo "test.sh: $*" >&2
	exit 1
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

# install COMMAND PACKAGE...: makes the command available.
install() {
	local command=$1 log
	shift
	command -v "$command" >/dev/null && return
	command -v apt-get >/dev/null ||
		fail "$command is not on PATH and there is no apt-get to install it with; install it by hand (Redis 6.2 or later, a C compiler) and run this again"
	[ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null ||
		fail "$command is not on PATH and installing it needs root; run as root: apt-get install $*"
	echo "test.sh: $command is missing; installing $*"
	log=$(mktemp)
	if ! { as_root apt-get update && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null; then
		cat "$log" >&2
		rm -f "$log"
		fail "apt-get could not install $*; see above"
	fi
	rm -f "$log"
	command -v "$command" >/dev/null || fail "$* was installed, but $command is not on PATH"
}

command -v go >/dev/null || fail "go is not on PATH; install Go 1.26 or later from https://go.dev/dl"
install redis-server redis-server
install "$(go env CC)" gcc libc6-dev # the race detector is C

module=$(go list -m)
packages=()
for arg in "$@"; do
	case $arg in
	. | ./* | ../* | "$module"*) packages+=("$arg") ;;
	esac
done
if [ ${#packages[@]} -eq 0 ]; then
	packages=(./...)
	set -- "$@" ./...
fi

go vet "${packages[@]}"
# Everything is compiled at full width first; then one package at a time is run:
# many tests are about real time-outs, and two packages would starve each other.
go test -race -run '^$' "${packages[@]}" >/dev/null
exec go test -race -p 1 -timeout 10m "$@"
