#!/bin/sh
# SPDX-License-Identifier: MIT
# layout.sh HEADER [CC-FLAGS...]: print size and member offsets of every structure and union that
# HEADER defines at its top level, and the value of every ioctl number, as this compiler lays them
# out. Nothing is run, so -m32 works without 32-bit packages.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
header=$1
shift
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

{
	echo '#include <stddef.h>'
	echo "#include \"$header\""
	printf '%s\n' '#define SAY(text, value) \' \
		'	__asm__ volatile (".ascii \"->" text " %c0\"" : : "i" (value))'
	echo 'void layout(void);'
	echo 'void layout(void)'
	echo '{'
	# without comments
	sed -e 's|/\*.*\*/||g' -e '/\/\*/,/\*\//d' "$top/$header" | awk '
	# members are kept until the outermost brace closes, as nested ones learn
	# the name in front of theirs only when their own brace closes
	function emit(i) {
		printf "\tSAY(\"%s\", sizeof(%s));\n", type, type
		for (i = 1; i <= n; i++)
			printf "\tSAY(\"%s.%s\", offsetof(%s, %s));\n", type, m[i], type, m[i]
	}
	/^(struct|union) [a-z0-9_]+ \{/ {
		type = $1 " " $2
		depth = 1
		n = 0
		next
	}
	type && /\{/ {
		open[++depth] = n
		next
	}
	type && /^\}/ {
		emit()
		type = ""
		next
	}
	type && /\}/ {
		name = $0
		gsub(/[ \t};]/, "", name)
		start = open[depth--]
		if (name != "") {
			for (i = start + 1; i <= n; i++)
				m[i] = name "." m[i]
			m[++n] = name
		}
		next
	}
	type && /;/ {
		line = $0
		sub(/;.*/, "", line)
		sub(/\[.*/, "", line)
		sub(/ *__attribute__.*/, "", line)
		words = split(line, word, /[ \t*]+/)
		m[++n] = word[words]
	}
	/^#define[ \t]+[A-Z0-9_]+IOCTL[A-Z0-9_]+[ \t]/ {
		if ($2 !~ /\(/)
			printf "\tSAY(\"%s\", (int)(%s));\n", $2, $2
	}'
	echo '}'
} >"$tmp/layout.c"

${CC:-cc} -std=gnu11 -O1 -ffreestanding -I"$top" -I/usr/include/"$(uname -m)"-linux-gnu "$@" \
	-S -o "$tmp/layout.s" "$tmp/layout.c"
sed -n 's/.*\.ascii[[:space:]]*"->\(.*\)".*/\1/p' "$tmp/layout.s"
