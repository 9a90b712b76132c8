#!/bin/sh
# SPDX-License-Identifier: MIT
# check.sh [--quick] [NAME...]: checks of the tree, one line each: ok, FAIL or skip with its reason.
# --quick leaves out what needs a build (in $O, default build/). NAMEs choose checks.
set -u
cd "$(dirname "$0")/.." || exit 2
O=${O:-build}
CC=${CC:-cc}
CXX=${CXX:-c++}
quick=
names=
for a; do
	case $a in
	--quick) quick=y ;;
	-*) sed -n '3,4s/^# //p' "$0"; exit 2 ;;
	*) names="$names $a" ;;
	esac
done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

# files GLOB...: tracked or new files that are not ignored; in an export without git, all
if git rev-parse --show-toplevel >/dev/null 2>&1; then
	git ls-files -co --exclude-standard >"$tmp/all"
else
	find . \( -path "./$(basename "$O")" -o -name .git \) -prune -o -type f -print |
		sed 's|^\./||' >"$tmp/all"
fi
while read -r f; do
	[ -f "$f" ] && echo "$f"
done <"$tmp/all" | sort -u >"$tmp/files"

files() {	# files REGEX: those whose path matches
	grep -E "$1" "$tmp/files"
}

grep_in() {	# grep_in REGEX ARGS...: grep in the files whose path matches
	re=$1
	shift
	files "$re" | tr '\n' '\0' | xargs -0 grep -H "$@" /dev/null
}

# run NAME FUNCTION: what it prints is wrong; status 77 means it could not run, and prints why
run() {
	[ -z "$names" ] || case " $names " in *" $1 "*) ;; *) return ;; esac
	"$2" >"$tmp/out" 2>&1
	rc=$?	# of greps that found nothing: not looked at
	if [ $rc = 77 ]; then
		printf 'skip  %-10s %s\n' "$1" "$(cat "$tmp/out")"
	elif [ -s "$tmp/out" ]; then
		printf 'FAIL  %s\n' "$1"
		head -n 40 "$tmp/out" | sed 's/^/        /'
		failed=$((failed + 1))
	else
		printf 'ok    %s\n' "$1"
	fi
}

skip() {
	echo "$*"
	return 77
}

# ---- the tree as text ----

check_spdx() {	# the first line, or the one after #!, names the licence
	files . | grep -vE '\.(bin|weights|npw|gz|ubyte|abi|png)$' | while read -r f; do
		head -n 2 "$f" | grep -q 'SPDX-License-Identifier: ' || echo "$f: no SPDX line"
	done
	# the harness is GPL-2.0-only, and so is what is built on it; nothing else is
	grep_in '\.[ch]$' -lE '#include.*(npu_kselftest\.h"|<kselftest_harness\.h>)' |
	while read -r f; do
		head -n 1 "$f" | grep -q 'GPL-2.0-only' || echo "$f: uses the harness: GPL-2.0-only"
	done
	files . | grep -vE '^selftests/|^scripts/kselftest-try\.c' | while read -r f; do
		head -n 2 "$f" | grep -q 'Identifier: GPL' && echo "$f: GPL outside the tests"
	done
}

code='\.([ch]|hpp|cpp|sh|mk|map)$|(^|/)(Makefile|Kconfig)$'

check_style() {
	grep_in "$code|\.(rst|md|txt)$" -nE '[[:space:]]+$' | cut -d: -f1,2 |
		sed 's/$/: white space at the end of the line/'
	# tabs count up to the next multiple of eight
	files "$code" | while read -r f; do
		expand "$f" | awk -v f="$f" '
			length($0) > 100 { print f ":" NR ": over 100 columns" }'
	done
	grep_in '\.([ch]|hpp|cpp)$' -nE '^        ' | cut -d: -f1,2 |
		sed 's/$/: indented with spaces/'
}

check_words() {	# marks of unfinished work
	grep_in "$code" -nwE 'TOD[O]|FIXM[E]|XX[X]|HAC[K]'
}

check_shell() {
	files '\.sh$|^scripts/[a-z-]+$|^\.ci/run$' | while read -r f; do
		case $(head -n 1 "$f") in
		'#!/bin/sh') sh -n "$f" ;;
		'#!'*) echo "$f: does not start with #!/bin/sh" ;;
		*) grep -q '^# Sourced by' "$f" || echo "$f: does not start with #!/bin/sh" ;;
		esac
		[ -x "$f" ] || grep -q '^# Sourced by' "$f" || echo "$f: not executable"
	done
}

# Who may include what (Documentation/architecture.rst). A line is: who, what he may include, what
# with ! not; the last that fits decides; =self is the driver's own folder, drivers/NAME/. The first
# line that fits the file counts. System headers are free; ours are named by whole paths.
helpers='hal/base.h hal/cpu.h hal/sys.h hal/log.h hal/option.h npu/types.h npu/simnpu_'
objects='!hal/driver !hal/device !hal/context !hal/stream !hal/event !hal/memory !hal/kernel'
# how the simulated device is opened, the one place where its driver sees it
not_model='!drivers/simnpu/model/ drivers/simnpu/model/simnpu_model.h !drivers/simnpu/kernels/'
layers="
^include/npu/			npu/
^uapi/				uapi/
^hal/				hal/ uapi/ npu/types.h
^drivers/simnpu/kernels/ drivers/simnpu/kernels/ drivers/simnpu/options.h $helpers
^drivers/simnpu/model/ drivers/simnpu/ !drivers/simnpu/simnpu.h hal/ $objects uapi/ $helpers
^drivers/simnpu/ drivers/simnpu/ $not_model hal/ uapi/ $helpers
^drivers/			=self hal/ uapi/ npu/types.h
^runtime/			runtime/ hal/ uapi/ npu/
^compat/			compat/ hal/ acl/ aclnn/ npu/types.h
^tools/				tools/ hal/ uapi/ npu/ drivers/simnpu/simnpu_test.h
^samples/			samples/ npu/
"
check_layers() {
	files '^(include|uapi|hal|drivers|runtime|compat|tools|samples)/.*\.([ch]|hpp|cpp)$' |
	while read -r f; do
		may=$(echo "$layers" | awk -v f="$f" 'NF && f ~ $1 { $1 = ""; print; exit }')
		if [ -z "$may" ]; then
			echo "$f: no rule for this folder in scripts/check.sh"
			continue
		fi
		case $may in
		*=self*)
			self=${f#drivers/}
			case $self in
			*/*) self=drivers/${self%%/*}/ ;;
			*) self= ;;
			esac
			may="$self ${may#*=self}" ;;
		esac
		grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' "$f" |
		sed 's/^\([0-9]*\):[^"<]*\(["<]\)\([^">]*\).*/\1 \2 \3/' |
		while read -r line q inc; do
			case $q$inc in
			'<npu/'*|'"'*) ;;
			'<uapi/'*|'<hal/'*|'<drivers/'*|'<runtime/'*)
				echo "$f:$line: $inc: use quotes"
				continue ;;
			*) continue ;;
			esac
			case $inc in
			*/*) ;;
			*)	# samples are also built outside the tree: neighbours by name alone
				case $f in
				samples/*) [ -f "${f%/*}/$inc" ] && continue ;;
				esac
				echo "$f:$line: \"$inc\" is not a path from the top"
				continue ;;
			esac
			ok=
			for m in $may; do
				case $m in
				!*) case $inc in "${m#!}"*) ok= ;; esac ;;
				*) case $inc in "$m"*) ok=y ;; esac ;;
				esac
			done
			[ -n "$ok" ] || echo "$f:$line: must not include $inc"
		done
	done
	# the back door and the tests' headers are not for production code
	grep_in '^(include|uapi|hal|drivers|runtime|compat|samples)/.*\.[ch]$' \
		-nE '#[[:space:]]*include.*(selftests/|simnpu_test\.h)' |
		grep -v '^drivers/simnpu/' | sed 's/$/  (a header for tests)/'
	# ops are called by hal alone
	grep_in '^(runtime|compat|tools|samples)/.*\.[ch]$' -nE -e '->ops->' |
		sed 's/$/  (ops are called by hal alone)/'
}

check_map() {	# what include/npu declares is what libnpu.map exports
	scripts/exports.sh >"$tmp/declared"
	scripts/exports.sh map >"$tmp/map"
	[ -s "$tmp/declared" ] || { skip "include/npu declares no function yet"; return; }
	comm -23 "$tmp/declared" "$tmp/map" |
		sed 's|$|: declared, not in libnpu.map (scripts/exports.sh update)|'
	comm -13 "$tmp/declared" "$tmp/map" | sed 's/$/: in libnpu.map, not declared/'
	# libnpu.pc and the header tell the same version
	v=$(sed -n 's/^#define NPU_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' include/npu/*.h |
		tr '\n' . | sed 's/\.$//')
	grep -q "^VERSION := $v\$" scripts/build.mk || echo "scripts/build.mk: VERSION is not $v"
}

id='C-[A-Z][A-Z0-9]*(-[A-Z0-9]+)*-[0-9]+'
check_contract() {	# each sentence has a test, each id that a test names has a sentence
	grep_in '^(hal|include/npu|uapi)/.*\.(h|hpp)$' -hoE "\[$id\]" | tr -d '[]' |
		sort >"$tmp/ids"
	# (those of build/ make up their own)
	grep_in '^selftests/([^b]|b[^u])[^/]*/.*\.(c|h|cpp|sh)$' -hoE "\<$id\>" |
		sort -u >"$tmp/named"
	[ -s "$tmp/ids" ] || { skip "no contract sentence has an id yet"; return; }
	uniq -d "$tmp/ids" | sed 's/$/: two sentences have this id/'
	sort -u "$tmp/ids" >"$tmp/uids"
	comm -23 "$tmp/uids" "$tmp/named" | sed 's/$/: no test names it/'
	comm -13 "$tmp/uids" "$tmp/named" | sed 's/$/: a test names it, no sentence has it/'
}

check_comments() {	# what kernel-doc passes over in silence
	files '^(include/npu|hal|uapi)/.*\.h$' | while read -r h; do
		awk -v h="$h" '
			/^\/\*\*.*[a-zA-Z0-9_]\(\) -/ {
				print h ":" NR ": the comment of a function begins with /** alone" }
			/^\/\*\*/ { fn = 0; begun = NR }
			NR == begun + 1 && /^ \* [a-zA-Z0-9_]+\(\) - / { fn = 1 }
			/\*\// { fn = 0 }
			fn && /^ \*.*[^ *].*Return:( |$)/ {
				print h ":" NR ": \"Return:\" is not at the start of its line" }
			' "$h"
	done
}

check_kerneldoc() {
	kd=$(ls /usr/lib/linux-kbuild-*/scripts/kernel-doc 2>/dev/null | tail -n 1)
	[ -n "$kd" ] || { skip "needs kernel-doc (Debian: linux-kbuild-6.1)"; return; }
	for h in $(files '^(include/npu|hal|uapi)/.*\.h$'); do
		"$kd" -none -Werror "$h" 2>&1 || echo "$h: kernel-doc fails"
	done
}

check_docs() {	# the generated pages of Documentation/ are what the library's tables say
	[ -x "$O/obj/gen-options" ] && [ -x "$O/obj/gen-errors" ] ||
		{ skip "needs 'make gen-docs' in $O"; return; }
	LD_LIBRARY_PATH=$O "$O/obj/gen-options" >"$tmp/options.rst" 2>&1
	diff -u Documentation/options.rst "$tmp/options.rst" || echo "run 'make docs'"
	LD_LIBRARY_PATH=$O "$O/obj/gen-errors" selftests/errors.list >"$tmp/errors.rst" 2>&1
	diff -u Documentation/errors.rst "$tmp/errors.rst" || echo "run 'make docs'"
}

# test_body PROGRAM TEST: the text of a test, nothing if there is none
test_body() {
	for ext in .c .cpp; do
		[ -f "selftests/$1$ext" ] || continue
		awk -v name="$2" '
			/^TEST(_[A-Z]+)*\(/ { on = $0 ~ "[(, ]" name "[,)]" }
			on
			/^}/ { on = 0 }' "selftests/$1$ext"
	done
}

check_errors() {	# each code of the catalogue has tests, and each code that is given an entry
	[ -f hal/catalogue.c ] || { skip "there is no hal/catalogue.c yet"; return; }
	sed -n 's/^[[:space:]]*CODE(\(E[A-Z0-9]*\),.*/\1/p' hal/catalogue.c | sort >"$tmp/codes"
	uniq -d "$tmp/codes" | sed 's|^|hal/catalogue.c: twice: |'
	# what records are filled with, and what the interface says of itself
	{ grep_in '^(hal|runtime|drivers)/.*\.c$' -hoE 'hal_fail[a-z_]*\(-E[A-Z0-9]+'
	  grep_in '^include/npu/.*\.h$' -hoE '[ (]-E[A-Z0-9]+'
	} | sed 's/.*-//' | sort -u | comm -13 "$tmp/codes" - |
		sed 's|$|: given, not in hal/catalogue.c|'
	sed '/^#/d;/^$/d' selftests/errors.list >"$tmp/list"
	cut -d' ' -f1 "$tmp/list" | sort -u >"$tmp/tested"
	comm -23 "$tmp/codes" "$tmp/tested" | sed 's|$|: no test in selftests/errors.list|'
	comm -13 "$tmp/codes" "$tmp/tested" | sed 's|$|: in selftests/errors.list, no code|'
	while read -r code program name; do
		test_body "$program" "$name" >"$tmp/body"
		if [ ! -s "$tmp/body" ]; then
			echo "selftests/errors.list: $code: no test $program $name"
		elif ! grep -qw "$code" "$tmp/body"; then
			echo "selftests/errors.list: $code: $program $name does not name it"
		fi
	done <"$tmp/list"
}

check_maintained() {	# every file belongs to a section of MAINTAINERS; every F: line has files
	sed -n 's/^F: //p' MAINTAINERS >"$tmp/f"
	awk 'NR == FNR { f[$0] = 0; next }
		{
			found = 0
			for (p in f)
				if (p == $0 || (p ~ /\/$/ && index($0, p) == 1))
					found = ++f[p]
			if (!found)
				print $0 ": in no section of MAINTAINERS"
		}
		END {
			for (p in f)
				if (!f[p])
					print "MAINTAINERS: " p ": no such file"
		}' "$tmp/f" "$tmp/files"
}

check_readme() {	# the program that README.md shows is samples/hello.c
	[ -f samples/hello.c ] || { skip "there is no samples/hello.c yet"; return; }
	sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d' >"$tmp/shown"
	sed -n '/^#include/,$p' samples/hello.c | diff "$tmp/shown" - | sed 's/^/README.md: /'
}

# ---- what compilers and parsers say ----

everything() {	# write $tmp/generated/autoconf.h: a configuration with all there is, unbuilt
	mkdir -p "$tmp/generated"
	files '(^|/)Kconfig$' | xargs awk '
		$1 == "config" { sym = $2 }
		sym ~ /^(STATIC|SANITIZE_.*|COVERAGE)$/ { next }
		$1 == "bool" || $1 == "def_bool" { print "#define CONFIG_" sym " 1" }
		$1 == "string" || $1 == "int" || $1 == "hex" { value = 1 }
		$1 == "default" && value { print "#define CONFIG_" sym " " $2; value = 0 }
		' >"$tmp/generated/autoconf.h"
	inner="-std=gnu11 -D_GNU_SOURCE -I$tmp -include scripts/kconfig.h -I. -Iinclude"
}

check_headers() {	# each public header alone, in C11 and C++17; inner ones in C
	for h in $(files '^include/npu/.*\.h$'); do
		$CC -std=c11 -pedantic -Wall -Wextra -Wundef -Wstrict-prototypes -Werror -Iinclude \
			-fsyntax-only -x c "$h" || echo "$h: alone in C11"
	done
	everything
	for h in $(files '^(hal|uapi|drivers|runtime)/.*\.h$'); do
		# a template, to be included several times, has no guard
		grep -q '^#ifndef .*_H$' "$h" || continue
		printf '#include "%s"\n' "$h" | $CC $inner -Wall -Wextra -Wundef -Werror \
			-Wno-unused-function -fsyntax-only -x c - || echo "$h: alone"
	done
	command -v "$CXX" >/dev/null || { skip "C fine; C++ needs $CXX (Debian: g++)"; return; }
	for h in $(files '^include/npu/.*\.(h|hpp)$'); do
		$CXX -std=c++17 -pedantic -Wall -Wextra -Wundef -Werror -Iinclude -fsyntax-only \
			-x c++ "$h" || echo "$h: alone in C++17"
	done
}

check_uapi() {	# the same layouts and ioctl numbers in 32 and 64 bits
	$CC -m32 -ffreestanding -fsyntax-only -x c - </dev/null 2>/dev/null ||
		{ skip "$CC cannot -m32"; return; }
	for h in $(files '^uapi/.*\.h$'); do
		scripts/layout.sh "$h" -m64 -Wall -Werror >"$tmp/l64" || continue
		scripts/layout.sh "$h" -m32 -Wall -Werror -Wno-pointer-to-int-cast >"$tmp/l32"
		[ -s "$tmp/l64" ] || echo "$h: defines nothing"
		diff "$tmp/l64" "$tmp/l32" | sed "s|^|$h: |"
		# implicit padding and types whose size depends on the machine
		$CC -m64 -I. -Wpadded -Werror -fsyntax-only -x c "$h" 2>&1
		sed -e 's|/\*.*\*/||g' -e '/\/\*/,/\*\//d' "$h" |
			grep -E '^[[:space:]]+(unsigned|int|long|size_t|void \*)' |
			sed "s|^|$h: not a fixed-width type: |"
	done
}

check_configs() {	# each line of a defconfig takes effect; a second parser agrees
	command -v "${CONF:-kconfig-conf}" >/dev/null ||
		{ skip "needs kconfig-conf (Debian: kconfig-frontends-nox)"; return; }
	conf6=$(ls /usr/lib/linux-kbuild-*/scripts/kconfig/conf 2>/dev/null | tail -n 1)
	top=$PWD
	for c in configs/*_defconfig; do
		d=$tmp/$(basename "$c")
		mkdir -p "$d/include/generated"
		CC=$CC scripts/probe.sh >"$d/include/generated/Kconfig.probe"
		(cd "$d" && srctree=$top "$top/scripts/kconfig.sh" defconfig "$top/$c" >/dev/null &&
		 srctree=$top "$top/scripts/kconfig.sh" sync >/dev/null) ||
			{ echo "$c: bad"; continue; }
		[ -n "$conf6" ] || continue
		(cd "$d" && export srctree=$top KCONFIG_CONFIG=.config6 KCONFIG_WERROR=1 \
			KCONFIG_WARN_UNKNOWN_SYMBOLS=1
		 "$conf6" -s --defconfig="$top/$c" "$top/Kconfig") ||
			echo "$c: the newer parser refuses it"
		grep CONFIG_ "$d/.config" >"$d/a"
		grep CONFIG_ "$d/.config6" >"$d/b"
		diff "$d/a" "$d/b" | sed "s|^|$c: the two parsers differ: |"
	done
	# every symbol has a help of two lines or more
	files '(^|/)Kconfig$' | while read -r k; do
		awk -v k="$k" '
		function done() {
			if (sym && prompt && help < 2)
				print k ": " sym ": help of two lines or more"
		}
		/^(menu)?config / { done(); sym = $2; prompt = help = inhelp = 0 }
		/^(end)?(choice|if|menu)|^(source|comment)/ { done(); sym = "" }
		/^\t(bool|int|string|hex) "/ { prompt = 1 }
		/^\thelp/ { inhelp = 1; next }
		inhelp && /^\t  / { help++ }
		END { done() }' "$k"
	done
}

check_sparse() {	# warnings alone: it takes _Atomic(type) and newer builtins for errors
	command -v sparse >/dev/null || { skip "needs sparse (Debian: sparse)"; return; }
	everything
	for f in $(files '^(hal|drivers|runtime)/.*\.c$'); do
		sparse -Wno-unknown-attribute -Wno-non-pointer-null $inner "$f" 2>&1
	done | grep -E '^(hal|drivers|runtime|include|uapi)/.* warning: ' | sort -u
}

# ---- what was built ----

check_symbols() {	# libnpu.so.0 and libnpu.a export what libnpu.map lists, no more, no less
	[ -f "$O/libnpu.a" ] || { skip "needs a build in $O"; return; }
	scripts/exports.sh map >"$tmp/map"
	nm -gP --defined-only "$O/libnpu.a" | awk 'NF >= 3 { print $1 }' | sort -u |
		diff "$tmp/map" - | sed -n 's/^[<>]/libnpu.a: &/p'
	[ -f "$O/libnpu.so.0" ] || return 0
	nm -DgP --defined-only "$O/libnpu.so.0" | awk '$2 != "A" { sub(/@.*/, "", $1); print $1 }' |
		sort -u | diff "$tmp/map" - | sed -n 's/^[<>]/libnpu.so.0: &/p'
	readelf -d "$O/libnpu.so.0" >"$tmp/dyn"
	grep -q 'SONAME.*\[libnpu.so.0\]' "$tmp/dyn" || echo "libnpu.so.0: no soname"
	grep -q 'NODELETE' "$tmp/dyn" || echo "libnpu.so.0: can be unloaded"
	grep 'NEEDED' "$tmp/dyn" | sed 's/^/libnpu.so.0: /' |
		grep -vE '\[(lib(c|m|pthread|dl|asan|tsan|ubsan|gcc_s)|ld-linux[a-z0-9-]*)\.so'
}

run spdx	check_spdx
run style	check_style
run words	check_words
run shell	check_shell
run layers	check_layers
run map		check_map
run contract	check_contract
run errors	check_errors
run headers	check_headers
run uapi	check_uapi
run configs	check_configs
run comments	check_comments
run kernel-doc	check_kerneldoc
run maintained	check_maintained
run readme	check_readme
if [ -z "$quick" ]; then
	run sparse	check_sparse
	run symbols	check_symbols
	run docs	check_docs
fi

if [ $failed != 0 ]; then
	echo "$failed failed"
	exit 1
fi
