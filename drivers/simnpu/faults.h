/* SPDX-License-Identifier: MIT */
/*
 * Rules about failures on demand, as text and as the device has them. The grammar is
 * described in simnpu_test.h.
 */
#ifndef DRIVERS_SIMNPU_FAULTS_H
#define DRIVERS_SIMNPU_FAULTS_H

#include <stddef.h>
#include <stdint.h>

#include "drivers/simnpu/simnpu_test.h"

enum simnpu_what {
	SIMNPU_WHAT_IOCTL,
	SIMNPU_WHAT_TASK,
	SIMNPU_WHAT_ALLOC,
	SIMNPU_WHAT_SYS,
	SIMNPU_WHAT_DEVICE,
};

enum simnpu_action {
	SIMNPU_ACTION_NONE,
	SIMNPU_ACTION_FAIL,
	SIMNPU_ACTION_STALL,
	SIMNPU_ACTION_STUCK,
	SIMNPU_ACTION_LATE,
	SIMNPU_ACTION_EARLY,
	SIMNPU_ACTION_CORRUPT,
	SIMNPU_ACTION_ECC,
	SIMNPU_ACTION_ECC1,
	SIMNPU_ACTION_LINK,
	SIMNPU_ACTION_HANG,
	SIMNPU_ACTION_HEARTBEAT,
	SIMNPU_ACTION_GONE,
	SIMNPU_ACTION_REORDER,
	SIMNPU_ACTION_NR
};

/* simnpu_rule.which of an allocation: enum simnpu_fail up to SIMNPU_FAIL_THREAD. */
#define SIMNPU_WHICH_ANY (-1)

/**
 * struct simnpu_rule - one rule
 * @what: enum simnpu_what
 * @which: number of the ioctl, enum simnpu_op, enum simnpu_fail, enum hal_sys_call; or ANY
 * @action: enum simnpu_action
 * @code: the errno of a failure, positive
 * @ns: how long
 * @nth: the first one, counted from 1
 * @times: how many, 0: all
 * @prob: probability, 2^32 being 1; 0: not by dice
 * @dice: where they are
 * @stream: number of the stream, 0: any
 * @pid: the process, 0: any
 * @dev: the device, -1: any
 * @at: where it begins in the text
 * @len: bytes of it
 * @seen: what it looked at
 * @hit: what it hit
 */
struct simnpu_rule {
	uint32_t what;
	int32_t which;
	uint32_t action;
	uint32_t code;
	uint64_t ns;
	uint64_t nth;
	uint64_t times;
	uint64_t prob;
	uint64_t dice;
	uint32_t stream;
	int32_t pid;
	int32_t dev;
	uint32_t at;
	uint32_t len;
	uint64_t seen;
	uint64_t hit;
};

/**
 * struct simnpu_rule_error - what is wrong with a text
 * @pos: where, a byte offset
 * @why: what, and what is accepted there
 */
struct simnpu_rule_error {
	size_t pos;
	char why[192];
};

/**
 * simnpu_rules_parse() - rules from a text
 * @text: the text
 * @rules: out: SIMNPU_FAULT_RULES of them
 * @n: out: how many there are
 * @err: out: what is wrong
 *
 * Return: 0, -EINVAL, -ERANGE, -E2BIG.
 */
int simnpu_rules_parse(const char *text, struct simnpu_rule *rules, uint32_t *n,
		       struct simnpu_rule_error *err);

#endif /* DRIVERS_SIMNPU_FAULTS_H */
