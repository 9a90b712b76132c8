// SPDX-License-Identifier: MIT
/*
 * Timed events: cells of the arena that the device writes its time to.
 */
#include "drivers/simnpu/simnpu.h"
#include "hal/log.h"

static struct simnpu_stamp *to_stamp(struct hal_event *e)
{
	return container_of(e, struct simnpu_stamp, base);
}

static int event_init(struct hal_event *e)
{
	struct simnpu_stamp *st = to_stamp(e);
	struct simnpu_event arg = { .context = to_simnpu_ctx(e->ctx)->handle };
	int err;

	err = simnpu_ioctl(e->ctx, SIMNPU_IOCTL_EVENT_CREATE, &arg);
	if (err)
		return hal_fail(err, "event_record", "device %d: %s", e->ctx->dev->ordinal,
				err == -ENOSPC ? "it has no more timed events" : "no event");
	st->handle = arg.handle;
	st->stamp = arg.stamp;
	return 0;
}

static void event_fini(struct hal_event *e)
{
	struct simnpu_handle h = { .handle = to_stamp(e)->handle };
	int err;

	err = simnpu_ioctl(e->ctx, SIMNPU_IOCTL_EVENT_DESTROY, &h);
	if (err)
		hal_warn(HAL_LOG_DRIVER, "simnpu%u: event %u: destroy: error %d",
			 e->ctx->dev->index, h.handle, -err);
}

static int event_timestamp(struct hal_event *e, uint64_t *ns)
{
	const char *cell = to_simnpu_ctx(e->ctx)->arena + to_stamp(e)->stamp;

	/* acquire: as the timeline that said that the record is done */
	*ns = hal_shm_load_acquire((const uint64_t *)cell);
	return 0;
}

/* Without instances there is no such capability, and nobody calls. */
#if IS_ENABLED(CONFIG_SIMNPU_INSTANCES)
#define SHARED(fn) (fn)
#else
#define SHARED(fn) NULL
#endif

const struct hal_event_ops simnpu_event_ops = {
	.obj_size = sizeof(struct simnpu_stamp),
	.init = event_init,
	.fini = event_fini,
	.timestamp = event_timestamp,
	.export_key = SHARED(simnpu_ipc_event_export),
	.allow = SHARED(simnpu_ipc_event_allow),
	.import_key = SHARED(simnpu_ipc_event_import),
	.ask = SHARED(simnpu_ipc_event_ask),
	.wait = SHARED(simnpu_ipc_event_wait),
};
