/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The steps of calls one after another, in a process where all is in place. Included once by a
 * test, after the harness.
 */
#ifndef SELFTESTS_RUNTIME_STEP_WARM_H
#define SELFTESTS_RUNTIME_STEP_WARM_H

#include "selftests/runtime/step_scenes.h"

#define STEPS_MAX 4000

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
		step_arm(j->mode, j->variant, at, j->whose);
		rc = s->fn();
		if (j->mode == STEP_TASK || j->whose == STEP_THEIRS)
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
	struct census start, may;

	extra_now = j->scene - CALLS_NR;
	take_census(&start);
	if (!bring_up()) {
		step_wrong("cannot be set up: %s", last_error().text);
		return;
	}
	warm_up(&s, &may);
	step_through(j, &s, &may);
	all_closed(&start);
}

/* Tries all calls in one way; returns how many were wrong. */
static uint32_t try_warm(enum step_mode mode, uint32_t variant, enum step_whose whose,
			 uint32_t *steps)
{
	uint32_t wrong = 0, tried = 0, borne = 0;
	struct scene s;
	struct job j = { .mode = mode, .variant = variant, .whose = whose };

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
	       whose == STEP_THEIRS ? ", their threads" : "", tried, borne);
	*steps += tried;
	return wrong;
}

#endif /* SELFTESTS_RUNTIME_STEP_WARM_H */
