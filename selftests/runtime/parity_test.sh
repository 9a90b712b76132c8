#!/bin/sh
# SPDX-License-Identifier: MIT
# The tests that Documentation/parity.rst names exist, and each of its items has an answer.
. "${srctree:?run me by make check}/selftests/build/lib.sh"
doc=$srctree/Documentation/parity.rst

# exists FILE [NAME]: a test program, and a test in it
exists() {
	for ext in .c .cpp ''; do
		f=$srctree/selftests/$1$ext
		[ -f "$f" ] || continue
		[ -z "${2-}" ] && return 0
		grep -qE "^TEST(_F)?(_[A-Z]+)?\(([a-z_]+, )?$2[,)]" "$f" && return 0
	done
	echo "parity.rst: no test $*"
	return 1
}

named() {
	rc=0
	grep -oE '``[a-z]+/[a-z_]+(\.sh)?( [a-z0-9_]+)?``' "$doc" | tr -d '`' | sort -u \
		>"$work/named"
	[ "$(wc -l <"$work/named")" -gt 60 ] || { echo "hardly a test is named"; return 1; }
	while read -r file name; do
		exists "$file" "$name" || rc=1
	done <"$work/named"
	return $rc
}

answered() {	# each item has a test, a later piece of work, or a reason
	awk '
		/^- / { if (item != "" && !good) { print "no answer: " item; bad = 1 }
			item = $0; good = 0; on = 1 }
		/^$|^=|^[A-Z]/ { if (item != "" && !good) { print "no answer: " item; bad = 1 }
			item = ""; on = 0 }
		on && /``[a-z]+\/|\*later\*|\*not\*/ { good = 1 }
		END { exit bad }' "$work/body"
}

sed '1,/^Initialisation and the end/d' "$doc" >"$work/body"
ok 'tests that are named exist' named
ok 'each item is answered' answered
ok 'a test that does not exist is found' refuses 'no test' exists runtime/init_test no_such_test
done_testing
