#!/bin/sh
# SPDX-License-Identifier: MIT
# run-tests.sh -p 'TESTS' -a 'TESTS' -n 'GLOBS': run the first side by side, the second one by one;
# the globs are those that match no test: an error.
# Started in $(O) by make; closes with prove's own lines. JOBS= says how many at a time (2).
# run-tests.sh TEST: what prove calls; a failed test's words are shown, on descriptor 3.
set -u

if [ $# = 1 ]; then
	${WRAP:-} "$1" >"$1.out" 2>&1
	rc=$?
	cat "$1.out"
	[ $rc = 0 ] && ! grep -q '^not ok' "$1.out" && exit 0
	{ echo "---- $1:"; grep -vE '^(ok |# +(RUN|OK) )' "$1.out" | tail -n 150; } >&3
	exit $rc
fi
exec 3>&1

par= alone= stray=
while getopts p:a:n: o; do
	case $o in
	p) par=$OPTARG ;;
	a) alone=$OPTARG ;;
	n) stray=$OPTARG ;;
	*) exit 2 ;;
	esac
done

if [ -z "$(echo $par $alone)" ]; then
	echo "*** no test was chosen" >&2
	exit 1
fi
if [ -n "$stray" ]; then
	echo "*** no test matches $stray" >&2
	exit 1
fi
command -v prove >/dev/null || { echo "*** prove is not installed (Debian: perl)" >&2; exit 1; }

# reports of the sanitizers must end the program, and say where
a=detect_stack_use_after_return=1:strict_string_checks=1
export ASAN_OPTIONS="$a${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}"
# tests do not see the jobserver, the goals or the configuration of this make
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES KCONFIG_CONFIG NPU_OPTIONS

# the programs' rpath has $ORIGIN, which a root folder without /proc does not know
export LD_LIBRARY_PATH="$PWD${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

rc=0
[ -z "$(echo $par)" ] || prove -j"${JOBS:-2}" --timer --merge -e "$0" $par || rc=1
[ -z "$(echo $alone)" ] || prove -j1 --timer --merge -e "$0" $alone || rc=1
[ $rc = 0 ] || echo "*** some tests failed (above)"
exit $rc
