#!/bin/sh
# SPDX-License-Identifier: MIT
# make install, programs outside the tree by pkg-config, make uninstall.
. "${srctree:?run me by make check}/selftests/build/lib.sh"
: "${BUILD_ARGS:?run me by make check}"

enabled SHARED && enabled DRV_SIMNPU || skip_all 'needs a shared library and simnpu'
command -v pkg-config >/dev/null || skip_all 'needs pkg-config'

CC=${CC:-gcc}
CXX=${CXX:-g++}
prefix=$work/usr
cp "$srctree/selftests/build/outside.c" "$work/"
# what the library is instrumented with, a program that links it must be
flags=
enabled SANITIZE_ADDRESS && flags='-fsanitize=address,undefined'
enabled SANITIZE_THREAD && flags='-fsanitize=thread'
enabled COVERAGE && flags=--coverage

# in_tree ARGS...: make in this build; its compiler and flags must stay what they are
in_tree() {
	eval "set -- $BUILD_ARGS \"\$@\""
	make -C "$objtree" -f "$srctree/Makefile" --no-print-directory "$@"
}

pc() {
	PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config "$@"
}

installed() {	# as list: every file, its kind and mode
	(cd "$1" && find . ! -type d -printf '%P %y %m\n' | sort)
}

install_all() {	# other tests run meanwhile: what they use is not made again
	in_tree install PREFIX="$prefix" >"$work/make" || { cat "$work/make"; return 1; }
	! grep -E '^  (CC|CXX|LD|AR) ' "$work/make" && for f in lib/libnpu.so.0 lib/libnpu.so \
		lib/libnpu.a lib/pkgconfig/libnpu.pc include/npu/npu.h; do
		[ -e "$prefix/$f" ] || { echo "not installed: $f"; return 1; }
	done
}

headers_only() {	# no inner header is installed
	(cd "$prefix/include" && find . -type f | sort) >"$work/have"
	(cd "$srctree/include" && find . -type f | sort) | diff - "$work/have"
}

destdir() {	# the same files below DESTDIR, and the .pc names the final place
	in_tree install DESTDIR="$work/dest" PREFIX=/opt/npu &&
		installed "$prefix" >"$work/have" &&
		installed "$work/dest/opt/npu" | diff "$work/have" - &&
		grep -qx 'prefix=/opt/npu' "$work/dest/opt/npu/lib/pkgconfig/libnpu.pc"
}

runs() {	# runs PROGRAM
	"$@" >"$work/said" 2>&1
	rc=$?
	cat "$work/said"
	[ $rc = 0 ] && grep -q 'there and back' "$work/said"
}

shared() {
	$CC -std=c11 -Wall -Werror $flags -o "$work/shared" "$work/outside.c" \
		$(pc --cflags --libs libnpu) &&
		runs env LD_LIBRARY_PATH="$prefix/lib" "$work/shared"
}

mixed() {	# the static library in a dynamic program
	$CC $flags -o "$work/mixed" "$work/outside.c" $(pc --cflags libnpu) \
		"$(pc --variable=libdir libnpu)/libnpu.a" -lpthread -ldl &&
		! readelf -d "$work/mixed" | grep libnpu.so && runs "$work/mixed"
}

static() {
	$CC -static -o "$work/static" "$work/outside.c" $(pc --cflags --static --libs libnpu) &&
		! readelf -l "$work/static" | grep INTERP && runs "$work/static"
}

cplusplus() {
	$CXX -std=c++17 -Wall -Werror $flags -x c++ "$work/outside.c" -x none -o "$work/cxx" \
		$(pc --cflags --libs libnpu) && runs env LD_LIBRARY_PATH="$prefix/lib" "$work/cxx"
}

hidden() {	# an inner function cannot be linked
	echo 'int hal_driver_count(void); int main(void) { return hal_driver_count(); }' \
		>"$work/inner.c"
	refuses 'undefined reference' $CC $flags -o "$work/inner" "$work/inner.c" \
		$(pc --libs libnpu)
}

tools_run() {	# an installed tool finds the library beside it
	[ -x "$prefix/bin/npuctl" ] || return 0
	LD_LIBRARY_PATH=$prefix/lib "$prefix/bin/npuctl" --help
}

uninstall() {
	in_tree uninstall PREFIX="$prefix" && is '' "$(installed "$prefix")"
}

version() {
	is "$(sed -n 's/^VERSION := //p' "$srctree/scripts/build.mk")" "$(pc --modversion libnpu)"
}

ok 'install' install_all
ok 'installs the public headers and no other' headers_only
ok 'DESTDIR' destdir
ok 'the version' version
ok 'a program with the shared library' shared
if command -v "$CXX" >/dev/null; then
	ok 'a C++ program' cplusplus
else
	skip 'a C++ program' "needs $CXX"
fi
ok 'a dynamic program with libnpu.a' mixed
if [ -z "$flags" ]; then
	ok 'a fully static program' static
else
	skip 'a fully static program' 'this build is instrumented'
fi
ok 'inner functions are hidden' hidden
ok 'an installed tool runs' tools_run
ok 'uninstall leaves nothing' uninstall
done_testing
