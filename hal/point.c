// SPDX-License-Identifier: MIT
/*
 * Points in streams, without reports.
 */
#include "hal/internal.h"
#include "hal/point.h"

bool hal_stream_last(uint64_t stream, struct hal_point *p)
{
	struct hal_stream_slot *slot = hal_stream_slot_at(stream);

	if (!slot || !hal_slot_is(&slot->slot, stream))
		return false;
	p->stream = stream;
	p->seq = hal_load_acquire(&slot->next_seq) - 1;
	return true;
}

int hal_point_drain(const struct hal_point *p, int64_t timeout_ms)
{
	struct hal_error before;
	struct hal_stream *s;
	struct hal_tls *t;
	int rc;

	if (hal_point_done(p))
		return 0;
	if (hal_in_callback())
		return -EDEADLK;
	s = hal_point_get(p);
	if (!s)
		return 0;
	before = *hal_error_last();
	rc = hal_stream_wait_host(s, p->seq, hal_sys_deadline(timeout_ms), 0);
	hal_stream_put(s);
	t = hal_tls_peek();
	if (rc && t)
		t->error = before;
	return rc;
}
