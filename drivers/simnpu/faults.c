// SPDX-License-Identifier: MIT
/*
 * Rules about failures on demand: the words, and how they are read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/simnpu/faults.h"
#include "hal/base.h"
#include "hal/error.h"
#include "hal/sys_judge.h"
#include "uapi/simnpu.h"

#define ACTION(a) (1u << SIMNPU_ACTION_##a)
#define DEVICE_ACTIONS (ACTION(ECC1) | ACTION(LINK) | ACTION(HANG) | ACTION(HEARTBEAT) | \
			ACTION(GONE) | ACTION(REORDER))
#define ERRNO_MAX	4095
#define NS_FOR_EVER	UINT64_MAX
#define NS_LATE		1000000u
#define NS_HANG		10000000u

/* X(name in small letters, name) */
#define IOCTLS(X) \
	X(version, VERSION) X(info, INFO) X(time, TIME) \
	X(context_create, CONTEXT_CREATE) X(context_destroy, CONTEXT_DESTROY) \
	X(mem_create, MEM_CREATE) X(mem_destroy, MEM_DESTROY) X(mem_register, MEM_REGISTER) \
	X(mem_window, MEM_WINDOW) X(mem_export, MEM_EXPORT) X(mem_import, MEM_IMPORT) \
	X(vm_reserve, VM_RESERVE) X(vm_release, VM_RELEASE) X(vm_map, VM_MAP) \
	X(vm_unmap, VM_UNMAP) X(vm_protect, VM_PROTECT) X(copy, COPY) \
	X(queue_create, QUEUE_CREATE) X(queue_destroy, QUEUE_DESTROY) \
	X(queue_grow, QUEUE_GROW) X(kick, KICK) X(wait, WAIT) X(notify, NOTIFY) \
	X(queue_errors, QUEUE_ERRORS) X(queue_abort, QUEUE_ABORT) \
	X(queue_export, QUEUE_EXPORT) X(queue_import, QUEUE_IMPORT) X(queue_at, QUEUE_AT) \
	X(event_create, EVENT_CREATE) X(event_destroy, EVENT_DESTROY) \
	X(module_load, MODULE_LOAD) X(module_unload, MODULE_UNLOAD) \
	X(kernel_get, KERNEL_GET) X(callback_next, CALLBACK_NEXT) \
	X(callback_done, CALLBACK_DONE) X(callback_stop, CALLBACK_STOP) \
	X(device_stop, DEVICE_STOP) X(device_restart, DEVICE_RESTART) X(poison, POISON)

/* A word for what a rule looks at. */
struct what {
	struct simnpu_fault_word w;
	uint32_t what;
	int32_t which;
};

#define IOCTL_ROW(name, NAME) \
	{ { "ioctl:" #name, "the ioctl " #NAME }, SIMNPU_WHAT_IOCTL, \
	  _IOC_NR(SIMNPU_IOCTL_##NAME) },
#define SYS_ROW(name, code) \
	{ { "sys:" #name, "the call " #name " through the seam to the system" }, \
	  SIMNPU_WHAT_SYS, HAL_SYS_##name },
#define TASK_ROW(name, OP, help) \
	{ { "task:" #name, help }, SIMNPU_WHAT_TASK, SIMNPU_OP_##OP }
#define ALLOC_ROW(name, KIND, help) \
	{ { "alloc:" #name, help }, SIMNPU_WHAT_ALLOC, SIMNPU_FAIL_##KIND }
#define ANY_ROW(word, WHAT, help) \
	{ { word, help }, SIMNPU_WHAT_##WHAT, SIMNPU_WHICH_ANY }

static const struct what whats[] = {
	TASK_ROW(launch, LAUNCH, "launches of kernels"),
	TASK_ROW(copy, COPY, "copies"),
	TASK_ROW(fill, FILL, "fills of device memory"),
	TASK_ROW(record, RECORD, "records of events"),
	TASK_ROW(wait, WAIT, "waits of a stream for another"),
	TASK_ROW(callback, CALLBACK, "host callbacks"),
	TASK_ROW(host, HOST, "tasks that the host carries out: file I/O"),
	ANY_ROW("task:any", TASK, "all tasks"),
	ANY_ROW("task", TASK, "all tasks"),
	ALLOC_ROW(memory, MEMORY, "device memory"),
	ALLOC_ROW(host, HOST, "pinned host memory"),
	ALLOC_ROW(arena, ARENA, "memory for rings, headers and timestamps"),
	ALLOC_ROW(lock, LOCK, "locking of host memory in RAM"),
	ALLOC_ROW(thread, THREAD, "threads of the simulated device"),
	ANY_ROW("alloc:any", ALLOC, "all allocations of the device"),
	ANY_ROW("device", DEVICE, "the device, at tasks and ioctls that are more than questions"),
	IOCTLS(IOCTL_ROW)
	ANY_ROW("ioctl:any", IOCTL, "all ioctls"),
	HAL_SYS_CALLS(SYS_ROW)
	ANY_ROW("sys:any", SYS, "all calls through the seam"),
};

static const struct simnpu_fault_word actions[] = {
	[SIMNPU_ACTION_NONE] = { "", "" },
	[SIMNPU_ACTION_FAIL] = { "fail", "it fails with code= and is not done" },
	[SIMNPU_ACTION_STALL] = { "stall",
		"it is held up for ns= before it is done; a stop or abort of what it belongs to "
		"ends that" },
	[SIMNPU_ACTION_STUCK] = { "stuck", "it is held up, and no stop or abort ends that" },
	[SIMNPU_ACTION_LATE] = { "late", "it is done, and said to be done ns= later" },
	[SIMNPU_ACTION_EARLY] = { "early", "it is said to be done ns= before it is" },
	[SIMNPU_ACTION_CORRUPT] = { "corrupt",
		"it is done, and a failure of it is told that makes no sense" },
	[SIMNPU_ACTION_ECC] = { "ecc",
		"an uncorrectable error hits the memory that it reads, or writes" },
	[SIMNPU_ACTION_ECC1] = { "ecc1", "a memory error is corrected and counted" },
	[SIMNPU_ACTION_LINK] = { "link", "the link to the device fails: the device has a fault" },
	[SIMNPU_ACTION_HANG] = { "hang",
		"it hangs; ns= later that is noticed, unless a stop or abort ended it: the device "
		"has a fault" },
	[SIMNPU_ACTION_HEARTBEAT] = { "heartbeat",
		"the device gives no sign of life: it has a fault" },
	[SIMNPU_ACTION_GONE] = { "gone",
		"the device is unplugged; with ns= it is plugged in again after that" },
	[SIMNPU_ACTION_REORDER] = { "reorder",
		"all devices are unplugged, and plugged in behind the next node each" },
};

_Static_assert(ARRAY_SIZE(actions) == SIMNPU_ACTION_NR, "a line for each action");

static const uint32_t accepted[] = {
	[SIMNPU_WHAT_IOCTL] = ACTION(FAIL) | ACTION(STALL) | ACTION(STUCK) | ACTION(LATE) |
			      DEVICE_ACTIONS,
	[SIMNPU_WHAT_TASK] = ACTION(FAIL) | ACTION(STALL) | ACTION(STUCK) | ACTION(LATE) |
			     ACTION(EARLY) | ACTION(CORRUPT) | ACTION(ECC) | DEVICE_ACTIONS,
	[SIMNPU_WHAT_ALLOC] = ACTION(FAIL) | ACTION(STALL),
	[SIMNPU_WHAT_SYS] = ACTION(FAIL) | ACTION(STALL) | ACTION(LATE),
	[SIMNPU_WHAT_DEVICE] = DEVICE_ACTIONS,
};

enum key { KEY_DO, KEY_CODE, KEY_NS, KEY_NTH, KEY_TIMES, KEY_PROB, KEY_SEED, KEY_STREAM, KEY_PID,
	   KEY_DEV, KEY_NR };

static const struct simnpu_fault_word keys[KEY_NR] = {
	[KEY_DO] = { "do", "what is done; fail if nothing is said" },
	[KEY_CODE] = { "code", "errno of a failure, as ENOMEM or 12" },
	[KEY_NS] = { "ns", "nanoseconds" },
	[KEY_NTH] = { "nth", "the first one that is hit, from 1" },
	[KEY_TIMES] = { "times", "how many are hit, 0: all from there on" },
	[KEY_PROB] = { "prob", "probability that one is hit, from 0 to 1" },
	[KEY_SEED] = { "seed", "where the dice begin" },
	[KEY_STREAM] = { "stream", "tasks of the N-th stream made on its device, from 1" },
	[KEY_PID] = { "pid", "one process alone" },
	[KEY_DEV] = { "dev", "one device alone, from 0" },
};

/* ---- the words, for who lists them ---------------------------------------------------- */

/* See simnpu_test.h. */
const struct simnpu_fault_word *simnpu_fault_what(uint32_t i)
{
	return i < ARRAY_SIZE(whats) ? &whats[i].w : NULL;
}

/* See simnpu_test.h. */
const struct simnpu_fault_word *simnpu_fault_action(uint32_t i)
{
	return i + 1 < ARRAY_SIZE(actions) ? &actions[i + 1] : NULL;
}

/* See simnpu_test.h. */
const struct simnpu_fault_word *simnpu_fault_key(uint32_t i)
{
	return i < ARRAY_SIZE(keys) ? &keys[i] : NULL;
}

/* ---- reading --------------------------------------------------------------------------- */

/* Where the reading stands. */
struct reader {
	const char *text;
	const char *p;
	struct simnpu_rule *r;
	uint32_t keys;		/* a bit for each key that was given */
	struct simnpu_rule_error *err;
};

static void blanks(struct reader *rd)
{
	while (*rd->p == ' ' || *rd->p == '\t' || *rd->p == '\n')
		rd->p++;
}

/* The bytes up to one that ends a word. */
static size_t word_len(const struct reader *rd)
{
	return strcspn(rd->p, ",;= \t\n");
}

static bool is_word(const struct reader *rd, size_t len, const char *word)
{
	return strlen(word) == len && !memcmp(rd->p, word, len);
}

/* Appends to the text of the error; what does not fit is left out. */
static void say(struct reader *rd, const char *s, size_t len)
{
	size_t have = strlen(rd->err->why), room = sizeof(rd->err->why) - 1 - have;

	if (len > room)
		len = room;
	memcpy(rd->err->why + have, s, len);
	rd->err->why[have + len] = 0;
}

/* "what: 'the word there'" */
static int wrong(struct reader *rd, int rc, const char *what, size_t len)
{
	rd->err->pos = (size_t)(rd->p - rd->text);
	rd->err->why[0] = 0;
	say(rd, what, strlen(what));
	if (!len)
		return rc;
	say(rd, " '", 2);
	say(rd, rd->p, len < 40 ? len : 40);
	say(rd, "'", 1);
	return rc;
}

static void say_words(struct reader *rd, const struct simnpu_fault_word *w, size_t n, uint32_t mask)
{
	size_t i;

	say(rd, "; accepted:", 11);
	for (i = 0; i < n; i++) {
		if (!(mask >> i & 1))
			continue;
		say(rd, " ", 1);
		say(rd, w[i].word, strlen(w[i].word));
	}
}

static int read_what(struct reader *rd)
{
	size_t len = word_len(rd), i;

	for (i = 0; i < ARRAY_SIZE(whats); i++) {
		if (!is_word(rd, len, whats[i].w.word))
			continue;
		rd->r->what = whats[i].what;
		rd->r->which = whats[i].which;
		rd->p += len;
		return 0;
	}
	wrong(rd, -EINVAL, len ? "not known:" : "a rule is missing", len);
	say(rd, "; accepted: ioctl:NAME task:OP alloc:KIND sys:CALL device", 57);
	return -EINVAL;
}

static int read_number(struct reader *rd, size_t len, uint64_t min, uint64_t max, uint64_t *v)
{
	bool hex = len > 2 && rd->p[0] == '0' && rd->p[1] == 'x';
	char *end;

	if (!len || *rd->p < '0' || *rd->p > '9')
		return wrong(rd, -EINVAL, "not a number:", len);
	errno = 0;
	*v = strtoull(rd->p, &end, hex ? 16 : 10);
	if (end != rd->p + len)
		return wrong(rd, -EINVAL, "not a number:", len);
	if (errno || *v < min || *v > max)
		return wrong(rd, -ERANGE, "out of range:", len);
	return 0;
}

/* "0.25": digits, with a point among them. */
static int read_prob(struct reader *rd, size_t len, uint64_t *v)
{
	uint64_t digits = 0, scale = 1;
	bool point = false;
	size_t i;

	for (i = 0; i < len && i < 12; i++) {
		if (rd->p[i] == '.' && !point && len > 1) {
			point = true;
			continue;
		}
		if (rd->p[i] < '0' || rd->p[i] > '9')
			return wrong(rd, -EINVAL, "not a probability:", len);
		digits = digits * 10 + (uint64_t)(rd->p[i] - '0');
		if (point)
			scale *= 10;
	}
	if (!len || len > 12)
		return wrong(rd, -EINVAL, "not a probability:", len);
	if (digits > scale)
		return wrong(rd, -ERANGE, "out of range, 0 to 1:", len);
	/* scale is at most 10^11 */
	*v = (uint64_t)((double)digits / (double)scale * 4294967296.0);
	if (!*v)
		*v = digits ? 1 : UINT64_MAX;	/* UINT64_MAX: never */
	return 0;
}

static int read_code(struct reader *rd, size_t len, uint32_t *code)
{
	const char *name;
	uint64_t n;
	int rc, i;

	for (i = 1; i <= ERRNO_MAX; i++) {
		name = hal_errno_name(i);
		if (name && is_word(rd, len, name)) {
			*code = (uint32_t)i;
			return 0;
		}
	}
	if (*rd->p < '0' || *rd->p > '9')
		return wrong(rd, -EINVAL, "no errno:", len);
	rc = read_number(rd, len, 1, ERRNO_MAX, &n);
	*code = (uint32_t)n;
	return rc;
}

static int read_action(struct reader *rd, size_t len)
{
	uint32_t i;

	for (i = 1; i < ARRAY_SIZE(actions); i++)
		if (is_word(rd, len, actions[i].word))
			break;
	if (i < ARRAY_SIZE(actions) && accepted[rd->r->what] >> i & 1) {
		rd->r->action = i;
		return 0;
	}
	wrong(rd, -EINVAL, i < ARRAY_SIZE(actions) ? "does not go with it:" : "not known:", len);
	say_words(rd, actions, ARRAY_SIZE(actions), accepted[rd->r->what]);
	return -EINVAL;
}

static int read_value(struct reader *rd, enum key key, size_t len)
{
	struct simnpu_rule *r = rd->r;
	uint64_t v = 0;
	int rc;

	switch (key) {
	case KEY_DO:
		return read_action(rd, len);
	case KEY_CODE:
		return read_code(rd, len, &r->code);
	case KEY_NS:
		return read_number(rd, len, 0, UINT64_MAX, &r->ns);
	case KEY_NTH:
		return read_number(rd, len, 1, UINT64_MAX, &r->nth);
	case KEY_TIMES:
		return read_number(rd, len, 0, UINT64_MAX, &r->times);
	case KEY_PROB:
		return read_prob(rd, len, &r->prob);
	case KEY_SEED:
		return read_number(rd, len, 0, UINT64_MAX, &r->dice);
	case KEY_STREAM:
		rc = read_number(rd, len, 1, UINT32_MAX, &v);
		r->stream = (uint32_t)v;
		return rc;
	case KEY_PID:
		rc = read_number(rd, len, 1, INT32_MAX, &v);
		r->pid = (int32_t)v;
		return rc;
	default:
		rc = read_number(rd, len, 0, SIMNPU_MAX_DEVICES - 1, &v);
		r->dev = (int32_t)v;
		return rc;
	}
}

/* Keys that mean nothing for what the rule looks at. */
static bool key_fits(const struct simnpu_rule *r, enum key key)
{
	if (key == KEY_STREAM)
		return r->what == SIMNPU_WHAT_TASK || r->what == SIMNPU_WHAT_DEVICE;
	if (key == KEY_CODE)
		return r->what != SIMNPU_WHAT_ALLOC && r->what != SIMNPU_WHAT_DEVICE;
	return key != KEY_DEV || r->what != SIMNPU_WHAT_SYS;
}

static int read_key(struct reader *rd)
{
	size_t len = word_len(rd);
	uint32_t key;
	int rc;

	for (key = 0; key < KEY_NR; key++)
		if (is_word(rd, len, keys[key].word))
			break;
	if (key == KEY_NR) {
		wrong(rd, -EINVAL, len ? "no key:" : "a key is missing", len);
		say_words(rd, keys, KEY_NR, ~0u);
		return -EINVAL;
	}
	if (!key_fits(rd->r, key))
		return wrong(rd, -EINVAL, "does not go with it:", len);
	if (rd->keys >> key & 1)
		return wrong(rd, -EINVAL, "given twice:", len);
	rd->keys |= 1u << key;
	rd->p += len;
	blanks(rd);
	if (*rd->p != '=')
		return wrong(rd, -EINVAL, "'=' and a value are missing", 0);
	rd->p++;
	blanks(rd);
	len = word_len(rd);
	rc = read_value(rd, key, len);
	if (!rc)
		rd->p += len;
	return rc;
}

static uint32_t default_code(const struct simnpu_rule *r)
{
	if (r->what == SIMNPU_WHAT_ALLOC)
		return ENOMEM;
	/* of any call: its own, by who asks */
	return r->what == SIMNPU_WHAT_SYS ? 0 : EIO;
}

/* What was not given. */
static int complete(struct reader *rd)
{
	struct simnpu_rule *r = rd->r;
	uint32_t given = rd->keys;

	if (!(given >> KEY_DO & 1)) {
		if (r->what == SIMNPU_WHAT_DEVICE) {
			wrong(rd, -EINVAL, "do= is missing", 0);
			say_words(rd, actions, ARRAY_SIZE(actions), accepted[r->what]);
			return -EINVAL;
		}
		r->action = SIMNPU_ACTION_FAIL;
	}
	if (!(given >> KEY_CODE & 1))
		r->code = default_code(r);
	if (!(given >> KEY_NS & 1) && r->action != SIMNPU_ACTION_GONE)
		r->ns = r->action == SIMNPU_ACTION_LATE || r->action == SIMNPU_ACTION_EARLY ?
			NS_LATE : r->action == SIMNPU_ACTION_HANG ? NS_HANG : NS_FOR_EVER;
	if (!(given >> KEY_NTH & 1))
		r->nth = 1;
	if (!(given >> KEY_TIMES & 1))
		r->times = r->prob ? 0 : 1;
	if (!(given >> KEY_SEED & 1))
		r->dice = 1;
	return 0;
}

static int read_rule(struct reader *rd)
{
	int rc;

	*rd->r = (struct simnpu_rule){ .dev = -1, .at = (uint32_t)(rd->p - rd->text) };
	rd->keys = 0;
	rc = read_what(rd);
	blanks(rd);
	while (!rc && *rd->p == ',') {
		rd->p++;
		blanks(rd);
		rc = read_key(rd);
		blanks(rd);
	}
	if (!rc && *rd->p && *rd->p != ';')
		rc = wrong(rd, -EINVAL, "',' or ';' is missing before", strcspn(rd->p, ",;"));
	if (!rc)
		rc = complete(rd);
	rd->r->len = (uint32_t)(rd->p - rd->text) - rd->r->at;
	return rc;
}

/* See faults.h. */
int simnpu_rules_parse(const char *text, struct simnpu_rule *rules, uint32_t *n,
		       struct simnpu_rule_error *err)
{
	struct reader rd = { .text = text, .p = text, .err = err };
	int rc;

	*n = 0;
	*err = (struct simnpu_rule_error){ .pos = 0 };
	if (strlen(text) >= SIMNPU_FAULT_TEXT) {
		rd.p = text + SIMNPU_FAULT_TEXT - 1;
		return wrong(&rd, -E2BIG, "more than 1023 bytes", 0);
	}
	for (;;) {
		while (*rd.p == ';' || *rd.p == ' ' || *rd.p == '\t' || *rd.p == '\n')
			rd.p++;
		if (!*rd.p)
			return 0;
		if (*n == SIMNPU_FAULT_RULES)
			return wrong(&rd, -E2BIG, "more than 32 rules", 0);
		rd.r = &rules[*n];
		rc = read_rule(&rd);
		if (rc)
			return rc;
		++*n;
	}
}

/* See simnpu_test.h. */
int simnpu_fault_check(const char *text, size_t *pos, char *why, size_t size)
{
	struct simnpu_rule rules[SIMNPU_FAULT_RULES];
	struct simnpu_rule_error err;
	uint32_t n;
	int rc = simnpu_rules_parse(text, rules, &n, &err);

	if (pos)
		*pos = err.pos;
	if (why && size)
		snprintf(why, size, "%s", err.why);
	return rc;
}
