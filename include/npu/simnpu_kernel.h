/* SPDX-License-Identifier: MIT */
/*
 * Writing kernels for the simulated NPU.
 *
 * A kernel is a function that runs once a block. Blocks of one launch may run
 * at the same time on different cores and in any order; they share nothing but
 * device memory. Everything that a kernel needs is reached through the block it
 * is given, so an object of kernels needs no symbol of libnpu:
 *
 *	#include <npu/simnpu_kernel.h>
 *
 *	NPU_SIMNPU_MODULE();
 *
 *	struct add_args { uint64_t a, b, c, n; };
 *
 *	NPU_SIMNPU_KERNEL(add)
 *	{
 *		const struct add_args *p = args;
 *		uint64_t lo = p->n * blk->index / blk->count;
 *		uint64_t hi = p->n * (blk->index + 1) / blk->count;
 *		const float *a = npu_simnpu_read(blk, p->a + lo * 4, (hi - lo) * 4);
 *		...
 *	}
 *
 * built by `cc -shared -fPIC -o add.so add.c` and loaded by npu_module_load().
 * Kernels that are linked into the program itself (an appliance without a
 * dynamic loader, with libnpu linked statically) are the same source built with
 * -DNPU_SIMNPU_BUILTIN; they belong to the built-in module.
 */
#ifndef NPU_SIMNPU_KERNEL_H
#define NPU_SIMNPU_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** NPU_SIMNPU_KERNEL_ABI - the version of what this header says */
#define NPU_SIMNPU_KERNEL_ABI 1u

/* How an access means to use the memory. */
#define NPU_SIMNPU_READ		1u
#define NPU_SIMNPU_WRITE	2u

/** NPU_SIMNPU_TLB - ranges that a block remembers */
#define NPU_SIMNPU_TLB 4u

/**
 * struct npu_simnpu_range - a range of device memory already looked up
 * @start: first device address
 * @end: the address behind the last
 * @host: where the byte at @start lies
 * @epoch: the value of *npu_simnpu_block.epoch for which this holds
 * @mode: NPU_SIMNPU_READ, NPU_SIMNPU_WRITE or both
 * @pad: zero
 */
struct npu_simnpu_range {
	uint64_t start;
	uint64_t end;
	char *host;
	uint64_t epoch;
	uint32_t mode;
	uint32_t pad;
};

/**
 * struct npu_simnpu_block - what a kernel is told about the block that it runs
 * @size: bytes of this structure, as the simulator knows it
 * @abi: NPU_SIMNPU_KERNEL_ABI of the simulator
 * @index: which block, from 0
 * @count: blocks in the launch, at least 1
 * @core: the core that runs it, from 0; two blocks that run at the same time
 *	never have the same
 * @cores: cores of the device
 * @args_size: bytes behind the kernel's second argument
 * @failed: nonzero once an access of this block was refused, or the kernel refused
 *	its arguments: the task fails
 * @stop: nonzero asks the kernel to return soon
 * @epoch: changes when device memory is freed
 * @resolve: looks a range up; on a refusal marks the block as failed and
 *	returns NULL. Kernels call npu_simnpu_access() instead.
 * @tlb: ranges looked up before
 * @tlb_next: the entry that is replaced next
 * @pad: zero
 *
 * Context: owned by the simulator, valid while the kernel runs.
 */
struct npu_simnpu_block {
	uint32_t size;
	uint32_t abi;
	uint32_t index;
	uint32_t count;
	uint32_t core;
	uint32_t cores;
	uint32_t args_size;
	uint32_t failed;
	const uint32_t *stop;
	const uint64_t *epoch;
	void *(*resolve)(struct npu_simnpu_block *blk, uint64_t addr, uint64_t size, uint32_t mode);
	struct npu_simnpu_range tlb[NPU_SIMNPU_TLB];
	uint32_t tlb_next;
	uint32_t pad;
};

/**
 * typedef npu_simnpu_kernel_fn - a kernel
 * @blk: the block to run
 * @args: the launch's arguments, a copy made at submission, aligned to 16
 */
typedef void npu_simnpu_kernel_fn(struct npu_simnpu_block *blk, const void *args);

/**
 * npu_simnpu_access() - reach device memory from a kernel
 * @blk: the block that the kernel was given
 * @addr: device address
 * @size: bytes, at least 1; all must lie in one allocation
 * @mode: NPU_SIMNPU_READ, NPU_SIMNPU_WRITE or both
 *
 * Context: inside a kernel.
 * Return: a host pointer to the bytes, valid until the kernel returns, or NULL
 * if the range is not memory of this device, or the kernel is asked to stop.
 * The kernel returns then; the task fails with -EFAULT (or as it was stopped)
 * whatever it does.
 */
static inline void *npu_simnpu_access(struct npu_simnpu_block *blk, uint64_t addr,
				      uint64_t size, uint32_t mode)
{
	uint64_t epoch = __atomic_load_n(blk->epoch, __ATOMIC_ACQUIRE);
	uint32_t i;

	if (__atomic_load_n(blk->stop, __ATOMIC_RELAXED))
		return NULL;
	for (i = 0; i < NPU_SIMNPU_TLB; i++) {
		const struct npu_simnpu_range *r = &blk->tlb[i];

		if (addr >= r->start && addr < r->end && size <= r->end - addr && size &&
		    r->epoch == epoch && (r->mode & mode) == mode)
			return r->host + (addr - r->start);
	}
	return blk->resolve(blk, addr, size, mode);
}

/**
 * npu_simnpu_read() - npu_simnpu_access() for reading
 * @blk: the block that the kernel was given
 * @addr: device address
 * @size: bytes, at least 1; all must lie in one allocation
 *
 * Context: inside a kernel.
 * Return: as npu_simnpu_access().
 */
static inline const void *npu_simnpu_read(struct npu_simnpu_block *blk, uint64_t addr,
					  uint64_t size)
{
	return npu_simnpu_access(blk, addr, size, NPU_SIMNPU_READ);
}

/**
 * npu_simnpu_write() - npu_simnpu_access() for writing, or reading and writing
 * @blk: the block that the kernel was given
 * @addr: device address
 * @size: bytes, at least 1; all must lie in one allocation
 *
 * Context: inside a kernel.
 * Return: as npu_simnpu_access().
 */
static inline void *npu_simnpu_write(struct npu_simnpu_block *blk, uint64_t addr, uint64_t size)
{
	return npu_simnpu_access(blk, addr, size, NPU_SIMNPU_READ | NPU_SIMNPU_WRITE);
}

/**
 * npu_simnpu_stopped() - whether the kernel should return before it is done
 * @blk: the block that the kernel was given
 *
 * Context: inside a kernel.
 * Return: 1 or 0.
 */
static inline int npu_simnpu_stopped(const struct npu_simnpu_block *blk)
{
	return __atomic_load_n(blk->stop, __ATOMIC_RELAXED) != 0;
}

/**
 * npu_simnpu_refuse() - fail the task, because the kernel's arguments do not fit
 * @blk: the block that the kernel was given
 *
 * Every block sees the same arguments, so each refuses before it changes
 * anything. The kernel returns then; the task fails with -EFAULT.
 * Context: inside a kernel.
 */
static inline void npu_simnpu_refuse(struct npu_simnpu_block *blk)
{
	blk->failed = 1;
}

/**
 * struct npu_simnpu_builtin - a kernel that is linked into the program
 * @abi: NPU_SIMNPU_KERNEL_ABI it was built with
 * @pad: zero
 * @name: the name to look it up by
 * @fn: the kernel
 */
struct npu_simnpu_builtin {
	uint32_t abi;
	uint32_t pad;
	const char *name;
	npu_simnpu_kernel_fn *fn;
};

#if defined(__has_attribute)
#if __has_attribute(retain)
#define NPU_SIMNPU_RETAIN __attribute__((used, retain, section("npu_simnpu_kernels")))
#endif
#endif
#ifndef NPU_SIMNPU_RETAIN
#define NPU_SIMNPU_RETAIN __attribute__((used, section("npu_simnpu_kernels")))
#endif

#ifdef __cplusplus
#define NPU_SIMNPU_EXTERN extern "C"
#else
#define NPU_SIMNPU_EXTERN extern
#endif

/**
 * NPU_SIMNPU_KERNEL() - begin the definition of a kernel
 * @kname: its name, also the one to look it up by
 *
 * The body sees `blk` and `args`. An object of kernels that is loaded from a
 * file says its ABI once, by NPU_SIMNPU_MODULE().
 */
#ifdef NPU_SIMNPU_BUILTIN
#define NPU_SIMNPU_KERNEL(kname)							\
	static npu_simnpu_kernel_fn npu_simnpu_fn_##kname;				\
	static const struct npu_simnpu_builtin npu_simnpu_desc_##kname = {		\
		NPU_SIMNPU_KERNEL_ABI, 0, #kname, npu_simnpu_fn_##kname };		\
	static const struct npu_simnpu_builtin *const npu_simnpu_ptr_##kname		\
		NPU_SIMNPU_RETAIN = &npu_simnpu_desc_##kname;				\
	static void npu_simnpu_fn_##kname(struct npu_simnpu_block *blk, const void *args)
#define NPU_SIMNPU_MODULE() struct npu_simnpu_module_in_program
#else
#define NPU_SIMNPU_KERNEL(kname)							\
	NPU_SIMNPU_EXTERN __attribute__((visibility("default")))			\
	npu_simnpu_kernel_fn kname;							\
	void kname(struct npu_simnpu_block *blk, const void *args)
#define NPU_SIMNPU_MODULE()								\
	NPU_SIMNPU_EXTERN __attribute__((visibility("default")))			\
	const uint32_t npu_simnpu_kernel_abi;						\
	const uint32_t npu_simnpu_kernel_abi = NPU_SIMNPU_KERNEL_ABI
#endif

#ifdef __cplusplus
}
#endif

#endif /* NPU_SIMNPU_KERNEL_H */
