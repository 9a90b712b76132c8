// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every public function with a failure at its first step, its second, and so on
 * until it comes through without one. A step is a call through the system-call
 * seam or of a device's node. After each: the record says what was returned,
 * nothing is left behind, the next call works.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/step_scenes.h"

#define STEPS_MAX 4000

/* ---- with all in place ----------------------------------------------------------------- */

static bool bring_up(void)
{
	setenv("NPU_SIMNPU_DEVICES", "2", 1);
	setenv("NPU_LOG_LEVEL", "none", 1);
	calls_spare = step_spare;
	steps_install();
	return !set_up() && !npu_stream_sync(obj.s, LONG_MS) && !valid_call();
}

/* Tasks that the call has left behind come to their end, and their failures are told. */
static void let_tasks_end(int rc)
{
	struct hal_error e = *hal_error_last();

	npu_device_sync_all(LONG_MS);
	if (rc < 0)
		hal_fail_record(&e);
}

/* What is looked at behind each call. */
static void look_behind(const struct job *j, const struct scene *s, int rc, bool hit,
			const struct census *was, const struct census *may)
{
	const char *grown;

	/* a query says that a task has failed, and leaves the telling to a wait */
	if (j->mode == STEP_TASK && rc == -ENOMEM && !strcmp(s->name, "npu_stream_query"))
		;
	else if (hit && rc != s->want && j->mode != STEP_AGAIN)
		check_failure(s, rc);
	else if (rc != s->want)
		step_wrong("returns %d (%s)", rc, last_error().text);
	undo();
	grown = census_settled(was, rc == s->want ? may : NULL, j->mode != STEP_LEFT);
	if (grown)
		step_wrong("returns %d, other %s", rc, grown);
	if (valid_call())
		step_wrong("the next call fails: %s", last_error().text);
}

/* Runs the call until it has no step left that could fail. */
static void step_through(const struct job *j, const struct scene *s, const struct census *may)
{
	int rc, quiet = 0, d_was, d_is;
	struct census was;
	uint32_t at = 1;
	bool hit;

	while (quiet < 2 && at < STEPS_MAX && step_report->wrong < 8) {
		step_report->at = at;
		prepare(s->name);
		fill(s);
		take_census(&was);
		npu_device_get(&d_was);
		step_arm(j->mode, j->variant, at, j->all_threads);
		rc = s->fn();
		if (j->mode == STEP_TASK)
			let_tasks_end(rc);
		hit = step_disarm();
		step_report->hit = step_hit;
		quiet = hit ? 0 : quiet + 1;
		at += hit;
		step_report->steps += hit;
		step_report->borne += hit && rc == s->want;
		npu_device_get(&d_is);
		if (rc != s->want && d_is != d_was)
			step_wrong("the current device was %d, is %d", d_was, d_is);
		look_behind(j, s, rc, hit, &was, may);
	}
	if (at >= STEPS_MAX)
		step_wrong("it does not end");
}

static void warm(const void *arg)
{
	const struct job *j = arg;
	struct scene s = scene_at(j->scene);
	struct census start, was, is, may;
	int rc, i;

	extra_now = j->scene - CALLS_NR;
	take_census(&start);
	if (!bring_up()) {
		step_wrong("cannot be set up: %s", last_error().text);
		return;
	}
	/* what comes at first need comes now, and what each call adds is seen */
	for (i = 0; i < 3; i++) {
		prepare(s.name);
		take_census(&was);
		rc = s.fn();
		if (rc != s.want)
			step_wrong("returns %d with no failure (%s)", rc, last_error().text);
		undo();
		take_census(&is);
		census_minus(&is, &was, &may);
	}
	step_through(j, &s, &may);
	all_closed(&start);
}

/* Tries all calls in one way; returns how many were wrong. */
static uint32_t try_warm(enum step_mode mode, uint32_t variant, bool all_threads, uint32_t *steps)
{
	uint32_t wrong = 0, tried = 0, borne = 0;
	struct scene s;
	struct job j = { .mode = mode, .variant = variant, .all_threads = all_threads };

	for (j.scene = 0; j.scene < SCENES_NR; j.scene++) {
		s = scene_at(j.scene);
		/* ends the library: tried with the cold ones */
		if (!strcmp(s.name, "npu_finalize"))
			continue;
		memset(step_report, 0, sizeof(*step_report));
		step_child(warm, &j, CALL_SECONDS);
		tried += step_report->steps;
		borne += step_report->borne;
		wrong += step_report->wrong;
		if (step_report->wrong)
			printf("# %s, %s/%u: %.60s\n%s", s.name, step_mode_name[mode], variant,
			       s.text, step_report->say);
	}
	printf("# %s/%u%s: %u steps failed, %u of them borne\n", step_mode_name[mode], variant,
	       all_threads ? ", all threads" : "", tried, borne);
	*steps += tried;
	return wrong;
}

/* Each exported function has a call; a new one is not forgotten. */
TEST_F(steps, all_functions)
{
	self->count = 1;
	EXPECT_EQ(0, table_differs_from_map());
}

TEST_F_TIMEOUT(steps, one_fails, 120)
{
	EXPECT_EQ(0, try_warm(STEP_FAIL, 0, false, &self->count));
}

TEST_F_TIMEOUT(steps, one_fails_for_want_of_memory, 120)
{
	EXPECT_EQ(0, try_warm(STEP_FAIL, 1, false, &self->count));
}

TEST_F_TIMEOUT(steps, one_finds_the_device_gone, 120)
{
	EXPECT_EQ(0, try_warm(STEP_FAIL, 2, false, &self->count));
}

TEST_F_TIMEOUT(steps, interrupted, 120)
{
	EXPECT_EQ(0, try_warm(STEP_AGAIN, 0, false, &self->count));
}

TEST_F_TIMEOUT(steps, busy, 120)
{
	EXPECT_EQ(0, try_warm(STEP_AGAIN, 1, false, &self->count));
}

TEST_F_TIMEOUT(steps, nothing_to_be_had, 120)
{
	EXPECT_EQ(0, try_warm(STEP_DRY, 0, false, &self->count));
}

TEST_F_TIMEOUT(steps, the_device_keeps_what_it_has, 120)
{
	EXPECT_EQ(0, try_warm(STEP_LEFT, 0, false, &self->count));
}

TEST_F_TIMEOUT(steps, the_device_finds_no_memory, 120)
{
	uint32_t what, wrong = 0;

	for (what = SIMNPU_FAIL_MEMORY; what <= SIMNPU_FAIL_THREAD; what++)
		wrong += try_warm(STEP_ALLOC, what, false, &self->count);
	EXPECT_EQ(0, wrong);
}

TEST_F_TIMEOUT(steps, a_task_fails, 120)
{
	EXPECT_EQ(0, try_warm(STEP_TASK, 0, false, &self->count));
}

TEST_HARNESS_MAIN
