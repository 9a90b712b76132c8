#!/bin/sh
# SPDX-License-Identifier: MIT
# npuctl: what it prints can be read by programs, and nonsense is refused.
. "${srctree:?run me by make check}/selftests/build/lib.sh"
enabled TOOLS || skip_all "needs CONFIG_TOOLS"
enabled DRV_SIMNPU || skip_all "needs the simulator"
ctl=$objtree/tools/npuctl
unset NPU_OPTIONS_FILE NPU_VISIBLE_DEVICES ASCEND_RT_VISIBLE_DEVICES NPU_DRIVER
export NPU_SIMNPU_DEVICES=3

table() {	# a heading, then a line a device with as many words
	"$ctl" info >"$work/table" && is 4 "$(wc -l <"$work/table")" &&
		is 12 "$(awk '{ print NF }' "$work/table" | sort -u)" &&
		is '0 1 2' "$(awk 'NR > 1 { print $1 }' "$work/table" | words)" &&
		is 'simnpu simnpu simnpu' "$(awk 'NR > 1 { print $4 }' "$work/table" | words)" &&
		awk '{ print $10, $11, $12 }' "$work/table" >"$work/health" &&
		is 'state generation cause' "$(head -n 1 "$work/health")" &&
		is 'closed 0 none' "$(tail -n 1 "$work/health")"
}

listed() {
	ASCEND_RT_VISIBLE_DEVICES=2,1 "$ctl" info >"$work/table" &&
		is '2 1' "$(awk 'NR > 1 { print $2 }' "$work/table" | tr '\n' ' ' | sed 's/ $//')"
}

none() {
	NPU_VISIBLE_DEVICES='' "$ctl" info >"$work/table" && is 1 "$(wc -l <"$work/table")"
}

one() {	# name=value, each name once
	"$ctl" info 1 >"$work/one" && is '' "$(grep -v '^[a-z_]*=' "$work/one")" &&
		is '' "$(cut -d= -f1 "$work/one" | sort | uniq -d)" &&
		is index=1 "$(grep ^index= "$work/one")" &&
		is 'cause=none generation=0 state=closed' \
			"$(grep -E '^(state|generation|cause)=' "$work/one" | words)" &&
		grep -q '^caps=.*launch.*mem' "$work/one" &&
		grep -q '^mem_total=[1-9][0-9]*$' "$work/one"
}

null() {	# a device that can do nothing
	enabled DRV_NULL || return 0
	NPU_DRIVER=null "$ctl" info 0 >"$work/one" && is caps= "$(grep ^caps= "$work/one")"
}

options() {
	"$ctl" options >"$work/options" &&
		is '' "$(grep -vE '^[a-z0-9_]+ ".*" (default|file|environment|api)$' \
			"$work/options")" &&
		is 'simnpu_devices "3" environment' "$("$ctl" options simnpu_devices)" &&
		is 'log_level "none" environment' \
			"$(NPU_LOG_LEVEL=none "$ctl" options log_level)" &&
		echo 'log_level = error' >"$work/file" &&
		is 'log_level "error" file' \
			"$(NPU_OPTIONS_FILE=$work/file "$ctl" options log_level)"
}

explained() {	# by name or number, of either sign
	"$ctl" explain EDEADLK >"$work/one" && is 4 "$(wc -l <"$work/one")" &&
		is 'EDEADLK (-35)' "$(head -n 1 "$work/one")" &&
		grep -q '^  remedy:  .*callback' "$work/one" || return 1
	for word in -EDEADLK edeadlk 35 -35; do
		"$ctl" explain "$word" | cmp -s "$work/one" - || { echo "$word"; return 1; }
	done
	"$ctl" explain EINVAL ENOMEM >"$work/two" && is 8 "$(wc -l <"$work/two")"
}

all_codes() {	# a line a code, and each can be explained
	"$ctl" explain >"$work/codes" && [ "$(wc -l <"$work/codes")" -gt 25 ] &&
		"$ctl" explain $(awk '{ print $1 }' "$work/codes") >"$work/all" &&
		is "$(wc -l <"$work/codes")" "$(grep -c '^  remedy:' "$work/all")"
}

version() {
	"$ctl" version | grep -qE '^[0-9]+\.[0-9]+\.[0-9]+ .*simnpu'
}

status() {	# status EXPECTED ARGS...
	want=$1
	shift
	"$ctl" "$@" >"$work/said" 2>&1
	is "$want" "$?"
}

wrong_words() {
	status 2 && status 2 nonsense && status 2 info x && status 2 info 0 1 &&
		status 2 info -1 && status 2 options --rst && status 2 version now &&
		status 2 weights && status 2 weights info && status 2 weights nonsense x &&
		status 2 fault && status 2 fault nonsense && status 2 fault list x &&
		status 2 fault check && status 2 fault run && status 2 fault run task:copy true &&
		status 2 fault run task:copy -- &&
		status 0 --help && status 0 help
}

faults() {	# what it lists, it takes
	"$ctl" fault list >"$work/list" &&
		grep -q '^  task:copy  *[a-z]' "$work/list" &&
		grep -q '^  sys:thread_create ' "$work/list" &&
		grep -q '^  ecc  *[a-z]' "$work/list" &&
		grep -q '^  seed  *[a-z]' "$work/list" || return 1
	for what in $(sed -n '/^WHAT/,/^keys/s/^  \([a-z][^ ]*\).*/\1/p' "$work/list"); do
		rule=$what
		[ "$what" != device ] || rule=device,do=link
		"$ctl" fault check "$rule" || return 1
	done
	"$ctl" fault check '' &&
		"$ctl" fault check 'task:copy,do=ecc,nth=3; ioctl:mem_create,prob=0.01,seed=7'
}

bad_faults() {
	status 1 fault check 'task:copy,do=eccc' && grep -q 'at byte 13: .*accepted: .*ecc' \
		"$work/said" && grep -q '^               ^$' "$work/said" &&
		status 1 fault check nonsense && status 1 fault check 'task:copy,nth=x' &&
		status 1 fault run 'nonsense' -- true
}

faults_run() {	# the program sees the rules, and they act
	is task:copy "$("$ctl" fault run task:copy -- sh -c 'echo $NPU_SIMNPU_FAULTS')" &&
		is 1 "$("$ctl" fault run --report task:copy -- \
			sh -c 'echo $NPU_SIMNPU_FAULTS_REPORT')" &&
		refuses 'ENOMEM' "$ctl" fault run 'ioctl:info,code=ENOMEM,times=0' -- \
			"$ctl" info 0 &&
		"$ctl" fault run --report 'ioctl:info,code=EIO,nth=99' -- "$ctl" info 0 \
			>"$work/out" 2>"$work/report" &&
		grep -qx 'simnpu fault: ioctl:info,code=EIO,nth=99: 0 of [1-9][0-9]*' \
			"$work/report" &&
		status 7 fault run task:copy -- sh -c 'exit 7' &&
		status 127 fault run task:copy -- "$work/nothing"
}

full() {
	[ -e /dev/full ] || return 0
	"$ctl" info >/dev/full 2>"$work/err"
	is 1 "$?"
}

# what is packed is what was given, and each bit counts
weights() {
	printf '0123456789abcdef' >"$work/data" && : >"$work/empty" &&
		"$ctl" weights pack "$work/w" a:f32:2x2="$work/data" x:y:u8:16="$work/data" \
			none:i64:3x0="$work/empty" &&
		"$ctl" weights info "$work/w" >"$work/info" && cat "$work/info" &&
		grep -q '^a  *f32  *2x2  *16 bytes at 4096  *[0-9a-f]\{16\}$' "$work/info" &&
		grep -q '^x:y  *u8  *16  *16 bytes' "$work/info" &&
		grep -q '^3 tensors, 32 bytes$' "$work/info" &&
		"$ctl" weights check "$work/w" >"$work/check" &&
		is 3 "$(grep -c ' ok$' "$work/check")" &&
		printf 'X' | dd of="$work/w" bs=1 seek=4100 conv=notrunc status=none &&
		! "$ctl" weights check "$work/w" >"$work/check" 2>"$work/err" &&
		grep -q '^a .* DAMAGED$' "$work/check" && grep -q 'EBADMSG.*"a"' "$work/err" &&
		is 2 "$(grep -c ' ok$' "$work/check")"
}

bad_packs() {
	for t in a a=b a:f32=b a:f33:4="$work/data" a:f32:5="$work/data" a:f32:3="$work/data" \
		 a:f32:4y="$work/data" a:f32:x4="$work/data" a:f32:-4="$work/data" \
		 a:f32:99999999999999999999="$work/data" a:u8:1x1x1x1x1x1x1x1x16="$work/data" \
		 a:f32:4="$work/nothing" :f32:4="$work/data"; do
		"$ctl" weights pack "$work/bad" "$t" 2>"$work/err" && { echo "$t"; return 1; }
		[ -s "$work/err" ] && [ ! -e "$work/bad" ] || { echo "$t"; return 1; }
	done
	! "$ctl" weights pack "$work/bad" a:u8:16="$work/data" a:u8:16="$work/data" 2>"$work/err" &&
		grep -q EEXIST "$work/err"
}

ok 'a line a device' table
ok 'in the order of the visible list' listed
ok 'no device' none
ok 'one device' one
ok 'the null device' null
ok 'a device that does not exist' refuses 'ENODEV' "$ctl" info 3
ok 'and what to do about it' refuses 'npuctl info lists' "$ctl" info 3
ok 'a bad visible list' refuses 'position 2' env NPU_VISIBLE_DEVICES=0,7 "$ctl" info
ok 'options and where they are from' options
ok 'an option that does not exist' refuses 'ENOENT' "$ctl" options nothing
ok 'a code by name and number' explained
ok 'all codes' all_codes
for word in EXFULL 0 99999 -- '' 35x; do
	ok "no code: '$word'" refuses 'not a code' "$ctl" explain "$word"
done
ok 'version' version
ok 'words that it does not know' wrong_words
if enabled SIMNPU_FAULTS; then
	ok 'the words of faults are taken' faults
	ok 'faults that are not well-formed' bad_faults
	ok 'a program under faults' faults_run
else
	ok 'faults that were not built in' refuses 'CONFIG_SIMNPU_FAULTS' "$ctl" fault list
fi
if enabled FILES; then
	ok 'weights packed and checked' weights
	ok 'weights that cannot be packed' bad_packs
	ok 'what is no container' refuses EBADMSG "$ctl" weights info "$work/data"
	ok 'no container' refuses ENOENT "$ctl" weights check "$work/nothing"
else
	ok 'weights that were not built in' refuses 'CONFIG_FILES' "$ctl" weights info "$work/data"
fi
ok 'an output that is full' full
done_testing
