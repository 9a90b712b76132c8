#!/bin/sh
# SPDX-License-Identifier: MIT
# Bad configurations fail and say why; good ones survive the way there and back.
. "${srctree:?run me by make check}/selftests/build/lib.sh"
make_toy

defconfig() {	# defconfig LINES...: configure with these
	printf '%s\n' "$@" >"$toy/configs/try_defconfig"
	in_toy try_defconfig
}

unknown_in_config() {
	in_toy simnpu_defconfig && echo CONFIG_NO_SUCH=y >>"$toy/build/.config" &&
		refuses 'unknown symbol: NO_SUCH' in_toy
}

leaves_nothing() {
	rm -f "$toy/build/.config"
	defconfig CONFIG_NO_SUCH=y
	[ ! -f "$toy/build/.config" ]
}

# with_kconfig TEXT COMMAND...: with TEXT at the end of hal/Kconfig
with_kconfig() {
	cp "$toy/hal/Kconfig" "$work/kconfig"
	printf '%s' "$1" >>"$toy/hal/Kconfig"
	shift
	"$@"
	rc=$?
	cp "$work/kconfig" "$toy/hal/Kconfig"
	return $rc
}

there_and_back() {
	in_toy simnpu_defconfig savedefconfig && cp "$toy/build/.config" "$work/before" &&
		cp "$toy/build/defconfig" "$toy/configs/saved_defconfig" &&
		in_toy saved_defconfig && diff "$work/before" "$toy/build/.config"
}

generated() {	# generated GOAL: it makes a configuration that builds
	in_toy O=gen "$1" && in_toy O=gen CFLAGS=-O0
}

same_seed() {
	KCONFIG_SEED=7 in_toy O=gen randconfig && cp "$toy/gen/.config" "$work/before" &&
		KCONFIG_SEED=7 in_toy O=gen randconfig && diff "$work/before" "$toy/gen/.config"
}

seen_in_c() {	# IS_ENABLED() in C and in #if
	put hal/toy.c <<-'END'
		#include "hal/toy.h"
		#if !IS_ENABLED(CONFIG_DRV_SIMNPU) || IS_ENABLED(CONFIG_NO_SUCH) || \
			CONFIG_LOG_MAX_LEVEL != 3
		#error IS_ENABLED
		#endif
		_Static_assert(IS_ENABLED(CONFIG_DRV_SIMNPU) == 1, "set");
		_Static_assert(IS_ENABLED(CONFIG_DRV_NULL) == 0, "not set");
		int hal_twice(int x) { return 2 * x; }
	END
	defconfig '# CONFIG_DRV_NULL is not set' CONFIG_LOG_MAX_LEVEL=3 && in_toy
}

ok 'no configuration: the way to one is named' refuses 'simnpu_defconfig\|make defconfig' in_toy
ok 'a defconfig that is not there' refuses 'there is no .*nope_defconfig' in_toy nope_defconfig
ok 'an unknown symbol in a defconfig' refuses 'unknown symbol: NO_SUCH' \
	defconfig CONFIG_DRV_NULL=y CONFIG_NO_SUCH=y
ok 'an unknown symbol that is not set' refuses 'unknown symbol: NO_SUCH' \
	defconfig '# CONFIG_NO_SUCH is not set'
ok 'a bad defconfig leaves no configuration behind' leaves_nothing
ok 'a value out of range' refuses 'CONFIG_LOG_MAX_LEVEL=99' defconfig CONFIG_LOG_MAX_LEVEL=99
ok 'a bad value of a bool' refuses 'the configuration is bad' defconfig CONFIG_DRV_NULL=maybe
ok 'a line whose dependencies are not met' refuses 'no effect' \
	defconfig '# CONFIG_DRV_SIMNPU is not set' CONFIG_SIMNPU_MODULES=y
ok 'a line twice' refuses 'the configuration is bad' \
	defconfig CONFIG_LOG_MAX_LEVEL=2 CONFIG_LOG_MAX_LEVEL=3
ok 'an unknown symbol in .config' unknown_in_config
unmet='
config A
	bool "a"
	default y
	select B
config B
	bool
	depends on C
config C
	bool "c"
'
ok 'a word of the parser: unmet dependency of a select' with_kconfig "$unmet" \
	refuses 'the configuration is bad' in_toy simnpu_defconfig all
circle='
config A
	bool "a"
	depends on B
config B
	bool "b"
	depends on A
'
ok 'a word of the parser: recursive dependency' with_kconfig "$circle" \
	refuses 'the configuration is bad' in_toy simnpu_defconfig
ok 'a syntax error' with_kconfig '
config A
	bool $(success,true)
' refuses 'the configuration is bad' in_toy simnpu_defconfig
ok 'savedefconfig and back' there_and_back
for c in "$toy"/configs/*_defconfig; do
	c=$(basename "$c")
	case $c in try_*|saved_*) continue ;; esac
	ok "$c" in_toy O=gen "$c"
done
ok 'allnoconfig builds' generated allnoconfig
ok 'allyesconfig builds' generated allyesconfig
ok 'randconfig builds' generated randconfig
ok 'randconfig with a seed repeats' same_seed
ok 'CONFIG_ in the environment changes nothing' env CONFIG_=X_ make -C "$toy" simnpu_defconfig all
ok 'IS_ENABLED()' seen_in_c
done_testing
