#!/bin/sh
# SPDX-License-Identifier: MIT
# Recorded traces of allocations: the script makes the very data that is there, and the cache needs
# little more for them than was in use at once. There are no times in that.
. "${srctree:?run me by make check}/selftests/build/lib.sh"
enabled TOOLS || skip_all "needs CONFIG_TOOLS"
enabled DRV_SIMNPU || skip_all "needs the simulator"
enabled MEM_CACHE || skip_all "needs the cache of device memory"
enabled VMM || skip_all "needs virtual memory"
data=$srctree/selftests/data

made() {	# made TRACE: the script makes it
	perl "$data/traces.pl" "$1" >"$work/trace" && cmp "$work/trace" "$data/$1.trace"
}

small() {	# all of them together are small
	[ "$(cat "$data"/*.trace | wc -c)" -le 204800 ]
}

plays() {
	"$objtree/tools/npu-bench" alloc-trace --quick --check --json >"$work/json" || return 1
	cat "$work/json"
	is 6 "$(grep -c '"reached": true' "$work/json")"
}

for t in train server mixed; do
	ok "the script makes $t.trace" made "$t"
done
ok "the traces are small" small
ok "a trace that is none is refused" refuses 'usage: traces.pl' perl "$data/traces.pl" nonsense
ok "what is reserved, and what is enough, is at most 1.1 times what is in use" plays
done_testing
