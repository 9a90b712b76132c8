// SPDX-License-Identifier: GPL-2.0-only
/*
 * Conformance: contexts.
 */
#include "selftests/hal/bed.h"

CONFORMANCE(context)

/* C-CTX-1 */
TEST_F(context, destroy_takes_all_with_it)
{
	struct bed *b = &self->b;
	struct hal_pointer info;
	uint64_t s = 0, ev = 0;
	void *p = NULL;

	if (can(b, NPU_CAP_STREAM))
		ASSERT_EQ(0, make_stream(b, &s));
	if (can(b, NPU_CAP_MEM))
		ASSERT_EQ(0, hal_mem_alloc(b->ctx, 4096, 0, &p));
	if (can(b, NPU_CAP_STREAM | NPU_CAP_EVENT_TIMING)) {
		ASSERT_EQ(0, hal_event_create(NPU_EVENT_TIMING, &ev));
		ASSERT_EQ(0, hal_event_record(ev, s, PLACE));
	}
	ASSERT_EQ(0, hal_context_destroy(b->ctx_handle, LONG_MS));
	EXPECT_EQ(-ESTALE, hal_context_destroy(b->ctx_handle, LONG_MS));
	EXPECT_EQ(NULL, hal_context_get(b->ctx_handle, "test"));
	EXPECT_EQ(-ESTALE, hal_error_last()->code);
	b->ctx_handle = 0;
	if (s) {
		EXPECT_EQ(-ESTALE, hal_stream_query(s));
		EXPECT_EQ(-ESTALE, hal_stream_sync(s, 0, 0));
		EXPECT_EQ(-ESTALE, make_stream(b, &s));
	}
	if (ev)
		EXPECT_EQ(-ESTALE, hal_event_query(ev));
	if (p) {
		EXPECT_EQ(0, hal_pointer_info(p, &info));
		EXPECT_EQ(0, info.kind);
		EXPECT_EQ(-EINVAL, hal_mem_free(p));
		EXPECT_EQ(-ESTALE, hal_mem_alloc(b->ctx, 4096, 0, &p));
	}
	if (b->module) {
		EXPECT_EQ(-ESTALE, hal_kernel_get(b->module, "nop", &b->nop));
		EXPECT_EQ(NULL, hal_kernel_device(b->inc, "test"));
		EXPECT_EQ(-ESTALE, hal_error_last()->code);
		EXPECT_EQ(-ESTALE, hal_module_load_builtin(b->ctx, &b->module));
	}
}

TEST_F(context, destroy_that_times_out_destroys_nothing)
{
	struct bed *b = &self->b;
	struct gate g;
	uint64_t s, t;
	void *p;

	STREAM_OR_REFUSED(b, &s);
	CAP_OR_REFUSED(b, NPU_CAP_CALLBACK, gate_close(&g, s));
	ASSERT_EQ(0, make_stream(b, &t));
	MEMORY_OR_REFUSED(b, 4096, &p);
	ASSERT_EQ(0, gate_close(&g, s));
	EXPECT_EQ(-ETIMEDOUT, hal_context_destroy(b->ctx_handle, 5));
	EXPECT_EQ(-ETIMEDOUT, hal_context_destroy(b->ctx_handle, 0));
	EXPECT_EQ(-EINPROGRESS, hal_stream_query(s));
	EXPECT_EQ(0, hal_stream_query(t));
	EXPECT_EQ(0, any_task(b, t, p));
	EXPECT_EQ(0, hal_stream_sync(t, LONG_MS, 0));
	EXPECT_EQ(0, hal_mem_fill(b->ctx, p, 1, 4096));
	gate_open(&g);
	EXPECT_EQ(0, hal_stream_sync(s, LONG_MS, 0));
}

struct in_callback {
	struct bed *b;
	uint64_t s;
	int context_rc, stream_rc, sync_rc, unload_rc;
};

static void try_to_destroy(void *arg)
{
	struct in_callback *c = arg;

	c->context_rc = hal_context_destroy(c->b->ctx_handle, LONG_MS);
	c->stream_rc = hal_stream_destroy(c->s, LONG_MS);
	c->sync_rc = hal_context_sync(c->b->ctx, LONG_MS, 0);
	c->unload_rc = hal_module_unload(c->b->module, LONG_MS);
}

/* C-STREAM-7 */
TEST_ABOUT(context, callbacks_must_not_destroy, NPU_CAP_CALLBACK)
{
	struct in_callback c = { .b = &self->b };

	STREAM_OR_REFUSED(&self->b, &c.s);
	CAP_OR_REFUSED(&self->b, NPU_CAP_CALLBACK,
		       hal_stream_callback(c.s, try_to_destroy, &c, 0, PLACE));
	ASSERT_EQ(0, hal_stream_callback(c.s, try_to_destroy, &c, 0, PLACE));
	ASSERT_EQ(0, hal_stream_sync(c.s, LONG_MS, 0));
	EXPECT_EQ(-EDEADLK, c.context_rc);
	EXPECT_EQ(-EDEADLK, c.stream_rc);
	EXPECT_EQ(-EDEADLK, c.sync_rc);
	EXPECT_EQ(-EDEADLK, c.unload_rc);
}

TEST_F(context, sync_waits_for_all_streams)
{
	struct bed *b = &self->b;
	uint64_t s[3], got[3], *word;
	unsigned int i, k;

	STREAM_OR_REFUSED(b, &s[0]);
	ASSERT_EQ(0, make_stream(b, &s[1]));
	ASSERT_EQ(0, make_stream(b, &s[2]));
	MEMORY_OR_REFUSED(b, 4096, &word);
	ASSERT_EQ(0, hal_context_sync(b->ctx, LONG_MS, 0));
	if (!can(b, NPU_CAP_LAUNCH)) {
		EXPECT_EQ(-EINVAL, launch_nop(b, s[0]));	/* there can be no kernel */
		return;
	}
	for (i = 0; i < 3; i++)
		for (k = 0; k < 20; k++)
			ASSERT_EQ(0, launch_inc(b, s[i], word + i, 1));
	ASSERT_EQ(0, hal_context_sync(b->ctx, LONG_MS, 0));
	ASSERT_EQ(0, copy_now(b, got, word, sizeof(got)));
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, hal_stream_query(s[i]));
		EXPECT_EQ(20, got[i]);
	}
}

TEST_F(context, sync_reports_failures_of_any_stream)
{
	struct bed *b = &self->b;
	uint64_t s, t;

	STREAM_OR_REFUSED(b, &s);
	if (!can(b, NPU_CAP_LAUNCH)) {
		EXPECT_EQ(-EINVAL, launch_nop(b, s));	/* there can be no kernel */
		return;
	}
	ASSERT_EQ(0, make_stream(b, &t));
	ASSERT_EQ(0, launch_bad(b, t));
	ASSERT_EQ(0, launch_bad(b, s));
	ASSERT_EQ(-EFAULT, hal_context_sync(b->ctx, LONG_MS, 0));
	EXPECT_EQ(s, hal_error_last()->stream);
	EXPECT_NE(NULL, strstr(hal_error_last()->text, "1 more"));
	EXPECT_EQ(0, hal_context_sync(b->ctx, LONG_MS, 0));
	EXPECT_EQ(0, hal_stream_sync(t, LONG_MS, 0));
}

TEST_F(context, handles_that_are_none)
{
	EXPECT_EQ(NULL, hal_context_get(0, "test"));
	EXPECT_EQ(-EINVAL, hal_error_last()->code);
	EXPECT_EQ(-EINVAL, hal_context_destroy(0, 0));
	EXPECT_EQ(-EBADF, hal_context_destroy(self->b.ctx_handle ^ 1ull << 40, 0));
	EXPECT_EQ(-EBADF, hal_context_destroy(self->b.ctx_handle ^ 1ull << 56, 0));
	EXPECT_EQ(-EBADF, hal_context_destroy(self->b.ctx_handle + 2, 0));
	EXPECT_EQ(-EBADF, hal_context_destroy(self->b.ctx_handle + 1, 0));
}

TEST_F(context, limit_of_contexts)
{
	uint64_t c[64], one_more;
	uint32_t max = self->b.dev->info.max_contexts, n = 0;
	char text[96];

	if (!max || max > ARRAY_SIZE(c)) {
		/* no limit that a test could reach: making and destroying must go on for ever */
		for (n = 0; n < 300; n++) {
			ASSERT_EQ(0, hal_context_create(self->b.dev, &c[0]));
			ASSERT_EQ(0, hal_context_destroy(c[0], LONG_MS));
		}
		return;
	}
	for (n = 0; n < max - 1; n++)
		ASSERT_EQ(0, hal_context_create(self->b.dev, &c[n]));
	EXPECT_EQ(-ENOSPC, hal_context_create(self->b.dev, &one_more));
	EXPECT_EQ(0, one_more);
	EXPECT_EQ(-ENOSPC, hal_error_last()->code);
	snprintf(text, sizeof(text), "no more contexts: limit %u, this process %u, others 0", max,
		 max);
	EXPECT_NE(NULL, strstr(hal_error_last()->text, text))
		TH_LOG("%s", hal_error_last()->text);
	while (n--)
		EXPECT_EQ(0, hal_context_destroy(c[n], LONG_MS));
}

TEST_HARNESS_MAIN
