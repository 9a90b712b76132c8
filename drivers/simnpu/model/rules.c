// SPDX-License-Identifier: MIT
/*
 * The rules about failures on demand that are set, and what they say of a call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drivers/simnpu/faults.h"
#include "drivers/simnpu/model/model.h"
#include "drivers/simnpu/options.h"
#include "hal/sys_judge.h"

#define HOLD_NAP_NS 1000000u

/* Protects: nothing; one set of rules takes effect at a time. */
static pthread_mutex_t set_lock = PTHREAD_MUTEX_INITIALIZER;
/* Protects: rules, rule_count, rule_text, by_hand. Nothing is called with it held. */
static pthread_mutex_t rules_lock = PTHREAD_MUTEX_INITIALIZER;
static struct simnpu_rule rules[SIMNPU_FAULT_RULES];
static uint32_t rule_count;
static char rule_text[SIMNPU_FAULT_TEXT];
/* They come from the back door: the option has no say. */
static bool by_hand;

/* A bit for each of enum simnpu_what that there are rules about. */
static _Atomic uint32_t about;
/* Changes with the rules: what is held up goes on. */
static _Atomic uint32_t changes;
/* simnpu_test_fail() was called. */
static _Atomic bool calls_fail;

/* ---- hitting ------------------------------------------------------------------------ */

/* The dice of a rule: splitmix64. */
static bool roll(struct simnpu_rule *r)
{
	uint64_t z = r->dice += 0x9e3779b97f4a7c15ull;

	if (r->prob == UINT64_MAX)
		return false;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) >> 32 < r->prob;
}

static bool hits(struct simnpu_rule *r)
{
	if (r->seen < r->nth || (r->times && r->hit >= r->times))
		return false;
	if (r->prob && !roll(r))
		return false;
	r->hit++;
	return true;
}

static bool concerns(const struct simnpu_rule *r, uint32_t what, int which, int dev,
		     uint32_t stream)
{
	return r->what == what && (r->which == SIMNPU_WHICH_ANY || r->which == which) &&
	       (r->dev < 0 || r->dev == dev) && (!r->stream || r->stream == stream) &&
	       (!r->pid || r->pid == getpid());
}

/*
 * All rules that it concerns count it; the first that hits it acts. Return: whether one does;
 * v->seq is left alone.
 */
static bool judge(uint32_t what, int which, int dev, uint32_t stream, bool device,
		  struct model_verdict *v)
{
	struct simnpu_rule *r;
	bool hit = false;
	uint32_t i;

	if (!(hal_load_relaxed(&about) & (1u << what | (device ? 1u << SIMNPU_WHAT_DEVICE : 0))))
		return false;
	pthread_mutex_lock(&rules_lock);
	v->rules = atomic_load(&changes);
	for (i = 0; i < rule_count; i++) {
		r = &rules[i];
		if (!concerns(r, what, which, dev, stream) &&
		    !(device && concerns(r, SIMNPU_WHAT_DEVICE, which, dev, stream)))
			continue;
		r->seen++;
		if (hit || !hits(r))
			continue;
		hit = true;
		v->action = r->action;
		v->code = r->code;
		v->ns = r->ns;
	}
	pthread_mutex_unlock(&rules_lock);
	return hit;
}

/* What is only asked, and what is rung and waited for all the time: not for rules about devices. */
static bool question(unsigned int nr)
{
	return nr == _IOC_NR(SIMNPU_IOCTL_VERSION) || nr == _IOC_NR(SIMNPU_IOCTL_INFO) ||
	       nr == _IOC_NR(SIMNPU_IOCTL_TIME) || nr == _IOC_NR(SIMNPU_IOCTL_POISON) ||
	       nr == _IOC_NR(SIMNPU_IOCTL_QUEUE_AT) || nr == _IOC_NR(SIMNPU_IOCTL_KICK) ||
	       nr == _IOC_NR(SIMNPU_IOCTL_WAIT);
}

/* What becomes of an ioctl; false: nothing special. */
bool model_rules_ioctl(struct model_device *dev, unsigned int nr, struct model_verdict *v)
{
	static _Thread_local uint32_t in_a_row;
	bool hit = judge(SIMNPU_WHAT_IOCTL, (int)nr, (int)dev->index, 0, !question(nr), v);

	if (!hit || v->action != SIMNPU_ACTION_FAIL || (v->code != EINTR && v->code != EAGAIN)) {
		in_a_row = 0;
	} else if (in_a_row++ == HAL_SYS_AGAIN_MAX) {
		/* callers make it again: as often as a call through the seam */
		in_a_row = 0;
		v->action = SIMNPU_ACTION_NONE;
		return false;
	}
	return hit;
}

/* What becomes of the task at a queue's head; false: nothing special. */
bool model_rules_task(struct model_queue *q, uint32_t op, struct model_verdict *v)
{
	if (op == SIMNPU_OP_COPY_2D)
		op = SIMNPU_OP_COPY;
	return judge(SIMNPU_WHAT_TASK, (int)op, (int)q->dev->index, q->number, true, v);
}

/* What becomes of an allocation: 0, or the errno that it fails with. */
uint32_t model_rules_alloc(int what)
{
	struct model_verdict v = { .action = SIMNPU_ACTION_NONE };
	/* who stops or closes a device may want a lock that the caller holds */
	uint32_t was = atomic_load(&model_changes);

	if (!judge(SIMNPU_WHAT_ALLOC, what, -1, 0, false, &v))
		return 0;
	if (v.action == SIMNPU_ACTION_FAIL)
		return v.code;
	model_rules_hold(&v, UINT64_MAX, &model_changes, was);
	return 0;
}

/* What becomes of a call through the seam. */
static void judge_sys(enum hal_sys_call call, unsigned long arg, struct hal_sys_verdict *out)
{
	struct model_verdict v = { .action = SIMNPU_ACTION_NONE };

	(void)arg;
	if (!judge(SIMNPU_WHAT_SYS, (int)call, -1, 0, false, &v))
		return;
	if (v.action == SIMNPU_ACTION_STALL)
		out->before_ns = v.ns;
	else if (v.action == SIMNPU_ACTION_LATE)
		out->after_ns = v.ns;
	else
		out->code = v.code ? (int)v.code : hal_sys_call_errno(call);
}

/* Whether other rules were set since a verdict was given. */
bool model_rules_new(const struct model_verdict *v)
{
	return atomic_load(&changes) != v->rules;
}

/**
 * model_rules_hold() - hold the calling thread up
 * @v: the verdict, which says how long; until when is noted there
 * @deadline: not beyond that time
 * @word: ends it when it is not @value any more, or NULL
 * @value: its value
 *
 * Ends when the rules change, too. Return: false: the deadline has passed before.
 */
bool model_rules_hold(struct model_verdict *v, uint64_t deadline,
		      const _Atomic uint32_t *word, uint32_t value)
{
	uint64_t now = hal_sys_now(), nap, end;

	if (!v->until)
		v->until = v->ns > UINT64_MAX - now ? UINT64_MAX : now + v->ns;
	end = v->until < deadline ? v->until : deadline;
	while (!model_rules_new(v) && !(word && atomic_load(word) != value)) {
		if (now >= end)
			return now >= v->until;
		nap = now + HOLD_NAP_NS;
		hal_sys_futex_wait(&changes, v->rules, nap < end ? nap : end);
		now = hal_sys_now();
	}
	return true;
}

/* ---- setting -------------------------------------------------------------------------- */

/* model_queue.care of a new queue. */
uint32_t model_rules_care(void)
{
	return atomic_load(&about) & (1u << SIMNPU_WHAT_TASK | 1u << SIMNPU_WHAT_DEVICE) ?
	       QUEUE_CARE_RULES : 0;
}

static void care_device(struct model_device *dev, uint32_t care)
{
	struct model_context *ctx;
	struct model_queue *q;
	struct hal_list *pos;

	pthread_mutex_lock(&dev->lock);
	for (ctx = model_context_next(dev, NULL); ctx; ctx = model_context_next(dev, ctx))
		hal_list_for_each(pos, &ctx->queues) {
			q = hal_list_entry(pos, struct model_queue, node);
			if (care)
				atomic_fetch_or(&q->care, care);
			else
				atomic_fetch_and(&q->care, ~QUEUE_CARE_RULES);
		}
	pthread_mutex_unlock(&dev->lock);
}

static void odd(void)
{
	if (atomic_load(&about) || atomic_load(&calls_fail))
		atomic_fetch_or(&model_odd, MODEL_ODD_FAULTS);
	else
		atomic_fetch_and(&model_odd, ~MODEL_ODD_FAULTS);
}

/* Whether simnpu_test_fail() has set something up. */
void model_rules_odd(bool calls)
{
	atomic_store(&calls_fail, calls);
	odd();
}

/* New rules take effect. */
static void arm(uint32_t mask)
{
	struct model_device *dev;
	uint32_t i;

	atomic_store(&about, mask);
	odd();
	hal_sys_judge_set(mask >> SIMNPU_WHAT_SYS & 1 ? judge_sys : NULL);
	for (i = 0; i < SIMNPU_MAX_DEVICES; i++) {
		dev = model_device_of(i);
		if (dev)
			care_device(dev, model_rules_care());
	}
	hal_sys_futex_wake(&changes, INT_MAX);
}

/* Under set_lock. */
static int set(const char *text, bool hand, struct simnpu_rule_error *err)
{
	struct simnpu_rule parsed[SIMNPU_FAULT_RULES];
	uint32_t n, i, mask = 0;
	int rc = simnpu_rules_parse(text, parsed, &n, err);

	if (rc)
		return rc;
	for (i = 0; i < n; i++)
		mask |= 1u << parsed[i].what;
	pthread_mutex_lock(&rules_lock);
	memcpy(rules, parsed, n * sizeof(parsed[0]));
	rule_count = n;
	by_hand = hand;
	snprintf(rule_text, sizeof(rule_text), "%s", text);
	atomic_fetch_add(&changes, 1);
	pthread_mutex_unlock(&rules_lock);
	arm(mask);
	return 0;
}

/* See simnpu_test.h. */
int simnpu_fault_set(const char *text, size_t *pos)
{
	struct simnpu_rule_error err;
	int rc;

	pthread_mutex_lock(&set_lock);
	rc = set(text, true, &err);
	pthread_mutex_unlock(&set_lock);
	if (pos)
		*pos = err.pos;
	return rc;
}

/* See simnpu_test.h. */
void simnpu_fault_clear(void)
{
	uint32_t what;

	simnpu_fault_set("", NULL);
	for (what = 0; what < SIMNPU_FAIL_COUNT; what++)
		simnpu_test_fail(what, 0, 0, 0);
	model_rules_odd(false);
}

static void rule_out(const struct simnpu_rule *r, struct simnpu_fault_rule *out)
{
	size_t len = r->len < sizeof(out->text) ? r->len : sizeof(out->text) - 1;

	memset(out, 0, sizeof(*out));
	memcpy(out->text, rule_text + r->at, len);
	out->seen = r->seen;
	out->hit = r->hit;
}

static uint32_t list_locked(struct simnpu_fault_rule *list, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < rule_count && i < n; i++)
		rule_out(&rules[i], &list[i]);
	return rule_count;
}

/* See simnpu_test.h. */
uint32_t simnpu_fault_list(struct simnpu_fault_rule *list, uint32_t n)
{
	uint32_t count;

	pthread_mutex_lock(&rules_lock);
	count = list_locked(list, n);
	pthread_mutex_unlock(&rules_lock);
	return count;
}

/* See simnpu_test.h. */
uint32_t simnpu_fault_end(struct simnpu_fault_rule *list, uint32_t n)
{
	uint32_t count;

	pthread_mutex_lock(&set_lock);
	pthread_mutex_lock(&rules_lock);
	count = list_locked(list, n);
	/* looked at no more from here on: what is listed is all that there was */
	rule_count = 0;
	pthread_mutex_unlock(&rules_lock);
	set("", true, &(struct simnpu_rule_error){ 0 });
	pthread_mutex_unlock(&set_lock);
	return count;
}

/* ---- the option -------------------------------------------------------------------------- */

/* At the end of the program, for who asked for it by an option. */
static void report(void)
{
	struct simnpu_fault_rule list[SIMNPU_FAULT_RULES];
	uint32_t i, n;

	if (model_forked())
		return;
	n = simnpu_fault_list(list, SIMNPU_FAULT_RULES);
	for (i = 0; i < n; i++)
		dprintf(STDERR_FILENO, "simnpu fault: %s: %llu of %llu\n", list[i].text,
			(unsigned long long)list[i].hit, (unsigned long long)list[i].seen);
}

static void report_later(void)
{
	static _Atomic bool registered;

	if (hal_option_bool(simnpu_options, "simnpu_faults_report") &&
	    !atomic_exchange(&registered, true))
		atexit(report);
}

/**
 * model_rules_open() - a node is about to be opened: take the rules of option simnpu_faults
 *
 * Return: 0, -EINVAL.
 */
int model_rules_open(void)
{
	const char *text = hal_option_text(simnpu_options, "simnpu_faults");
	struct simnpu_rule_error err;
	bool same;
	int rc = 0;

	pthread_mutex_lock(&set_lock);
	pthread_mutex_lock(&rules_lock);
	same = by_hand || !strcmp(text, rule_text);
	pthread_mutex_unlock(&rules_lock);
	if (!same)
		rc = set(text, false, &err);
	pthread_mutex_unlock(&set_lock);
	if (same)
		return 0;
	if (rc) {
		hal_err(HAL_LOG_MODEL, "option simnpu_faults, at byte %zu: %s", err.pos, err.why);
		return -EINVAL;
	}
	report_later();
	return 0;
}

/* In the child of a fork: another thread may have held the locks. */
void model_rules_in_child(void)
{
	set_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	rules_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	model_fault_in_child();
	model_plug_in_child();
}
