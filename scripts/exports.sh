#!/bin/sh
# SPDX-License-Identifier: MIT
# exports.sh           print the functions that include/npu/ declares with NPU_API, sorted
# exports.sh map       print those that libnpu.map lists
# exports.sh update    add to libnpu.map's last node what is declared and not listed
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)

declared() {
	for h in "$top"/include/npu/*.h; do
		${CC:-cc} -E -P -I"$top/include" "$h"
	done | tr '\n' ' ' | tr ';' '\n' |
	sed -n 's/.*visibility("default")))\([^(]*[ *]\)\(npu_[a-z0-9_]*\) *(.*/\2/p' | sort -u
}

listed() {
	sed -n 's/^[[:space:]]*\(npu_[a-z0-9_]*\);.*/\1/p' "$top/libnpu.map" | sort -u
}

case ${1:-declared} in
declared)
	declared
	;;
map)
	listed
	;;
update)
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	declared >"$tmp/declared"
	listed >"$tmp/listed"
	comm -23 "$tmp/declared" "$tmp/listed" | sed 's/.*/\t&;/' >"$tmp/new"
	last=$(grep -n '^global:' "$top/libnpu.map" | tail -n 1 | cut -d: -f1)
	sed "${last}r $tmp/new" "$top/libnpu.map" >"$tmp/map"
	cat "$tmp/map" >"$top/libnpu.map"
	;;
*)
	sed -n '3,5s/^# //p' "$0"
	exit 2
	;;
esac
