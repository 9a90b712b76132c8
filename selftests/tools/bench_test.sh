#!/bin/sh
# SPDX-License-Identifier: MIT
# npu-bench: its cases run and its lines can be read. No times are looked at.
. "${srctree:?run me by make check}/selftests/build/lib.sh"
enabled TOOLS || skip_all "needs CONFIG_TOOLS"
enabled DRV_SIMNPU || skip_all "needs the simulator"
bench=$objtree/tools/npu-bench

cases='submit roundtrip event start hop guard pool alloc alloc-threads alloc-trace pinned copy'
cases="$cases file-read gemm parked ipc init size"

listed() {
	is "$cases" "$("$bench" --list | awk '{ print $1 }' | tr '\n' ' ' | sed 's/ $//')"
}

# valid FILE: each line is an object with all keys of the right type
valid() {
	perl -MJSON::PP -ne '
		my $o = eval { decode_json($_) } or die "not JSON: $_";
		for my $k (qw(case variant unit target)) {
			defined $o->{$k} && !ref $o->{$k} or die "no text $k: $_";
		}
		for my $k (qw(median limit ratio)) {
			defined $o->{$k} && $o->{$k} =~ /^-?[0-9.eE+-]+$/ or die "no number $k: $_";
		}
		exists $o->{reached} or die "no reached: $_";
		$n++;
		END { die "no lines\n" unless $n }' "$1"
}

json_of() {	# json_of CASE: it runs, and all its lines are of the case
	"$bench" "$1" --quick --json >"$work/json" 2>"$work/err" || { cat "$work/err"; return 1; }
	# a case may have nothing to compare with here, and says so
	if [ ! -s "$work/json" ]; then
		grep "$1: left out" "$work/err" || [ "$1" = size ]
		return
	fi
	valid "$work/json" || return 1
	is '' "$(grep -v "\"case\": \"$1\"" "$work/json")"
}

table() {	# for people: a calibration, a heading, and a line for each variant
	"$bench" guard --quick >"$work/table" 2>&1 || { cat "$work/table"; return 1; }
	grep -q '^# calibration: ping-pong .* ns, copy .* GB/s, FMA .* GFLOP/s, clock .* GHz' \
		"$work/table" || { cat "$work/table"; return 1; }
	is 2 "$(grep -c '^guard ' "$work/table")"
}

status() {	# status EXPECTED ARGS...: exits so
	want=$1
	shift
	"$bench" "$@" >"$work/said" 2>&1
	is "$want" "$?" || { cat "$work/said"; return 1; }
}

no_program() {
	status 2 size --quick --appliance "$work/nothing"
}

missed() {	# a target that is missed counts only with --check
	dd if=/dev/zero of="$work/pad.bin" bs=1024 count=2048 2>/dev/null
	printf 'int main(void) { return 0; }\n' >"$work/a.c"
	printf '__asm__(".data\\n.incbin \\"%s\\"\\n");\n' "$work/pad.bin" >>"$work/a.c"
	${CC:-cc} -o "$work/big" "$work/a.c" || return 1
	status 0 size --quick --appliance "$work/big" && grep -q 'appliance.* NO$' "$work/said" &&
		status 1 size --quick --check --appliance "$work/big"
}

helps() {	# --help shows the usage on the standard output, and is no error
	status 0 --help 2>&1 && grep -q '^Exit status: 0' "$work/said" &&
		is '' "$("$bench" --help 2>&1 >/dev/null)"
}

no_devices() {	# a case that can't be measured is no success
	NPU_SIMNPU_DEVICES=0 status 2 guard --quick
}

ok "cases are listed" listed
# alloc-trace has a test of its own
for c in $(echo "$cases" | sed 's/alloc-trace //'); do
	ok "$c runs and prints objects" json_of "$c"
done
ok "the table" table
ok "--help" helps
ok "an unknown case is refused" refuses 'no case nonsense' "$bench" nonsense
ok "an unknown option is refused" refuses 'unknown or incomplete option --nonsense' \
	"$bench" --nonsense
ok "bad usage has the status 2" status 2 --nonsense
ok "runs must be a number" refuses 'not a number of runs: 3x' "$bench" --runs 3x
ok "runs must be 1 or more" refuses 'not a number of runs: 0' "$bench" --runs 0
ok "runs must be at most 99" refuses 'not a number of runs: 100' "$bench" --runs 100
ok "a program that is not there cannot be weighed" no_program
ok "missed targets decide the status with --check alone" missed
ok "without a device the status is 2" no_devices
done_testing
