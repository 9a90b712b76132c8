// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every public function that can be the first one of a process, with a failure
 * at its first step, its second, and so on: initialisation and the opening of the
 * device are among them. Each step is tried in a process of its own. After each: the
 * record says what was returned, the same call works, and after npu_finalize() all
 * is as it was before the first call.
 */
#include "selftests/npu_kselftest.h"

#include "selftests/runtime/step_scenes.h"

/* Of the steps that calls have in common each tries one in so many: struct common. */
#define COMMON_EVERY 10
/* Where all is slow, so many steps are left out behind each. */
#define LEFT_OUT 6

/* One step of a call that is the first of a process. */
static void cold(const void *arg)
{
	const struct job *j = arg;
	struct scene s = scene_at(j->scene);
	struct census start;
	bool hit;
	int rc;

	prepare_process();
	set_sizes();
	take_census(&start);
	fill(&s);
	step_report->at = j->at;
	step_arm(j->mode, j->variant, j->at, STEP_MINE);
	rc = s.fn();
	hit = step_disarm();
	step_report->hit = step_hit;
	step_report->done = !hit;
	step_report->seen = atomic_load(&step_count);
	step_report->steps += hit;
	step_report->borne += hit && rc >= 0;
	if (!hit && rc < 0)
		step_report->refused = true;
	if (hit && rc < 0) {
		check_failure(&s, rc);
		rc = s.fn();
		if (rc < 0)
			step_wrong("the next call fails: %d (%s)", rc, last_error().text);
	}
	undo();
	all_closed(&start);
}

/* Whether a call can be the first one: it needs no object but the default ones. */
static bool can_be_first(struct job *j)
{
	j->at = STEP_NONE;
	memset(step_report, 0, sizeof(*step_report));
	step_child(cold, j, CALL_SECONDS);
	return !step_report->refused && step_report->seen;
}

/**
 * struct common - calls that do what others begin with, and try all of its steps
 * @name: the call
 * @steps: how many it has
 */
struct common {
	const char *name;
	uint32_t steps;
};

static void count_steps(struct job j, struct common *c)
{
	for (j.scene = 0; j.scene < CALLS_NR; j.scene++)
		if (!strcmp(calls[j.scene].name, c->name) && can_be_first(&j))
			c->steps = step_report->seen;
}

/* How many of the first steps of a call others try, too; seen: how many it has. */
static uint32_t common_steps(const struct common *c, size_t n, const char *name, uint32_t seen)
{
	uint32_t steps = 0;

	for (; n--; c++) {
		if (!strcmp(c->name, name))
			return steps;
		if (c->steps <= seen)
			steps = c->steps;
	}
	return steps;
}

/* Tries all calls that can be the first; returns how many were wrong. */
static uint32_t try_cold(enum step_mode mode, uint32_t variant, uint32_t *steps)
{
	struct job j = { .mode = mode, .variant = variant };
	/* the initialisation, and the opening of the device behind it */
	struct common common[] = { { .name = "npu_init" }, { .name = "npu_context_primary" } };
	uint32_t wrong = 0, tried = 0, borne = 0, first = 0, others;
	bool few = mode == STEP_ALLOC;
	struct scene s;

	count_steps(j, &common[0]);
	count_steps(j, &common[1]);
	for (j.scene = 0; j.scene < SCENES_NR; j.scene++) {
		s = scene_at(j.scene);
		if (!can_be_first(&j))
			continue;
		first++;
		others = common_steps(common, 2, s.name, step_report->seen);
		j.at = 0;
		step_report->done = false;
		do {
			j.at += few || npu_test_slower() <= 1 ? 1 : 1 + LEFT_OUT;
			if (!few && j.at <= others && (j.at + j.scene) % COMMON_EVERY)
				continue;
			memset(step_report, 0, sizeof(*step_report));
			step_report->at = j.at;
			step_child(cold, &j, CALL_SECONDS);
			tried += step_report->steps;
			borne += step_report->borne;
			wrong += step_report->wrong;
			if (step_report->wrong)
				printf("# %s, cold, %s/%u: %.60s\n%s", s.name,
				       step_mode_name[mode], variant, s.text, step_report->say);
		} while (!step_report->done && wrong < 50);
	}
	printf("# cold, %s/%u: %u functions, %u steps failed, %u of them borne\n",
	       step_mode_name[mode], variant, first, tried, borne);
	*steps += tried;
	return wrong;
}

TEST_F_TIMEOUT(steps, one_fails, 120)
{
	EXPECT_EQ(0, try_cold(STEP_FAIL, 0, &self->count));
}

TEST_F_TIMEOUT(steps, nothing_to_be_had, 120)
{
	EXPECT_EQ(0, try_cold(STEP_DRY, 0, &self->count));
}

TEST_F_TIMEOUT(steps, the_device_finds_no_memory, 120)
{
	uint32_t what, wrong = 0;

	for (what = SIMNPU_FAIL_MEMORY; what <= SIMNPU_FAIL_THREAD; what++)
		wrong += try_cold(STEP_ALLOC, what, &self->count);
	EXPECT_EQ(0, wrong);
}

TEST_HARNESS_MAIN
