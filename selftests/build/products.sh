#!/bin/sh
# SPDX-License-Identifier: MIT
# What the libraries hold and show, however they are linked.
. "${srctree:?run me by make check}/selftests/build/lib.sh"
make_toy
CC=${CC:-gcc}
b=$toy/build

in_toy simnpu_defconfig all >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

exports() {
	is 'npu_drivers npu_toy' "$(nm -DP --defined-only "$b/libnpu.so.0" |
		awk '$2 != "A" { sub(/@.*/, "", $1); print $1 }' | words)"
}

static_exports() {
	is 'npu_drivers npu_toy' "$(nm -gP --defined-only "$b/libnpu.a" |
		awk 'NF >= 3 { print $1 }' | words)"
}

links() {	# links FLAGS...: a program linked by these finds every driver
	$CC -I"$toy/include" -o "$work/prog" "$toy/samples/hello/hello.c" "$@" &&
		is '42 2' "$("$work/prog")"
}

no_clash() {	# a program may have a function of the name of an inner one
	sed 's/int main/int hal_twice(int x); int hal_twice(int x) { return x; }\nint main/' \
		"$toy/samples/hello/hello.c" >"$work/own.c"
	$CC -I"$toy/include" -o "$work/prog" "$work/own.c" "$b/libnpu.a" &&
		is '42 2' "$("$work/prog")"
}

dynamic_section() {
	readelf -d "$b/libnpu.so.0" >"$work/dyn" && grep -q 'SONAME.*\[libnpu.so.0\]' "$work/dyn" &&
		grep -q NODELETE "$work/dyn" && is libnpu.so.0 "$(readlink "$b/libnpu.so")"
}

moved() {	# programs find the library when the build folder is moved
	mv "$b" "$b.moved" && is '42 2' "$(env -u LD_LIBRARY_PATH "$b.moved/samples/hello/hello")"
	rc=$?
	mv "$b.moved" "$b"
	return $rc
}

undefined() {	# a name that is nowhere defined is found when the library is linked
	echo 'int hal_nowhere(void); int hal_twice(int x) { return hal_nowhere() + x; }' |
		cat "$toy/hal/toy.h" - >"$toy/hal/toy.c.new"
	cp "$toy/hal/toy.c" "$work/toy.c"
	mv "$toy/hal/toy.c.new" "$toy/hal/toy.c"
	refuses 'undefined reference.*hal_nowhere' in_toy
	rc=$?
	cp "$work/toy.c" "$toy/hal/toy.c"
	in_toy && return $rc
}

no_source() {
	echo 'obj-y += gone.o' >>"$toy/hal/Makefile"
	refuses "No rule to make target 'obj/hal/gone.o'" in_toy
	rc=$?
	sed -i '/gone/d' "$toy/hal/Makefile"
	return $rc
}

foreign_object() {
	echo 'obj-y += ctl/main.o' >>"$toy/tools/Makefile"
	refuses 'obj-y names an object outside' in_toy
	rc=$?
	sed -i '/^obj-y/d' "$toy/tools/Makefile"
	return $rc
}

appliance() {
	in_toy O=appliance appliance_defconfig all &&
		is '42 1' "$("$toy/appliance/samples/hello/hello")" &&
		! readelf -l "$toy/appliance/samples/hello/hello" | grep INTERP
}

pc_file() {
	grep -q '^Libs: -L${libdir} -lnpu$' "$b/libnpu.pc" && ! grep @ "$b/libnpu.pc"
}

warnings_fail() {
	echo 'int unused_prototype(void) { return 0; }' >>"$toy/hal/toy.c"
	refuses 'missing-prototypes' in_toy
	rc=$?
	cp "$work/toy.c" "$toy/hal/toy.c"
	return $rc
}

ok 'libnpu.so.0 exports what the map lists' exports
ok 'and so does libnpu.a' static_exports
ok 'soname, nodelete, link' dynamic_section
ok 'libnpu.a is one object' sh -c "ar t '$b/libnpu.a' | grep -cx libnpu.o | grep -qx 1"
ok 'linked with the shared library' links "$b/libnpu.so" -Wl,-rpath,"$b"
ok 'linked with the static one, no driver dropped' links "$b/libnpu.a"
ok 'the same with --gc-sections' links -Wl,--gc-sections "$b/libnpu.a"
ok 'fully static' links -static "$b/libnpu.a"
ok 'inner names do not clash with those of a program' no_clash
if [ -e /proc/self/exe ]; then
	ok 'a sample runs from a moved build folder' moved
else
	skip 'a sample runs from a moved build folder' 'the loader needs /proc for that'
fi
ok 'an undefined name fails the link' undefined
ok 'a warning fails the build' warnings_fail
ok 'an object without a source is named' no_source
ok 'a library object in tools/ is refused' foreign_object
ok 'an appliance is one static program' appliance
ok 'libnpu.pc' pc_file
done_testing
