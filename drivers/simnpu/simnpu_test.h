/* SPDX-License-Identifier: MIT */
/*
 * The back door of the simulated NPU: failures on demand, counters, a device
 * that holds still. Only selftests and tools include this.
 */
#ifndef DRIVERS_SIMNPU_SIMNPU_TEST_H
#define DRIVERS_SIMNPU_SIMNPU_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- faults by rules ------------------------------------------------------ */

/*
 * Rules, separated by ';'; blanks around words don't count:
 *
 *	WHAT[,key=value]...
 *
 * WHAT is what a rule looks at:
 *
 *	ioctl:NAME	an ioctl, by the name of its number in small letters, "mem_create", or "any"
 *	task:OP		a task: launch copy fill record wait callback, or any. "task" alone: any
 *	alloc:KIND	an allocation of the device: memory host arena lock thread, or any
 *	sys:CALL	a call through the seam: a member of struct hal_sys_ops, or any
 *	device		the device: counted at each task that begins, and at each ioctl that is no
 *			question, doorbell or wait
 *
 * and the keys say when, and what then:
 *
 *	do=ACTION	simnpu_fault_action(); default: fail
 *	code=NAME	the errno of do=fail, "ENOMEM" or a number; default: what suits WHAT
 *	ns=N		how long it takes; default: for ever; of late and early 1 ms, of hang 10 ms
 *	nth=N		the first one that it hits, 1 being the next; default: 1
 *	times=N		how many it hits, 0: all from there on; default: 1, with prob 0
 *	prob=P		from nth on it hits each with this probability, 0 to 1, as "0.25"
 *	seed=N		where the dice begin, so that a run can be repeated; default: 1
 *	stream=N	tasks of one stream alone: the N-th that was made on its device, from 1
 *	pid=N		one process alone
 *	dev=N		one device alone: the N-th part, which is the N-th node unless plugged anew
 *
 * EINTR and EAGAIN tell callers to make the call again: they are given to a thread
 * HAL_SYS_AGAIN_MAX times in a row, then its call is made.
 *
 * Not all actions and keys go with all of WHAT: simnpu_fault_check() says so. The same rules are
 * taken from option simnpu_faults, when a node is opened. Of several that hit, the first one acts.
 */

/* Bytes of the text of all rules, and how many there may be. */
#define SIMNPU_FAULT_TEXT 1024u
#define SIMNPU_FAULT_RULES 32u

/**
 * simnpu_fault_check() - whether rules are well-formed
 * @text: the rules
 * @pos: out: where they are wrong, a byte offset; may be NULL
 * @why: out: what is wrong there and what is accepted, one line; may be NULL
 * @size: bytes of @why
 *
 * Return: 0, -EINVAL (not of the form), -ERANGE (a value out of range), -E2BIG (too many or too
 * long).
 */
int simnpu_fault_check(const char *text, size_t *pos, char *why, size_t size);

/**
 * simnpu_fault_set() - set the rules, instead of those there are
 * @text: the rules; "" is none
 * @pos: out: where they are wrong; may be NULL
 *
 * Counts begin anew. Rules set here are not replaced by those of option simnpu_faults.
 * Return: as simnpu_fault_check(); when it fails, the rules that there are stay.
 */
int simnpu_fault_set(const char *text, size_t *pos);

/* No rules any more, nor failures of simnpu_test_fail(); what is stalled or stuck goes on. */
void simnpu_fault_clear(void);

/**
 * struct simnpu_fault_rule - a rule that is set
 * @text: as it was given
 * @seen: what it looked at
 * @hit: what it hit
 */
struct simnpu_fault_rule {
	char text[128];
	uint64_t seen;
	uint64_t hit;
};

/* The rules that are set, up to @n of them; returns how many there are. */
uint32_t simnpu_fault_list(struct simnpu_fault_rule *list, uint32_t n);

/* The same, and in one step there are none any more: nothing is hit that is not counted. */
uint32_t simnpu_fault_end(struct simnpu_fault_rule *list, uint32_t n);

/**
 * struct simnpu_fault_word - a word of the rules
 * @word: "stall", or "task:copy"
 * @help: what it means
 */
struct simnpu_fault_word {
	const char *word;
	const char *help;
};

/* The i-th WHAT, action, or key, from 0; NULL behind the last. */
const struct simnpu_fault_word *simnpu_fault_what(uint32_t i);
const struct simnpu_fault_word *simnpu_fault_action(uint32_t i);
const struct simnpu_fault_word *simnpu_fault_key(uint32_t i);

/* ---- faults at once -------------------------------------------------------- */

/* What is done to the device behind a node; false: it is not open, or there is no such action. */

/* As do=link, do=hang, do=heartbeat, do=ecc1 and do=gone do, at once. */
bool simnpu_test_device_fault(uint32_t index, const char *action);
/* An uncorrectable error lies in that range, of one allocation; who reads it finds out. */
bool simnpu_test_poison(uint32_t index, uint64_t addr, uint64_t size);

/*
 * Parts and nodes: at the start part N is behind node N. Plugging a part behind a node, -1: none,
 * takes it away from the node where it was, and the one that was there loses its node.
 * What was open there is lost (ENODEV) for who had it open; so it is when a part is plugged
 * where it is already. False: no such number.
 */
bool simnpu_test_plug(uint32_t part, int node);
/* Every part behind its node again; what is open and in its place already is left alone. */
void simnpu_test_plug_reset(void);

/* ---- single failures -------------------------------------------------------- */

/* What can be made to fail. Any ioctl: SIMNPU_FAIL_IOCTL plus its number. */
enum simnpu_fail {
	SIMNPU_FAIL_MEMORY,	/* allocation of device memory */
	SIMNPU_FAIL_HOST,	/* allocation of host memory */
	SIMNPU_FAIL_ARENA,	/* memory for rings, headers and stamps */
	SIMNPU_FAIL_LOCK,	/* locking of host memory in RAM */
	SIMNPU_FAIL_THREAD,	/* making an engine thread */
	SIMNPU_FAIL_IOCTL,
	SIMNPU_FAIL_COUNT = SIMNPU_FAIL_IOCTL + 128
};

/**
 * simnpu_test_fail() - make something fail
 * @what: enum simnpu_fail
 * @nth: the first call that fails, counted from now, 1 being the next; 0: none any more
 * @times: how many fail; 0: all from there on
 * @code: the positive errno of an ioctl; the others have their own
 *
 * Return: what simnpu_test_calls() would have said; no call comes between.
 */
uint32_t simnpu_test_fail(unsigned int what, uint32_t nth, uint32_t times, int code);

/* How many calls of that kind there were since simnpu_test_fail() was called for it. */
uint32_t simnpu_test_calls(unsigned int what);

/**
 * struct simnpu_test_counters - what has happened since the process began
 * @kicks: doorbells
 * @wakes: system calls that woke an engine thread
 * @borrowed: tasks that a waiting thread ran
 * @looks: looks at the rings
 * @ioctls: by number; WAIT and KICK are not counted
 */
struct simnpu_test_counters {
	uint64_t kicks;
	uint64_t wakes;
	uint64_t borrowed;
	uint64_t looks;
	uint64_t ioctls[128];
};

void simnpu_test_counters(struct simnpu_test_counters *c);

/**
 * struct simnpu_test_device - a device as it is now
 * @opens: open descriptors
 * @contexts: contexts
 * @queues: queues
 * @events: timed events
 * @mems: allocations, host memory and registrations
 * @modules: loaded modules
 * @threads: engine threads
 * @active: queues that are looked at
 * @mem_used: bytes of device memory
 */
struct simnpu_test_device {
	uint32_t opens;
	uint32_t contexts;
	uint32_t queues;
	uint32_t events;
	uint32_t mems;
	uint32_t modules;
	uint32_t threads;
	uint32_t active;
	uint64_t mem_used;
};

/* False: no such device is open. */
bool simnpu_test_device(uint32_t index, struct simnpu_test_device *d);

/* A paused device starts no task, on no thread. It must be open. */
void simnpu_test_pause(uint32_t index, bool paused);

#endif /* DRIVERS_SIMNPU_SIMNPU_TEST_H */
