#!/bin/sh
# SPDX-License-Identifier: MIT
# The samples do what they say, and notice what is wrong with their files.
. "${srctree:?run me by make check}/selftests/build/lib.sh"

enabled SAMPLES || skip_all 'built without samples'
enabled DRV_SIMNPU || skip_all 'built without the simulated NPU'
enabled FILES || skip_all 'built without files and weights'

dir=$objtree/samples/fashion_mnist
src=$srctree/samples/fashion_mnist
data=/usr/share/datasets/fashion-mnist
# what one epoch of plain kernels makes, on every machine
one_epoch=e0d29b611c4be39ed6b1b95e22e23f792a94252e11ad335cd08d561d25a4139a

few() {
	"$dir/infer" --pictures "$src/pictures.bin" --weights "$src/weights.bin" "$@"
}

few_classified() {
	few >"$work/few" && cat "$work/few" && grep 'accuracy: 0.9000 (18 of 20)' "$work/few"
}

same_answers() {	# whatever the batches and devices
	few >"$work/few"
	for args in '--devices 1' '--batch 1' '--batch 7 --devices 2' '--batch 3 --devices 1'; do
		few $args >"$work/other" || return 1
		sed '/accuracy/q' "$work/other" >"$work/b"
		sed '/accuracy/q' "$work/few" | diff - "$work/b" || return 1
	done
}

all_classified() {
	"$dir/infer" >"$work/all" && cat "$work/all" && grep '^accuracy: 0\.[89]' "$work/all" &&
		grep 'beside computing' "$work/all"
}

no_bar() {
	few >"$work/few" 2>&1 && ! grep "$(printf '\r')" "$work/few"
}

# flip FILE OFFSET: a copy of FILE in $work/bad, one byte of it another
flip() {
	cp "$1" "$work/bad" &&
		printf '\377' | dd of="$work/bad" bs=1 seek="$2" conv=notrunc status=none
}

bad_weights() {	# bad_weights TEXT OFFSET
	flip "$src/weights.bin" "$2" && refuses "$1" few --weights "$work/bad"
}

bad_pictures() {
	flip "$src/pictures.bin" "$2" && refuses "$1" few --pictures "$work/bad"
}

cut_short() {	# cut_short FILE OPTION BYTES TEXT
	head -c "$3" "$src/$1" >"$work/bad" && refuses "$4" few "$2" "$work/bad"
}

too_long() {
	{ cat "$src/weights.bin" && echo; } >"$work/bad" &&
		refuses 'not as long' few --weights "$work/bad"
}

another_network() {
	head -c 8 "$src/weights.bin" >"$work/numbers" &&
		"$objtree/tools/npuctl" weights pack "$work/bad" x:f32:2="$work/numbers" &&
		refuses 'another network' few --weights "$work/bad"
}

usage() {	# usage ARGS...: refused with status 2
	"$dir/infer" "$@" 2>"$work/said"
	is 2 $? && grep -q '^usage' "$work/said"
}

status_1() {
	few --min-accuracy 0.91 2>/dev/null >&2
	is 1 $?
}

# a low limit on locked memory is no reason to fail
little_locked() (
	ulimit -l 64 2>/dev/null || return 0
	few
)

trained() {
	"$dir/train" --epochs 1 --out "$work/one" &&
		is "$one_epoch" "$(sha256sum <"$work/one" | cut -d' ' -f1)"
}

# it does without npu_init(), whatever the configuration's default is
ok 'hello prints 42' is 42 "$(NPU_LAZY_INIT=1 "$objtree/samples/hello")"
ok 'infer classifies the shipped pictures' few_classified
ok 'the same with other batches and devices' same_answers
ok 'no progress bar but on a terminal' no_bar
ok 'a low limit on locked memory' little_locked
ok 'too few right answers' refuses 'below 0.9100' few --min-accuracy 0.91
ok 'and the status says so' status_1
ok 'more devices than there are' refuses 'npu_device_set' few --devices 16
ok 'no such weights' refuses 'no such file' few --weights "$work/none"
ok 'weights with another magic number' bad_weights 'does not begin like one' 3
ok 'weights of another version' bad_weights 'version' 8
ok 'weights of another network' another_network
ok 'weights with a wrong bit in the table' bad_weights 'header' 100
ok 'weights with a wrong bit' bad_weights 'checksum' 200000
ok 'weights cut short' cut_short weights.bin --weights 400000 'not as long'
ok 'weights cut in the header' cut_short weights.bin --weights 20 'too short'
ok 'weights with more behind' too_long
ok 'pictures that are none' bad_pictures 'not an idx file of pictures' 2
ok 'pictures of another size' bad_pictures 'another size' 11
ok 'more pictures than there are' bad_pictures 'too early' 6
ok 'a label out of range' bad_pictures 'ten classes' 15710
ok 'pictures without labels' cut_short pictures.bin --pictures 15696 'not an idx file of labels'
ok 'pictures cut short' cut_short pictures.bin --pictures 9000 'too early'
ok 'no data set' refuses 'dataset-fashion-mnist' "$dir/infer" --data "$work"
ok 'an unknown option' usage --wrong
ok 'a batch of none' usage --batch 0
ok 'a batch of words' usage --batch 5x
ok 'too much' usage more
if [ -f $data/t10k-images-idx3-ubyte.gz ] && enabled SAMPLES_ZLIB; then
	ok 'infer classifies the test pictures' all_classified
	if enabled SANITIZE_THREAD; then
		skip 'training comes out the same, bit by bit' 'half a minute under this sanitizer'
	else
		ok 'training comes out the same, bit by bit' trained
	fi
else
	skip 'infer classifies the test pictures' "no $data, or no zlib"
	skip 'training comes out the same, bit by bit' "no $data, or no zlib"
fi
done_testing
