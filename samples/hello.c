// SPDX-License-Identifier: MIT
/*
 * The shortest program that does something on the device: add one to a number.
 *
 *	cc -o hello hello.c $(pkg-config --cflags --libs libnpu)
 */
#include <stdint.h>
#include <stdio.h>
#include <npu/npu.h>
#include <npu/simnpu_ops.h>

#define TRY(call) do { if ((call) < 0) return fail(#call); } while (0)

static int fail(const char *what)
{
	struct npu_error e = { .size = sizeof(e) };

	npu_last_error(&e);
	fprintf(stderr, "%s: %s: %s\n", what, npu_error_name(e.code), e.text);
	return 1;
}

int main(void)
{
	uint64_t value = 41;
	struct npu_simnpu_inc_args args = { .by = 1 };
	npu_kernel inc;
	void *mem;

	TRY(npu_malloc(sizeof(value), 0, &mem));
	TRY(npu_memcpy(mem, &value, sizeof(value), NPU_COPY_AUTO));
	args.addr = (uintptr_t)mem;
	TRY(npu_kernel_get(NPU_MODULE_BUILTIN, "inc_u64", &inc));
	TRY(npu_launch(inc, 1, &args, sizeof(args), NPU_STREAM_CURRENT));
	TRY(npu_stream_sync(NPU_STREAM_CURRENT, NPU_WAIT_FOREVER));
	TRY(npu_memcpy(&value, mem, sizeof(value), NPU_COPY_AUTO));
	TRY(npu_free(mem));
	printf("%llu\n", (unsigned long long)value);
	return npu_finalize(NPU_WAIT_FOREVER) ? fail("npu_finalize") : 0;
}
