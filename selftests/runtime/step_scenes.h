/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scenes of the tests of steps: every public function, what has to be done
 * around its call, and what is looked at behind it. Included once by a test, after the
 * harness.
 */
#ifndef SELFTESTS_RUNTIME_STEP_SCENES_H
#define SELFTESTS_RUNTIME_STEP_SCENES_H

#include "selftests/runtime/calls_env.h"
#include "selftests/runtime/steps.h"

#include "selftests/runtime/step_calls.h"

#define CALL_SECONDS 60

/**
 * struct scene - a call, and what it answers when nothing fails
 * @name: the public function
 * @fn: calls it
 * @text: how, and so which results it names
 * @want: the answer
 */
struct scene {
	const char *name;
	int (*fn)(void);
	const char *text;
	int want;
};


static const struct extra {
	const char *name;
	const char *text;
	int want;
} extras[] = {
#define ROW(name, expr, want) { #name, #expr, want },
	EXTRA_CALLS(ROW)
#undef ROW
};

#define EXTRAS_NR ARRAY_SIZE(extras)

/* Calls the i-th of the extra calls. */
static size_t extra_now;

static int extra_call(void)
{
	size_t i = 0;

#define ROW(name, expr, want)			\
	if (i++ == extra_now)			\
		return if_built(#name, (expr));
	EXTRA_CALLS(ROW)
#undef ROW
	return -ENOSYS;
}

#define SCENES_NR (CALLS_NR + EXTRAS_NR)

static struct scene scene_at(size_t i)
{
	if (i < CALLS_NR)
		return (struct scene){
			calls[i].name, calls[i].fn, calls[i].text,
			strcmp(calls[i].name, "npu_state_get") ? 0 : NPU_STATE_READY,
		};
	return (struct scene){ extras[i - CALLS_NR].name, extra_call, extras[i - CALLS_NR].text,
			       extras[i - CALLS_NR].want };
}

/**
 * struct job - what a child is to try
 * @scene: number of the scene
 * @mode: which steps fail
 * @variant: with which errno
 * @at: cold: the step
 * @whose: steps of which threads
 */
struct job {
	size_t scene;
	enum step_mode mode;
	uint32_t variant;
	uint32_t at;
	enum step_whose whose;
};

/* ---- around a call ------------------------------------------------------------------- */

/* Gives back what a call that succeeded has made. */
static void undo(void)
{
	struct npu_stream_info s = { .size = sizeof(s) };

	if (!is_ready())
		return;
	npu_stream_sync(obj.s, LONG_MS);
	if (obj.s_out.h && !npu_stream_get_info(obj.s_out, &s)) {
		if (s.kind == NPU_STREAM_KIND_OWN)
			npu_stream_destroy(obj.s_out, LONG_MS);
		if (s.kind == NPU_STREAM_KIND_LEASED)
			npu_stream_release(obj.s_out);
	}
	if (obj.e_out.h)
		npu_event_destroy(obj.e_out);
	if (obj.ctx_out.h)
		npu_context_destroy(obj.ctx_out, LONG_MS);
	if (obj.module.h)
		npu_module_unload(obj.module, LONG_MS);
	if (obj.m_out.h)
		npu_module_unload(obj.m_out, LONG_MS);
	if (obj.f_out.h)
		npu_file_close(obj.f_out);
	if (obj.v_out.h)
		npu_vm_destroy(obj.v_out);
	if (obj.w_out.h)
		npu_weights_close(obj.w_out);
	if (obj.pool_out.h)
		npu_mem_pool_destroy(obj.pool_out);
	if (obj.out && npu_vm_release(obj.out) && npu_mem_free(obj.out) && npu_free(obj.out) &&
	    npu_host_free(obj.out))
		npu_free_host(obj.out);
	npu_mem_empty_cache(0);
	npu_host_empty_cache(0);
	npu_host_unregister(obj.page);
	obj.s_out.h = obj.e_out.h = obj.ctx_out.h = obj.module.h = obj.m_out.h = 0;
	obj.v_out.h = obj.f_out.h = obj.w_out.h = obj.pool_out.h = 0;
	obj.out = NULL;
}

static inline int valid_call(void)
{
	return npu_launch(obj.k, 1, NULL, 0, obj.s) || npu_stream_sync(obj.s, LONG_MS) ||
	       npu_memset(obj.q, 1, 64);
}

/* Before the first call of a process. */
static inline void prepare_process(void)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	setenv("NPU_LOG_LEVEL", "none", 1);
	calls_spare = step_spare;
	steps_install();
}

static inline bool bring_up(void)
{
	prepare_process();
	return !set_up() && !npu_stream_sync(obj.s, LONG_MS) && !valid_call();
}

/* What some calls need to be valid. */
static inline void prepare(const char *name)
{
	if (!strcmp(name, "npu_module_unload"))
		obj.module = new_module();
	if (!strcmp(name, "npu_host_unregister"))
		npu_host_register(obj.page, 4096, 0);
}

/* What comes at first need comes now; what each call adds is found out. */
static inline void warm_up(const struct scene *s, struct census *may)
{
	struct census was, is;
	int rc, i;

	for (i = 0; i < 3; i++) {
		prepare(s->name);
		take_census(&was);
		rc = s->fn();
		if (rc != s->want)
			step_wrong("returns %d with no failure (%s)", rc, last_error().text);
		undo();
		take_census(&is);
		census_minus(&is, &was, may);
	}
}

/* Tasks that the call has left behind come to their end, and their failures are told. */
static inline void let_tasks_end(int rc)
{
	struct hal_error e = *hal_error_last();

	npu_device_sync_all(LONG_MS);
	if (rc < 0)
		hal_fail_record(&e);
}

/* Which codes the library may make of a step's. */
static inline bool code_fits(int rc, const struct step_hit *h)
{
	if (rc == -h->code)
		return true;
	/* the first of several */
	if (step_plan.mode == STEP_DRY)
		return rc == -ENOMEM || rc == -EMFILE || rc == -ENOEXEC;
	switch (h->call) {
	case HAL_SYS_thread_create:
	case HAL_SYS_fallocate:	/* for memory */
		return rc == -ENOMEM;
	case HAL_SYS_dlopen:
	case HAL_SYS_dlsym:
	case HAL_SYS_dlerror:
		return rc == -ENOEXEC || rc == -ESRCH;
	default:
		return false;
	}
}

static void fill(const struct scene *s)
{
	struct call c = { .name = s->name, .text = s->text };

	fill_results(&c);
	npu_error_clear();
}

/* A call that failed: what it says, and what it leaves in its results. */
static inline void check_failure(const struct scene *s, int rc)
{
	struct call c = { .name = s->name, .text = s->text };

	step_check_record(rc);
	if (!code_fits(rc, &step_report->hit))
		step_wrong("returns %d (%s)", rc, last_error().text);
	/* a number that is no device's is cleared by 0 */
	if (left_behind(&c) && obj.n)
		step_wrong("a result is not cleared");
}

static void all_closed(const struct census *start)
{
	const char *grown;
	int rc;

	do {	/* npu_init() counts */
		rc = npu_finalize(LONG_MS);
		if (rc)
			step_wrong("finalize returns %d (%s)", rc, last_error().text);
	} while (!rc && is_ready());
	grown = census_settled(start, NULL, true);
	if (grown)
		step_wrong("after npu_finalize(): other %s", grown);
	if (npu_test_leaks())
		step_wrong("leaks memory");
}

FIXTURE(steps) {
	uint32_t count;
};

FIXTURE_SETUP(steps)
{
	steps_share();
	ASSERT_NE(MAP_FAILED, (void *)step_report);
}

FIXTURE_TEARDOWN(steps)
{
	EXPECT_LT(0, self->count);
}

#endif /* SELFTESTS_RUNTIME_STEP_SCENES_H */
