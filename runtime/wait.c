// SPDX-License-Identifier: MIT
/*
 * Waiting: time-outs, and completions as descriptors.
 */
#include "runtime/internal.h"

/* Time-outs are milliseconds, or NPU_WAIT_FOREVER. */
int rt_timeout_check(int64_t timeout_ms, const char *op)
{
	if (likely(timeout_ms >= NPU_WAIT_FOREVER))
		return 0;
	return hal_fail(-EINVAL, op, "time-out %lld is neither milliseconds nor -1",
			(long long)timeout_ms);
}

/**
 * rt_point_fd() - a descriptor that becomes readable once a point is reached
 * @p: the point; seq 0: it is reached
 * @op: for the error record
 * @fd: out: an eventfd, the caller's to close
 *
 * Return: 0, -EMFILE, -ENFILE, -EOPNOTSUPP, or as the driver fails.
 */
int rt_point_fd(const struct hal_point *p, const char *op, int *fd)
{
	int efd, err;

	efd = hal_sys_eventfd();
	if (efd < 0)
		return hal_fail(efd, op, "eventfd: %s", npu_error_name(efd));
	err = hal_point_notify(p, efd);
	if (err) {
		hal_sys_close(hal_sys_get(), efd);
		return err;
	}
	*fd = efd;
	return 0;
}
