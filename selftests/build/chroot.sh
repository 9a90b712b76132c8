#!/bin/sh
# SPDX-License-Identifier: MIT
# The appliance: one static program classifies the shipped pictures in an empty root folder, where
# there is no /proc, no /dev, no shell and no library.
. "${srctree:?run me by make check}/selftests/build/lib.sh"

enabled SANITIZE_NONE || skip_all 'this build is instrumented'
enabled HAVE_STATIC || skip_all 'this compiler makes no static programs'

chroot=$(PATH=$PATH:/usr/sbin:/sbin; command -v chroot)
o=$work/appliance
root=$work/root
fm=samples/fashion_mnist
pictures=$srctree/$fm/pictures.bin
weights=$srctree/$fm/weights.bin
[ -f "$weights" ] || skip_all 'the shipped weights are not there'

build() {
	make -C "$srctree" --no-print-directory O="$o" -j2 appliance_defconfig all
}

# in_root ARGS...: the program, in the empty root; by a user's own namespace where that must be
in_root() {
	if [ "$(id -u)" = 0 ]; then
		env -i "$chroot" "$root" /infer "$@"
	else
		env -i "$(command -v unshare)" --map-root-user "$chroot" "$root" /infer "$@"
	fi
}

one_static_file() {
	! readelf -lW "$o/$fm/infer" | grep -E 'INTERP|DYNAMIC'
}

dynamic() {	# the static library of this configuration in a dynamic program
	${CC:-cc} -std=c11 -Wall -Werror -I"$srctree/include" -o "$work/dynamic" \
		"$srctree/selftests/build/outside.c" "$o/libnpu.a" -lpthread -ldl &&
		readelf -lW "$work/dynamic" | grep -q INTERP &&
		! readelf -d "$work/dynamic" | grep libnpu.so &&
		"$work/dynamic" >"$work/said" && grep 'there and back' "$work/said"
}

holds_all() {	# nothing but the program and its data
	mkdir -p "$root" && cp "$o/$fm/infer" "$pictures" "$weights" "$root/" &&
		is 3 "$(find "$root" -mindepth 1 | wc -l)"
}

classifies() {
	in_root --weights /weights.bin --pictures /pictures.bin --devices 2 --min-accuracy 0.8 &&
		is 3 "$(find "$root" -mindepth 1 | wc -l)"
}

small() {	# the budget is 1.5 MiB, stripped, weights apart
	strip -o "$work/stripped" "$o/$fm/infer" &&
		[ "$(stat -c %s "$work/stripped")" -le 1572864 ]
}

ok 'the appliance configuration builds' build
ok 'the program is static' one_static_file
ok 'and small' small
ok 'its library in a dynamic program' dynamic
ok 'an empty root' holds_all
if [ "$(id -u)" = 0 ] || unshare --map-root-user true 2>/dev/null; then
	ok 'classifies the shipped pictures there' classifies
else
	skip 'classifies the shipped pictures there' 'needs root or user namespaces'
fi
done_testing
