/* SPDX-License-Identifier: MIT */
/*
 * A program outside the tree, as a user writes it: bytes to a device and back.
 * install.sh builds it with pkg-config against an installed library, as C and
 * as C++.
 */
#include <npu/npu.h>

#include <stdio.h>
#include <string.h>

#define NBYTES 1000

static int fail(const char *what, int err)
{
	printf("%s: %d\n", what, err);
	return 1;
}

int main(void)
{
	char out[NBYTES], in[NBYTES];
	void *dev = NULL;
	int err, count = 0;

	if (npu_version() != NPU_VERSION)
		return fail("version", (int)npu_version());
	err = npu_device_count(&count);
	if (err || count < 1)
		return fail("npu_device_count", err);

	err = npu_init();
	if (err)
		return fail("npu_init", err);
	memset(out, 42, sizeof(out));
	memset(in, 0, sizeof(in));
	err = npu_malloc(sizeof(out), 0, &dev);
	if (err)
		return fail("npu_malloc", err);
	err = npu_memcpy(dev, out, sizeof(out), NPU_COPY_H2D);
	if (err)
		return fail("npu_memcpy to the device", err);
	err = npu_memcpy(in, dev, sizeof(in), NPU_COPY_D2H);
	if (err)
		return fail("npu_memcpy from the device", err);
	err = npu_free(dev);
	if (err)
		return fail("npu_free", err);
	if (memcmp(in, out, sizeof(in)))
		return fail("the bytes differ", 0);
	printf("%d bytes there and back\n", NBYTES);
	return 0;
}
