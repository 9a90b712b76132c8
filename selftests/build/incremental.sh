#!/bin/sh
# SPDX-License-Identifier: MIT
# A build makes what must be made, and nothing else.
. "${srctree:?run me by make check}/selftests/build/lib.sh"
make_toy

library='drivers/null/drv.o drivers/simnpu/drv.o hal/toy.o runtime/init.o'
everything="$library samples/hello/hello.o tools/ctl/main.o"

# after COMMAND, a build compiles: after "OBJECTS" COMMAND...
after() {
	expected=$1
	shift
	"$@" || return 1
	in_toy >"$work/log" 2>&1 || { cat "$work/log"; return 1; }
	is "$expected" "$(compiled)"
}

nothing() {	# nothing is made, printed or touched
	find "$toy/build" -type f -printf '%p %T@\n' | sort >"$work/before"
	in_toy >"$work/log" 2>&1 && is '' "$(cat "$work/log")" &&
		find "$toy/build" -type f -printf '%p %T@\n' | sort | diff "$work/before" -
}

touch_in() {	# later than what was built, by more than a file system's clock can miss
	sleep 0.05
	touch "$toy/$1"
}

option() {	# option SYMBOL=VALUE: change it in .config
	sed -i "s/.*CONFIG_${1%%=*}[= ].*/CONFIG_$1/" "$toy/build/.config"
	touch_in build/.config
}

relinked() {	# touching the version script links again and compiles nothing
	touch_in libnpu.map
	in_toy >"$work/log" 2>&1 && is '' "$(compiled)" && grep -q 'LD *libnpu.so' "$work/log"
}

flags_of_one() {
	printf '%s\n' 'obj-y += init.o' 'CFLAGS_init.o := -DTOY=1' >"$toy/runtime/Makefile"
}

flags_of_none() {
	echo 'obj-y += init.o' >"$toy/runtime/Makefile"
}

result() {	# result TEXT: what the sample prints
	is "$1" "$("$toy/build/samples/hello/hello")"
}

unwritten() {	# the source tree is as it was
	(cd "$toy" && find . -path ./build -prune -o -path ./elsewhere -prune -o -type f -print |
		sort) | diff "$work/sources" -
}

fewer() {	# an object that is taken away is gone from the library
	echo >"$toy/drivers/null/Makefile"
	in_toy && result '42 1'
}

(cd "$toy" && find . -path ./build -prune -o -type f -print | sort) >"$work/sources"
ok 'a first build makes everything' after "$everything" in_toy -s simnpu_defconfig
ok 'and it works' result '42 2'
ok 'a second makes nothing' nothing
ok 'a source touched: one object' after hal/toy.o touch_in hal/toy.c
ok 'a header touched: those that include it' \
	after "$library tools/ctl/main.o" touch_in hal/toy.h
ok 'the public header touched' \
	after 'runtime/init.o samples/hello/hello.o' touch_in include/npu/npu.h
ok 'a Kconfig touched, nothing changed: no object' after '' touch_in hal/Kconfig
ok 'an option changed: all that see options' \
	after "$library tools/ctl/main.o" option LOG_MAX_LEVEL=1
ok 'flags of one object: that object' after runtime/init.o flags_of_one
ok 'and they take effect' result '43 2'
ok 'flags taken away: that object' after runtime/init.o flags_of_none
ok 'and that takes effect' result '42 2'
ok 'the version script: links again' relinked
ok 'nothing is left to make' nothing
ok 'make CFLAGS=-O1: everything' sh -c \
	"make -C '$toy' --no-print-directory CFLAGS=-O1 | grep -c '^  CC' | grep -qx 6"
ok 'a folder of its own: O=' in_toy O="$toy/elsewhere" simnpu_defconfig all
ok 'the source tree is not written' unwritten
in_toy >/dev/null 2>&1
ok 'an object taken away' fewer
ok 'clean' sh -c "make -C '$toy' clean && [ ! -e '$toy/build/obj' ] && [ -e '$toy/build/.config' ]"
done_testing
