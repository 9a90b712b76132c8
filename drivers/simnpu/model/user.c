// SPDX-License-Identifier: MIT
/*
 * Memory of the caller, as a kernel reaches it: an address that can't be read or
 * written is an answer, not a crash.
 */
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "drivers/simnpu/model/model.h"

/* Where the system forbids it (a sandbox), the caller's word is taken. */
static bool moved(ssize_t n, void *to, const void *from, size_t size, int *rc)
{
	if (n < 0 && (errno == ENOSYS || errno == EPERM)) {
		memcpy(to, from, size);
		*rc = 0;
	} else {
		*rc = n == (ssize_t)size ? 0 : -EFAULT;
	}
	return !*rc;
}

/**
 * model_copy_in() - read the caller's memory
 * @to: where to
 * @from: the caller's address
 * @size: bytes
 *
 * Return: 0 or -EFAULT.
 */
int model_copy_in(void *to, uint64_t from, size_t size)
{
	struct iovec local = { to, size };
	struct iovec remote = { (void *)(uintptr_t)from, size };
	int rc;

	if (!size)
		return 0;
	if (from < MODEL_PAGE)
		return -EFAULT;
	moved(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), to,
	      (void *)(uintptr_t)from, size, &rc);
	return rc;
}

/**
 * model_copy_out() - write the caller's memory
 * @to: the caller's address
 * @from: where from
 * @size: bytes
 *
 * Return: 0 or -EFAULT.
 */
int model_copy_out(uint64_t to, const void *from, size_t size)
{
	struct iovec local = { (void *)(uintptr_t)from, size };
	struct iovec remote = { (void *)(uintptr_t)to, size };
	int rc;

	if (!size)
		return 0;
	if (to < MODEL_PAGE)
		return -EFAULT;
	moved(process_vm_writev(getpid(), &local, 1, &remote, 1, 0), (void *)(uintptr_t)to,
	      from, size, &rc);
	return rc;
}

/**
 * model_readable() - whether all of the caller's memory can be read
 * @addr: a page
 * @size: bytes, whole pages
 *
 * Return: true, also where the system does not say.
 */
bool model_readable(uint64_t addr, uint64_t size)
{
	uint64_t at = addr, end = addr + size;
	struct iovec local, remote[64];
	char byte[64];
	ssize_t got;
	size_t n;

	while (at < end) {
		for (n = 0; n < ARRAY_SIZE(remote) && at < end; n++, at += MODEL_PAGE)
			remote[n] = (struct iovec){ (void *)(uintptr_t)at, 1 };
		local = (struct iovec){ byte, n };
		got = process_vm_readv(getpid(), &local, 1, remote, n, 0);
		if (got < 0 && (errno == ENOSYS || errno == EPERM))
			return true;
		if (got != (ssize_t)n)
			return false;
	}
	return true;
}
