// SPDX-License-Identifier: MIT
/*
 * Windows: device memory as a host range, for file I/O.
 */
#include "hal/internal.h"

static int open_on(struct hal_memory *m, const char *ptr, size_t size, struct hal_window *w)
{
	struct hal_device *dev = m->ctx->dev;
	uint64_t offset = (uint64_t)(ptr - (const char *)m->addr);
	uint32_t fills;
	void *host;
	int rc;

	rc = hal_need(dev, NPU_CAP_IO_WINDOW, "io_window");
	if (!rc)
		rc = hal_device_usable(dev, "io_window");
	if (rc)
		return rc;
	fills = hal_fills();
	rc = dev->drv->memory->window_open(m, offset, size, &host);
	if (rc)
		return hal_driver_failed(rc, "io_window", dev, fills);
	*w = (struct hal_window){ .host = host, .mem = m, .offset = offset, .size = size };
	return 0;
}

/**
 * hal_window_open() - open device memory for file I/O
 * @ptr: its first byte
 * @size: how many, at least 1
 * @w: out: the window; empty on failure
 *
 * Return: 0, -EINVAL (not device memory, or it leaves its allocation), -EHWPOISON (it is unsafe),
 * -EOPNOTSUPP (without NPU_CAP_IO_WINDOW, or not of this memory), the device's state.
 */
int hal_window_open(void *ptr, size_t size, struct hal_window *w)
{
	struct hal_memory *m;
	bool safe;
	int rc;

	*w = (struct hal_window){ .host = NULL };
	m = hal_memory_get(ptr, size, &safe);
	if (!m)
		return hal_fail(-EINVAL, "io_window", "%zu bytes at %p are not device memory",
				size, ptr);
	if (safe)
		rc = open_on(m, ptr, size, w);
	else
		rc = hal_fail_at(-EHWPOISON, "io_window", m->ctx->dev, 0,
				 "the memory at %p was hit by an uncorrectable error", ptr);
	if (rc)
		hal_memory_put(m);
	return rc;
}

/**
 * hal_window_close() - close a window
 * @w: the window; of an empty one nothing
 */
void hal_window_close(struct hal_window *w)
{
	struct hal_memory *m = w->mem;

	if (!m)
		return;
	m->ctx->dev->drv->memory->window_close(m, w->offset, w->size);
	*w = (struct hal_window){ .host = NULL };
	hal_memory_put(m);
}
