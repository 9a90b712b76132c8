#!/bin/sh
# SPDX-License-Identifier: MIT
# From a fresh Debian machine to a running demo or to passed tests.
#
#   ./bootstrap.sh demo       install what is needed, configure, build, run the demo
#   ./bootstrap.sh check      the same set-up, then the tests
#   ./bootstrap.sh ci         install what "make check-ci" and "make check-full" need
#   ./bootstrap.sh build      install what building needs, configure, build
#   ./bootstrap.sh packages WHAT    print the packages of demo, check, ci or build
#
# Installs only what is missing, as root or by sudo. Without either it goes on if nothing is
# missing, else says what is. A second run installs and builds nothing. O= is where to build.
set -eu
cd "$(dirname "$0")"
O=${O:-build}

build_pkgs='make gcc libc6-dev pkg-config kconfig-frontends-nox liburing-dev'
demo_pkgs="$build_pkgs dataset-fashion-mnist zlib1g-dev libdnnl2"
# ca-certificates is not here: the archive is reached as the machine's apt is set up
check_pkgs="$demo_pkgs g++ perl xz-utils"
ci_pkgs="$check_pkgs clang libclang-rt-14-dev sparse linux-kbuild-6.1 git valgrind"

usage() {
	sed -n '5,9s/^# *//p' "$0" >&2
	exit 2
}

say() {
	echo "bootstrap: $*" >&2
}

pkgs_of() {
	case $1 in
	build) echo "$build_pkgs" ;;
	demo) echo "$demo_pkgs" ;;
	check) echo "$check_pkgs" ;;
	ci) echo "$ci_pkgs" ;;
	*) usage ;;
	esac
}

installed() {	# installed PACKAGE
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

install_missing() {	# install_missing PACKAGES
	missing=
	if ! command -v dpkg-query >/dev/null; then
		say "this is no Debian; what is needed is, by Debian's names: $*"
		say "going on with what is there"
		return 0
	fi
	for p in "$@"; do
		installed "$p" || missing="$missing $p"
	done
	[ -n "$missing" ] || return 0
	if [ "$(id -u)" != 0 ] && ! { command -v sudo >/dev/null && sudo -n true 2>/dev/null ||
	     { command -v sudo >/dev/null && [ -t 0 ]; }; }; then
		say "not installed, and neither root nor sudo to do it:$missing"
		return 1
	fi
	say "installing:$missing"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update >&2 ||
		say "warning: apt-get update failed; trying with the lists that are there"
	# shellcheck disable=SC2086
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
		install $missing >&2
}

[ $# -ge 1 ] || usage
what=$1
case $what in
packages)
	pkgs_of "${2:-demo}"
	exit
	;;
demo|check|ci|build) ;;
*) usage ;;
esac

# shellcheck disable=SC2046
install_missing $(pkgs_of "$what")
[ "$what" != ci ] || exit 0

jobs=$(nproc 2>/dev/null || echo 2)
[ -f "$O/.config" ] || make O="$O" simnpu_defconfig
make O="$O" -j"$jobs" all
case $what in
demo) exec make O="$O" demo ;;
check) exec make O="$O" -j"$jobs" check ;;
esac
