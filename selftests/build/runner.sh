#!/bin/sh
# SPDX-License-Identifier: MIT
# The tests' own tools: make check fails when it must, and the harness sees what it must see.
. "${srctree:?run me by make check}/selftests/build/lib.sh"
make_toy

put selftests/hal/Makefile <<'END'
test-y += good_test two_test
two_test-objs := two_test.o ../help/help.o
test-so-y += so_test
test-sh-y += script.sh
test-alone-y += two_test
test-full-y += long_test
END
put selftests/hal/good_test.c <<'END'
#include "selftests/npu_kselftest.h"
#include "hal/toy.h"

FIXTURE(fix)
{
	void *mem;
};

FIXTURE_VARIANT(fix)
{
	int absent;
};

FIXTURE_VARIANT_ADD(fix, there)
{
	.absent = 0,
};

FIXTURE_VARIANT_ADD(fix, absent)
{
	.absent = 1,
};

FIXTURE_SETUP(fix)
{
	if (variant->absent)
		SETUP_SKIP("it is %s", "absent");
	self->mem = malloc(1);
}

FIXTURE_TEARDOWN(fix)
{
	free(self->mem);
}

TEST_F(fix, value)
{
	TH_LOG("a line of the test");
	ASSERT_EQ(0, variant->absent);
	EXPECT_EQ(4, hal_twice(2));
}

static void *volatile keep;

TEST(leak)
{
	const char *leak = getenv("LEAK");

	npu_test_may_leak = leak && *leak == 'm';
	if (leak) {
		keep = malloc(100);
		EXPECT_NE(NULL, keep);
		keep = NULL;
	}
}

TEST(fail)
{
	EXPECT_EQ(NULL, getenv("FAIL"));
}

TEST_HARNESS_MAIN
END
for t in two long; do
	put selftests/hal/${t}_test.c <<-'END'
		#include "selftests/npu_kselftest.h"
		TEST(runs) { EXPECT_EQ(0, IS_ENABLED(CONFIG_NO_SUCH)); }
		TEST_HARNESS_MAIN
	END
done
put selftests/help/help.c </dev/null
put selftests/hal/so_test.c <<'END'
#include "selftests/npu_kselftest.h"
#include <npu/npu.h>
TEST(public) { EXPECT_EQ(2, npu_toy(1)); }
TEST_HARNESS_MAIN
END
put selftests/hal/script.sh <<'END'
#!/bin/sh
echo ok 1 - a script
echo 1..1
[ -z "$FAIL_SH" ]
END
put selftests/data/Makefile <<'END'
modules-y += k_toy.so
END
echo 'int k_toy(void); int k_toy(void) { return 1; }' | put selftests/data/k_toy.c

check() {	# check ARGS...: make check; its output to $work/log
	in_toy check "$@" >"$work/log" 2>&1
	rc=$?
	cat "$work/log"
	return $rc
}

ran() {	# ran TESTS: these, in any order
	is "$1" "$(sed -n 's/^\[[0-9:]*\] selftests\/\([^ ]*\) .*/\1/p' "$work/log" | words)"
}

passes() {
	check && ran 'hal/good_test hal/script.sh hal/so_test hal/two_test' &&
		tail -n 1 "$work/log" | grep -qx 'Result: PASS' &&
		[ -e "$toy/build/selftests/data/k_toy.so" ]
}

alone() {	# in a call of prove of its own
	check >/dev/null && is 2 "$(grep -c '^Result: PASS' "$work/log")" &&
		sed '1,/^Result/d' "$work/log" | grep -q 'two_test' &&
		! sed '1,/^Result/d' "$work/log" | grep -q 'good_test'
}

filter() {
	check TESTS='hal/s*' && ran 'hal/script.sh hal/so_test'
}

longest() {
	check TESTS=hal/long_test && ran hal/long_test && in_toy check-long >"$work/log" 2>&1 &&
		ran 'hal/good_test hal/long_test hal/script.sh hal/so_test hal/two_test'
}

prog=$toy/build/selftests/hal/good_test
program() {	# program PATTERN ARGS...: a line that matches, from the test program itself
	pattern=$1
	shift
	"$prog" "$@" >"$work/tap" 2>/dev/null
	cat "$work/tap"
	grep -q -e "$pattern" "$work/tap"
}

one_only() {
	program '^1\.\.2' 'fix.*' && ! grep -q leak "$work/tap"
}

fetch() {	# fetch SOURCE: into $work/dest
	KSELFTEST_DIR=$1 "$srctree/scripts/fetch-kselftest.sh" "$work/dest"
}

unknown_copy() {	# another sum, the same behaviour: a warning
	cp -a "$objtree/include/kselftest" "$work/other" &&
		echo '/* changed */' >>"$work/other/kselftest_harness.h" &&
		fetch "$work/other" >"$work/said" 2>&1
	rc=$?
	cat "$work/said"
	[ $rc = 0 ] && grep -q 'warning: this copy' "$work/said" &&
		cmp "$work/other/kselftest_harness.h" "$work/dest/kselftest_harness.h"
}

broken_copy() {	# another sum, and failures count as passes: refused
	cp -a "$objtree/include/kselftest" "$work/broken" && rm -rf "$work/dest" &&
		sed -i 's/_metadata->passed = 0;/_metadata->passed = 1;/' \
			"$work/broken/kselftest_harness.h" &&
		refuses 'does not work' fetch "$work/broken" &&
		[ ! -e "$work/dest/kselftest_harness.h" ]
}

from_cache() {	# without network, from the cache
	rm -rf "$work/dest" && mkdir -p "$work/cache/libnpu" "$work/bin" &&
		cp -a "$objtree/include/kselftest" "$work/cache/libnpu/kselftest-6.1" &&
		printf '#!/bin/sh\nexit 1\n' >"$work/bin/apt-get" && chmod +x "$work/bin/apt-get" &&
		PATH=$work/bin:$PATH XDG_CACHE_HOME=$work/cache \
			"$srctree/scripts/fetch-kselftest.sh" "$work/dest" &&
		[ -s "$work/dest/kselftest_harness.h" ]
}

no_network() {	# nor cache: says what to do
	[ ! -r /usr/src/linux-source-6.1.tar.xz ] || return 0
	PATH=$work/bin:$PATH XDG_CACHE_HOME=$work/none refuses 'KSELFTEST_DIR' \
		"$srctree/scripts/fetch-kselftest.sh" "$work/dest2"
}

in_toy simnpu_defconfig >/dev/null 2>&1
ok 'make check passes, and prove closes it' passes
ok 'tests marked so run alone' alone
ok 'TESTS= chooses' filter
ok 'TESTS= that matches nothing fails' refuses 'no test was chosen' check TESTS='hal/nope*'
ok 'nor may one of several' refuses 'no test matches hal/nope' check TESTS='hal/s* hal/nope*'
ok 'long tests run by name, and in check-long' longest
ok 'a failing test fails' env FAIL=1 sh -c "! make -C '$toy' check"
ok 'and its words are shown' refuses 'good_test.c:.*fail:Expected' env FAIL=1 make -C "$toy" check
ok 'a failing script fails' env FAIL_SH=1 sh -c "! make -C '$toy' check"
ok 'skipping in the setup: reported, and the body does not run' program '# SKIP it is absent'
ok 'TH_LOG goes to standard output' program 'a line of the test'
ok 'a program runs the tests that match' one_only
ok 'a program lists its tests' program '^fix.value$' -l
# LeakSanitizer reads /proc
if enabled SANITIZE_NONE && enabled HAVE_ASAN && [ -e /proc/self/maps ]; then
	in_toy O="$toy/build" debug_defconfig >/dev/null 2>&1
	ok 'debug build passes' check
	ok 'a leak fails' env LEAK=y sh -c "! make -C '$toy' check TESTS=hal/good_test"
	ok 'unless the test says it leaks' env LEAK=may make -C "$toy" check TESTS=hal/good_test
fi
ok 'an unlisted copy of the harness: used with a warning' unknown_copy
ok 'a copy that miscounts: refused' broken_copy
ok 'a cached copy needs no network' from_cache
ok 'without network and cache: says what to do' no_network
done_testing
