#!/bin/sh
# SPDX-License-Identifier: MIT
# check-ci.sh ci | full: the suites of "make check-ci" and "make check-full", each in a build folder
# of its own below $objtree, with the time that each took. SUITES='gcc tsan' chooses some.
#
# "full" leaves a stamp for each suite that passed with the sources as they are, and skips it the
# next time: it can be stopped and goes on where it was. The random configurations of "ci" follow
# from the sources, so that a failure can be repeated; SEED= chooses others.
set -u
: "${srctree:?}" "${objtree:?}"
mode=$1
base=$objtree/$mode
cd "$srctree" || exit 2
jobs=$(nproc 2>/dev/null || echo 2)
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES KCONFIG_CONFIG O CC CXX CFLAGS
failed= table=
began=$(date +%s)
mkdir -p "$base"

# the tests that show most of each sanitizer in the time there is; all of them in full
asan_tests='hal/* drivers/* runtime/*'
tsan_tests='hal/* drivers/* runtime/*'
valgrind_tests='hal/driver_test hal/failing_test hal/handle_test hal/error_test'
valgrind_tests="$valgrind_tests runtime/options_test runtime/init_test"

sources() {	# a name for the sources as they are
	{ git ls-files -co --exclude-standard 2>/dev/null ||
		find . -path "./$(basename "$objtree")" -prune -o -type f -print; } |
		sort | xargs cat 2>/dev/null | sha256sum | cut -c1-16
}
state=$(sources)

# suite NAME COMMAND...: run it, keep its output, note its time
suite() {
	suite=$1
	shift
	case " ${SUITES:-$suite} " in *" $suite "*) ;; *) return 0 ;; esac
	stamp=$base/$suite.passed
	if [ "$mode" = full ] && [ "$(cat "$stamp" 2>/dev/null)" = "$state" ]; then
		echo "== $suite: passed before"
		return 0
	fi
	echo "== $suite"
	t0=$(date +%s)
	if "$@" >"$base/$suite.log" 2>&1; then
		res=ok
		[ "$mode" = ci ] || echo "$state" >"$stamp"
	else
		res=FAIL
		failed="$failed $suite"
		grep -vE '^  (CC|CXX|LD|AR) ' "$base/$suite.log" | tail -n 60
	fi
	grep -E '^Files=' "$base/$suite.log" | sed 's/^/   /'
	t=$(($(date +%s) - t0))
	echo "== $suite: $res, $t s"
	table="$table$(printf '%6d s  %-4s  %s' $t $res "$suite")
"
}

# mk DIR ARGS...: make in the build folder DIR
mk() {
	dir=$1
	shift
	make O="$base/$dir" -j"$jobs" "$@"
}

# build DIR DEFCONFIG CC [SYMBOL=VALUE...]: configure as DEFCONFIG says, change symbols, build all
build() {
	dir=$1 cfg=$2 cc=$3
	shift 3
	mk "$dir" CC="$cc" "$cfg" || return 1
	for sym; do
		name=${sym%%=*}
		sed -i "/^CONFIG_$name=/d; /^# CONFIG_$name is not set/d" "$base/$dir/.config"
		case $sym in
		*=n) echo "# CONFIG_$name is not set" ;;
		*) echo "CONFIG_$sym" ;;
		esac >>"$base/$dir/.config"
	done
	mk "$dir" CC="$cc" all
}

plain() {	# plain CC [TESTS]: release build and tests by this compiler
	build "$1" simnpu_defconfig "$1" && mk "$1" CC="$1" ${2+TESTS="$2"} $check
}

asan() {	# asan CC [TESTS]
	build "asan-$1" debug_defconfig "$1" && mk "asan-$1" CC="$1" ${2+TESTS="$2"} $check
}

tsan() {	# tsan CC [TESTS]
	build "tsan-$1" debug_defconfig "$1" SANITIZE_ADDRESS=n SANITIZE_THREAD=y &&
		mk "tsan-$1" CC="$1" ${2+TESTS="$2"} $check
}

fuzz() {	# the boundaries that any byte string may reach
	mk fuzz CC=clang debug_defconfig && mk fuzz CC=clang FUZZ_SECONDS=60 fuzz-ioctl &&
		mk fuzz CC=clang FUZZ_SECONDS=20 fuzz-weights
}

appliance() {
	build appliance appliance_defconfig gcc && size "$base/appliance/libnpu.a"
}

config() {	# config GOAL NAME [SEED]: a generated configuration, built, and if it can be tested
	export KCONFIG_SEED="${3:-0}"
	mk "$2" CC=gcc "$1" || return 1
	# sanitizers have suites of their own
	sed -i 's/^CONFIG_SANITIZE_\(ADDRESS\|THREAD\)=y/# CONFIG_SANITIZE_\1 is not set/
		s/^# CONFIG_SANITIZE_NONE is not set/CONFIG_SANITIZE_NONE=y/' "$base/$2/.config"
	grep -E '^CONFIG_|is not set' "$base/$2/.config"
	mk "$2" CC=gcc all || return 1
	if grep -q '^CONFIG_SELFTESTS=y' "$base/$2/.config" &&
	   grep -q '^CONFIG_DRV_SIMNPU=y' "$base/$2/.config"; then
		mk "$2" CC=gcc TESTS='hal/* drivers/* runtime/*' check
	fi
}

layouts() {
	scripts/check.sh --quick uapi
}

tree() {
	mk gcc CC=gcc gen-docs && O=$base/gcc scripts/check.sh
}

under_valgrind() {
	export WRAP="valgrind -q --fair-sched=try --error-exitcode=99"
	export NPU_TEST_SLOWER=20
	# it marks each 64 KiB of what a program reserves: minutes for as much as a device has else
	export NPU_SIMNPU_MEMORY=64M
	build valgrind simnpu_defconfig gcc SIMNPU_ONEDNN=n &&
		mk valgrind CC=gcc TESTS="$valgrind_tests" check
}

# what this machine lacks
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	suite packages ./bootstrap.sh ci
else
	for p in clang valgrind sparse g++; do
		command -v $p >/dev/null || echo "not installed: $p (as root: ./bootstrap.sh ci)"
	done
fi

check=check
seed=${SEED:-$(printf %d 0x"$(echo "$state" | cut -c1-6)")}
case $mode in
ci)
	suite gcc	plain gcc
	suite tree	tree
	suite layouts	layouts
	suite clang	plain clang
	suite asan	asan gcc "$asan_tests"
	suite tsan	tsan gcc "$tsan_tests"
	suite appliance	appliance
	if command -v clang >/dev/null; then
		suite fuzz	fuzz
	fi
	for i in 1 2 3; do
		suite "random-$i" config randconfig "random-$i" $((seed * 10 + i))
	done
	;;
full)
	check=check-long
	suite gcc	plain gcc
	suite tree	tree
	suite clang	plain clang
	suite asan-gcc	asan gcc
	suite asan-clang asan clang
	suite tsan-gcc	tsan gcc
	suite tsan-clang tsan clang
	suite appliance	appliance
	suite allno	config allnoconfig allno
	suite allyes	config allyesconfig allyes
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		suite "random-$i" config randconfig "random-$i" "$i"
	done
	suite valgrind	under_valgrind
	;;
*)
	exit 2
	;;
esac

printf '\n%s%6d s  in all; random configurations from seed %s\n' "$table" \
	$(($(date +%s) - began)) "$seed"
if [ -n "$failed" ]; then
	echo "failed:$failed (logs in $base)"
	exit 1
fi
