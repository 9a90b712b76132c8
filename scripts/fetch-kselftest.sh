#!/bin/sh
# SPDX-License-Identifier: MIT
# fetch-kselftest.sh DEST: put kselftest_harness.h and kselftest.h into DEST.
#
# They come, in this order, from $KSELFTEST_DIR (a kernel tree's tools/testing/selftests), the
# cache, an installed linux-source-6.1, or that package, downloaded and not installed. What is
# found in none of the lines of kselftest.sha256 is used with a warning, once a small program
# shows that it counts passes, failures, skips, crashes and time-outs as our tests rely on.
set -eu
here=$(dirname "$0")
dest=$1
if [ -n "${XDG_CACHE_HOME:-}${HOME:-}" ]; then
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/libnpu/kselftest-6.1
else
	cache=$dest/cache
fi
headers='kselftest_harness.h kselftest.h'
sub=linux-source-6.1/tools/testing/selftests

say() {
	echo "fetch-kselftest: $*" >&2
}

complete() {	# complete DIR: are both there?
	for h in $headers; do
		[ -s "$1/$h" ] || return 1
	done
}

extract() {	# extract: a linux-source tar on standard input, headers into $tmp
	tar -xJf - -C "$tmp" --strip-components=4 --occurrence=1 \
		$(for h in $headers; do echo "$sub/$h"; done)
}

obtain() {	# obtain: fill $tmp from the first place that has them
	if [ -n "${KSELFTEST_DIR:-}" ]; then
		for h in $headers; do cp "$KSELFTEST_DIR/$h" "$tmp/"; done
	elif [ -r /usr/src/linux-source-6.1.tar.xz ]; then
		extract </usr/src/linux-source-6.1.tar.xz
	elif command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
		say "downloading Debian's linux-source-6.1 (140 MB, once)"
		(cd "$tmp" && apt-get download -q linux-source-6.1 >log 2>&1) || {
			cat "$tmp/log" >&2
			say "cannot download linux-source-6.1: try 'apt-get update', or set" \
			    "KSELFTEST_DIR to tools/testing/selftests of a kernel tree"
			return 1
		}
		# extract stops at what it wants, which the others complain about
		dpkg-deb --fsys-tarfile "$tmp"/linux-source-6.1_*.deb 2>/dev/null |
			tar -xOf - ./usr/src/linux-source-6.1.tar.xz 2>/dev/null | extract
	else
		say "no apt-get here: set KSELFTEST_DIR to tools/testing/selftests" \
		    "of a Linux 6.1 tree"
		return 1
	fi
}

known() {	# known DIR: is each header one of the list?
	for h in $headers; do
		sum=$(sha256sum "$1/$h" | cut -d' ' -f1)
		grep -q "^$sum  $h\$" "$here/kselftest.sha256" || return 1
	done
}

works() {	# works DIR: does the harness count as our tests rely on?
	${CC:-cc} -std=gnu11 -w -isystem "$1" -o "$tmp/try" "$here/kselftest-try.c" || return 1
	out=$("$tmp/try" 2>&1) && return 1	# two of its tests fail
	for line in 'TAP version 13' '1\.\.5' 'ok 1 global.passes' 'not ok 2 global.fails' \
		    'ok 3 # SKIP a reason' 'ok 4 global.dies' 'not ok 5 fix.hangs'; do
		echo "$out" | grep -q "^$line" || { say "its output lacks: $line"; return 1; }
	done
}

mkdir -p "$dest"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

if [ -z "${KSELFTEST_DIR:-}" ] && complete "$cache"; then
	for h in $headers; do cp "$cache/$h" "$tmp/"; done
else
	obtain
	complete "$tmp" || { say "the headers are not where they were expected"; exit 1; }
fi

if ! known "$tmp"; then
	works "$tmp" || { say "this copy of the harness does not work; not used"; exit 1; }
	say "warning: this copy of the harness is not listed in scripts/kselftest.sha256;" \
	    "it passes its self-test and is used"
fi
if [ -z "${KSELFTEST_DIR:-}" ] && ! complete "$cache" && mkdir -p "$cache" 2>/dev/null; then
	for h in $headers; do	# whole files only, whoever else is doing the same
		cp "$tmp/$h" "$cache/.$h.$$" && mv "$cache/.$h.$$" "$cache/$h"
	done
fi
for h in $headers; do cp "$tmp/$h" "$dest/"; done
