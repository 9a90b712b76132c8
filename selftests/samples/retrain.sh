#!/bin/sh
# SPDX-License-Identifier: MIT
# All of the training, and the weights are those that are shipped.
. "${srctree:?run me by make check}/selftests/build/lib.sh"

enabled SAMPLES || skip_all 'built without samples'
enabled DRV_SIMNPU || skip_all 'built without the simulated NPU'
enabled FILES || skip_all 'built without files and weights'
enabled SAMPLES_ZLIB || skip_all 'built without zlib'
[ -d /usr/share/datasets/fashion-mnist ] || skip_all 'dataset-fashion-mnist is not installed'

src=$srctree/samples/fashion_mnist

retrain() {
	"$objtree/samples/fashion_mnist/train" --out "$work/weights.bin" &&
		cmp "$work/weights.bin" "$src/weights.bin" &&
		(cd "$work" && sha256sum -c "$src/weights.sha256")
}

ok 'the shipped weights come out' retrain
done_testing
