# SPDX-License-Identifier: MIT
# Sourced by the scripts in this folder: TAP output, and a small tree with the real build around it.
: "${srctree:?run me by make check}" "${objtree:?run me by make check}"

# what make hands to its children must not reach the makes and programs that a test starts
unset LD_LIBRARY_PATH MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES KCONFIG_CONFIG KCONFIG_SEED O V \
	CFLAGS CPPFLAGS LDFLAGS DESTDIR PREFIX TESTS WRAP
work=$(mktemp -d "${TMPDIR:-/tmp}/libnpu.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
test_nr=0

# ok NAME COMMAND...: passes when COMMAND does; its output is shown when it does not
ok() {
	test_name=$1
	shift
	test_nr=$((test_nr + 1))
	if "$@" >"$work/out" 2>&1; then
		echo "ok $test_nr - $test_name"
	else
		sed 's/^/# /' "$work/out"
		echo "not ok $test_nr - $test_name"
	fi
}

skip() {	# skip NAME REASON
	test_nr=$((test_nr + 1))
	echo "ok $test_nr - $1 # SKIP $2"
}

skip_all() {
	echo "1..0 # SKIP $*"
	exit 0
}

done_testing() {
	echo "1..$test_nr"
}

# refuses TEXT COMMAND...: COMMAND fails, and says TEXT
refuses() {
	text=$1
	shift
	if "$@" >"$work/said" 2>&1; then
		cat "$work/said"
		echo "it did not fail"
		return 1
	fi
	cat "$work/said"
	grep -q -e "$text" "$work/said" || { echo "it does not say: $text"; return 1; }
}

is() {	# is EXPECTED SEEN
	[ "$1" = "$2" ] || { echo "expected: $1"; echo "seen:     $2"; return 1; }
}

# enabled SYMBOL: is it set in the configuration of this build?
enabled() {
	grep -q "^CONFIG_$1=y" "$objtree/.config"
}

# put FILE: standard input becomes that file of the toy tree
put() {
	mkdir -p "$(dirname "$toy/$1")"
	cat >"$toy/$1"
}

# make_toy: a tree in $toy with the real Makefile, scripts and Kconfig, and a few sources
make_toy() {
	toy=$work/toy
	export LD_LIBRARY_PATH="$toy/build"
	mkdir -p "$toy"
	(cd "$srctree" && cp -a Makefile Kconfig scripts configs libnpu.map libnpu.pc.in "$toy" &&
	 for d in hal drivers drivers/null drivers/simnpu runtime tools samples selftests; do
		mkdir -p "$toy/$d"
		cp "$d/Kconfig" "$toy/$d/" 2>/dev/null
		echo '# SPDX-License-Identifier: MIT' >"$toy/$d/Makefile"
	 done
	 cp selftests/Makefile selftests/npu_kselftest.h "$toy/selftests/")
	mkdir -p "$toy/build/include"
	# the harness of this build: nothing is fetched
	cp -a "$objtree/include/kselftest" "$toy/build/include/"

	put libnpu.map <<-'END'
		LIBNPU_0 {
		global:
			npu_toy;
			npu_drivers;
		local:
			*;
		};
	END
	put include/npu/npu.h <<-'END'
		#define NPU_API __attribute__((visibility("default")))
		NPU_API int npu_toy(int x);
		NPU_API int npu_drivers(void);
	END
	put hal/toy.h <<-'END'
		int hal_twice(int x);
		typedef int (*hal_driver)(void);
	END
	put hal/toy.c <<-'END'
		#include "hal/toy.h"
		int hal_twice(int x) { return 2 * x; }
	END
	echo 'obj-y += toy.o' | put hal/Makefile
	printf 'obj-$(CONFIG_DRV_%s) += %s/\n' NULL null SIMNPU simnpu | put drivers/Makefile
	for d in null simnpu; do
		put drivers/$d/drv.c <<-'END'
			#include "hal/toy.h"
			static int one(void) { return 1; }
			static const hal_driver drv
				__attribute__((used, retain, section("toy_drivers"))) = one;
		END
		echo 'obj-y += drv.o' | put drivers/$d/Makefile
	done
	put runtime/init.c <<-'END'
		#include <npu/npu.h>
		#include "hal/toy.h"
		#ifndef TOY
		#define TOY 0
		#endif
		extern const hal_driver __start_toy_drivers[]
			__attribute__((weak, visibility("hidden")));
		extern const hal_driver __stop_toy_drivers[]
			__attribute__((weak, visibility("hidden")));
		NPU_API int npu_toy(int x) { return hal_twice(x) + TOY; }
		NPU_API int npu_drivers(void)
		{
			const hal_driver *d;
			int n = 0;
			for (d = __start_toy_drivers; d < __stop_toy_drivers; d++)
				n += (*d)();
			return n;
		}
	END
	echo 'obj-y += init.o' | put runtime/Makefile
	put samples/hello/hello.c <<-'END'
		#include <npu/npu.h>
		#include <stdio.h>
		int main(void)
		{
			printf("%d %d\n", npu_toy(21), npu_drivers());
			return 0;
		}
	END
	echo 'prog-y += hello' | put samples/hello/Makefile
	echo 'subdir-y += hello/' | put samples/Makefile
	put tools/ctl/main.c <<-'END'
		#include "hal/toy.h"
		int main(void) { return hal_twice(0) + IS_ENABLED(CONFIG_NO_SUCH); }
	END
	put tools/Makefile <<-'END'
		prog-y += ctl
		ctl-objs := ctl/main.o
		ctl-internal := y
	END
}

words() {	# lines to one line of words
	sort | tr '\n' ' ' | sed 's/ $//'
}

# in_toy ARGS...: make in the toy tree
in_toy() {
	make -C "$toy" --no-print-directory -j2 "$@"
}

# compiled: what the last in_toy that wrote to $work/log compiled
compiled() {
	sed -n 's/^  CC *//p' "$work/log" | words
}
