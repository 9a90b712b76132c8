/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every public function with a fault of the hardware, or another oddity of the device, at the
 * first thing that the device does for it, the second, and so on: each task, and each ioctl that is
 * more than a question. Behind each: the record says what was returned, the health of the device
 * names the fault, other devices work; a restart, or a reset of what is lost, makes it work
 * again; and when all is closed nothing is left. Included once by a test, after the harness.
 */
#ifndef SELFTESTS_RUNTIME_STEP_FAULTS_H
#define SELFTESTS_RUNTIME_STEP_FAULTS_H

#include "selftests/runtime/step_scenes.h"

#define STEPS_MAX 200

/**
 * struct fault - something that goes wrong
 * @rule: how, without nth=
 * @cause: what the health of the device tells of it; 0: it stays well
 * @same: the call answers as if nothing had been
 */
struct fault {
	const char *rule;
	int cause;
	bool same;
};

/* The one that is tried. */
static const struct fault *fault_now;

/* What all faults have in common that end in the same state. */
static bool is_lost(const struct fault *f)
{
	return f->cause == -ENODEV;
}

static int device_of(const struct fault *f)
{
	return strstr(f->rule, "dev=1") ? 1 : 0;
}

/* ---- what is looked at behind a call -------------------------------------------------- */

/* Whether a device does what it is for. */
static int works(int device)
{
	uint64_t in = 39, out = 0;
	struct npu_simnpu_inc_args a = { 0, 3 };
	npu_stream s;
	struct npu_guard g;
	void *p = NULL;
	int err;

	npu_context_set((npu_context){ 0 });
	err = npu_guard_device(&g, device);
	if (err)
		return err;
	s = stream_on(device);
	err = npu_malloc(64, 0, &p);
	a.addr = (uintptr_t)p;
	if (!err)
		err = npu_memcpy_async(p, &in, sizeof(in), NPU_COPY_AUTO, s);
	if (!err)
		err = npu_launch(builtin_kernel("inc_u64"), 1, &a, sizeof(a), s);
	if (!err)
		err = npu_stream_sync(s, LONG_MS);
	if (!err)
		err = npu_memcpy(&out, p, sizeof(out), NPU_COPY_AUTO);
	if (!err && out != 42)
		err = -EBADMSG;
	if (!err)
		err = npu_free(p);
	if (!err)
		err = npu_stream_destroy(s, LONG_MS);
	npu_guard_end(&g);
	return err;
}

static void must_work(int device, const char *when)
{
	int rc = works(device);

	if (rc)
		step_wrong("device %d does not work %s: %d (%s)", device, when, rc,
			   last_error().text);
}

/* Which codes may come of a fault. */
static bool code_of_fault(const struct fault *f, int rc)
{
	switch (f->cause) {
	case 0:
		return !f->same;	/* what the device says may be anything */
	case -ENODEV:
		return rc == -ENODEV;
	case -EHWPOISON:
		return rc == -EHWPOISON || rc == -EIO;
	default:
		return rc == -EIO;
	}
}

static void check_answer(const struct scene *s, const struct fault *f, int rc)
{
	struct call c = { .name = s->name, .text = s->text };

	if (rc == s->want)
		return;
	/* what is done early is told to be done well; that it failed is told later */
	if (!rc && strstr(f->rule, "early"))
		return;
	if (rc >= 0) {
		step_wrong("returns %d", rc);
		return;
	}
	/* a query says that a task has failed, and leaves the telling to a wait */
	if (!strstr(s->name, "_query"))
		step_check_record(rc);
	if (!code_of_fault(f, rc))
		step_wrong("returns %d (%s)", rc, last_error().text);
	if (left_behind(&c) && obj.n)
		step_wrong("a result is not cleared");
}

static struct npu_device_health health_of(int device)
{
	struct npu_device_health h = { .size = sizeof(h) };

	if (npu_device_get_health(device, &h))
		step_wrong("device %d: no health: %s", device, last_error().text);
	return h;
}

/* A thread of the library that met the fault may say so a moment after the call has returned. */
static struct npu_device_health health_with_fault(int device)
{
	struct npu_device_health h = health_of(device);
	int ms;

	for (ms = 0; h.state == NPU_DEVICE_OPEN && ms < LONG_MS; ms++) {
		usleep(1000);
		h = health_of(device);
	}
	return h;
}

/*
 * The device says what it has; device 1 may have been stopped or closed by the call, and one that
 * could not be opened is closed.
 */
static void check_health(const struct fault *f)
{
	int device = device_of(f), state = is_lost(f) ? NPU_DEVICE_LOST : NPU_DEVICE_FAULTED;
	struct npu_device_health h = health_with_fault(device);

	if ((device && h.state != state) || (!obj.q && h.state == NPU_DEVICE_CLOSED))
		return;
	if (h.state != state || h.cause != f->cause || !h.text[0])
		step_wrong("device %d: state %d, cause %d, \"%s\"", device, h.state, h.cause,
			   h.text);
}

/* ---- recovery -------------------------------------------------------------------------- */

static void restart(int device, uint32_t flags)
{
	int rc = npu_device_restart(device, flags, LONG_MS);

	if (rc)
		step_wrong("restart returns %d (%s)", rc, last_error().text);
	/* of calls that are the first there is nothing of before */
	if (device || !obj.q)
		return;
	rc = npu_stream_query(obj.s);
	if (rc != -ESTALE)
		step_wrong("a stream of before the restart says %d", rc);
	/* written as a whole it is safe again */
	rc = npu_memset(obj.q, 0, 4096);
	if (rc)
		step_wrong("memory is gone after the restart: %d (%s)", rc, last_error().text);
}

static void reset(int device)
{
	int rc = npu_device_reset(device, LONG_MS);

	if (rc)
		step_wrong("reset returns %d (%s)", rc, last_error().text);
}

/* Makes all devices work again. */
static void recover(const struct fault *f, uint32_t flags)
{
	struct npu_device_health h;
	int d;

	if (strstr(f->rule, "gone"))
		simnpu_test_plug_reset();
	for (d = 0; d < STEP_DEVICES; d++) {
		h = health_of(d);
		if (h.state == NPU_DEVICE_FAULTED || h.state == NPU_DEVICE_STOPPED)
			restart(d, flags);
		else if (h.state == NPU_DEVICE_LOST)
			reset(d);
		h = health_of(d);
		if (h.state != NPU_DEVICE_OPEN && h.state != NPU_DEVICE_CLOSED)
			step_wrong("device %d: state %d after recovery", d, h.state);
	}
	must_work(device_of(f), "after recovery");
}

/* The results of the call are gone with all the rest. */
static void forget_results(void)
{
	obj.s_out.h = obj.e_out.h = obj.ctx_out.h = obj.module.h = obj.m_out.h = 0;
	obj.out = NULL;
	munmap(obj.page, 4096);
}

/* All is closed, nothing is left, and all can be had again. */
static void start_anew(const struct census *start)
{
	npu_host_unregister(obj.page);
	all_closed(start);
	simnpu_test_plug_reset();
	forget_results();
	if (set_up() || npu_stream_sync(obj.s, LONG_MS) || valid_call())
		step_wrong("cannot be set up again: %s", last_error().text);
}

/* ---- steps -------------------------------------------------------------------------------- */

/* Behind a call that was hit. */
static void look_behind(const struct scene *s, const struct fault *f, int rc,
			const struct census *start)
{
	check_answer(s, f, rc);
	if (!f->cause)
		return;
	if (is_ready()) {
		check_health(f);
		if (!strstr(f->rule, "reorder"))
			must_work(!device_of(f), "while the other one has a fault");
		recover(f, step_report->at & 1 ? NPU_RESTART_REBUILD : 0);
	}
	start_anew(start);
}

/* Behind one after which the device is as before; may: what it may have left, NULL: anything. */
static void look_behind_well(const struct scene *s, int rc, const struct census *was,
			     const struct census *may)
{
	const char *grown;

	undo();
	grown = may ? census_settled(was, rc == s->want ? may : NULL, true) : NULL;
	if (grown)
		step_wrong("returns %d, other %s", rc, grown);
	if (valid_call())
		step_wrong("the next call fails: %s", last_error().text);
}

/* One step; true: it was hit. */
static bool step(const struct scene *s, const struct fault *f, const struct census *start,
		 const struct census *may)
{
	struct census was;
	bool hit;
	int rc;

	prepare(s->name);
	fill(s);
	take_census(&was);
	step_plan.rule = f->rule;
	step_arm(STEP_FAULT, 0, step_report->at, STEP_MINE);
	rc = s->fn();
	if (is_ready())
		let_tasks_end(rc);
	hit = step_disarm();
	step_report->hit = step_hit;
	step_report->steps += hit;
	step_report->borne += hit && rc == s->want;
	if (hit)
		look_behind(s, f, rc, start);
	else if (rc != s->want)
		step_wrong("returns %d with no failure (%s)", rc, last_error().text);
	if (is_ready() && !(hit && f->cause))
		look_behind_well(s, rc, &was, f->cause ? NULL : may);
	else if (!is_ready())
		start_anew(start);
	return hit;
}

static void child(const void *arg)
{
	const struct job *j = arg;
	const struct fault *f = fault_now;
	struct scene s = scene_at(j->scene);
	struct census start, may;

	extra_now = j->scene - CALLS_NR;
	memset(&may, 0, sizeof(may));
	take_census(&start);
	if (!bring_up()) {
		step_wrong("cannot be set up: %s", last_error().text);
		return;
	}
	if (strcmp(s.name, "npu_finalize"))
		warm_up(&s, &may);
	step_report->at = 1;
	while (step(&s, f, &start, &may) && step_report->at++ < STEPS_MAX &&
	       step_report->wrong < 8)
		;
	all_closed(&start);
}

/* The same of a call that is the first: the device is opened by it. What cannot be is left out. */
static void first_child(const void *arg)
{
	const struct job *j = arg;
	const struct fault *f = fault_now;
	struct scene s = scene_at(j->scene);
	struct census start;
	bool hit;
	int rc;

	prepare_process();
	set_sizes();
	take_census(&start);
	do {
		step_report->at++;
		fill(&s);
		step_plan.rule = f->rule;
		step_arm(STEP_FAULT, 0, step_report->at, STEP_MINE);
		rc = s.fn();
		/* to wait for them is no task, but a thing that the device does */
		if (is_ready() && !strncmp(f->rule, "task", 4))
			let_tasks_end(rc);
		hit = step_disarm();
		if (hit && is_ready())
			let_tasks_end(rc);
		step_report->hit = step_hit;
		step_report->steps += hit;
		step_report->borne += hit && rc == s.want;
		if (hit) {
			check_answer(&s, f, rc);
			if (is_ready()) {
				check_health(f);
				recover(f, 0);
			}
		}
		undo();
		all_closed(&start);
		simnpu_test_plug_reset();
	} while (hit && step_report->at < STEPS_MAX && step_report->wrong < 8);
}

/* What is said to be done before it is may be freed or read too early: by the call itself. */
static bool misled(const struct fault *f, const struct scene *s)
{
	return strstr(f->rule, "early") && !strcmp(s->text, "whole_programme()");
}

/* Tries calls up to @scenes with one fault; returns how many things were wrong. */
static uint32_t try_calls(const struct fault *f, void (*fn)(const void *arg), size_t scenes,
			  uint32_t *steps)
{
	struct job j = { .mode = STEP_FAULT };
	uint32_t wrong = 0, tried = 0, borne = 0;
	struct scene s;

	fault_now = f;
	for (j.scene = 0; j.scene < scenes; j.scene++) {
		s = scene_at(j.scene);
		if (misled(f, &s))
			continue;
		memset(step_report, 0, sizeof(*step_report));
		step_plan.rule = f->rule;
		step_plan.mode = STEP_FAULT;
		step_child(fn, &j, CALL_SECONDS);
		tried += step_report->steps;
		borne += step_report->borne;
		wrong += step_report->wrong;
		if (step_report->wrong)
			printf("# %s, %s: %.60s\n%s", s.name, f->rule, s.text,
			       step_report->say);
	}
	printf("# %s%s: %u steps hit, %u of them borne\n", fn == first_child ? "first call, " : "",
	       f->rule, tried, borne);
	*steps += tried;
	return wrong;
}

#define FAULT_TEST(name, ...)						\
	TEST_F_TIMEOUT(steps, name, 120)				\
	{								\
		static const struct fault f = { __VA_ARGS__ };		\
									\
		EXPECT_EQ(0, try_calls(&f, child, SCENES_NR, &self->count));	\
	}

#define FIRST_FAULT_TEST(name, ...)					\
	TEST_F_TIMEOUT(steps, name, 120)				\
	{								\
		static const struct fault f = { __VA_ARGS__ };		\
									\
		EXPECT_EQ(0, try_calls(&f, first_child, CALLS_NR, &self->count)); \
	}

#endif /* SELFTESTS_RUNTIME_STEP_FAULTS_H */
