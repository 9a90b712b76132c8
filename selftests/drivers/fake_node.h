/* SPDX-License-Identifier: MIT */
/*
 * Nodes that remember what a driver asks of them: the other side of
 * uapi/simnpu.h, without anything that computes. A test decides when the device
 * consumes its rings, and which ioctl fails.
 */
#ifndef SELFTESTS_DRIVERS_FAKE_NODE_H
#define SELFTESTS_DRIVERS_FAKE_NODE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "hal/sys.h"
#include "uapi/simnpu.h"

#define FAKE_NODES 2u
#define FAKE_FDS 64u
#define FAKE_QUEUES 16u
#define FAKE_NR 256u
#define FAKE_ARENA ((size_t)32 << 20)
#define FAKE_KERNEL 0x1234500000000ull

/**
 * struct fake_queue - a queue as the device sees it
 * @used: it exists
 * @handle: its handle
 * @header: its header
 * @slot: the segment that is read
 * @pos: the next slot
 * @slots: slots of it
 * @consumed: slots consumed in all
 * @seq: the next task's number
 * @links: links followed
 */
struct fake_queue {
	bool used;
	uint32_t handle;
	struct simnpu_queue_header *header;
	struct simnpu_desc *slot;
	uint32_t pos;
	uint32_t slots;
	uint64_t consumed;
	uint64_t seq;
	uint32_t links;
};

/**
 * struct fake - all nodes of the process, and what they were asked
 * @nodes: how many there are
 * @info: what they say of themselves
 * @version: what they say of the interface
 * @fail: errno with which an ioctl fails, by number; 0: it does not
 * @fail_mmap: the same of mmap
 * @fail_open: the same of open
 * @calls: times that an ioctl was asked for, by number
 * @arg: its last argument, by number, as it was when it returned
 * @context_result: what contexts are made with
 * @live: objects of all kinds and descriptors that exist
 * @fd_node: node of a descriptor + 1, 0: closed
 * @next_fd: the next one
 * @next_handle: the next one of any kind
 * @arena: the arena of all contexts
 * @arena_used: bytes of it handed out
 * @queue: queues
 * @errors: what QUEUE_ERRORS gives
 * @error_count: entries of it
 * @error_dropped: and how many more
 * @lock: Protects: @callback, @callback_count, @done_count, @stopped, and @arg from the
 *	callback thread
 * @changed: one of these has
 * @callback: what CALLBACK_NEXT gives
 * @callback_count: 1 while it is there
 * @done_count: CALLBACK_DONE calls
 * @stopped: CALLBACK_STOP was called
 * @at: what QUEUE_AT gives; seq 0: nothing
 * @poison_count: how many ranges POISON tells
 * @unplugged: a bit per node that gives ENODEV
 */
struct fake {
	uint32_t nodes;
	struct simnpu_info info;
	struct simnpu_version version;
	int fail[FAKE_NR];
	int fail_mmap;
	int fail_open;
	uint32_t calls[FAKE_NR];
	uint64_t arg[FAKE_NR][16];
	uint32_t context_result;
	int live;
	uint32_t fd_node[FAKE_FDS];
	uint32_t next_fd;
	uint32_t next_handle;
	char *arena;
	size_t arena_used;
	struct fake_queue queue[FAKE_QUEUES];
	struct simnpu_task_error errors[SIMNPU_ERRORS_MAX];
	uint32_t error_count;
	uint32_t error_dropped;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct simnpu_callback callback;
	uint32_t callback_count;
	uint32_t done_count;
	bool stopped;
	struct simnpu_at at;
	uint32_t poison_count;
	uint32_t unplugged;
};

extern struct fake fake;
extern const struct hal_sys_ops fake_sys;

void fake_init(void);
void fake_exit(void);
struct fake_queue *fake_queue_of(uint32_t handle);
/* All calls so far, of whatever kind. */
uint32_t fake_calls(void);
#define FAKE_CALLS(req) (fake.calls[_IOC_NR(req)])
#define FAKE_ARG(req, type) ((const type *)(const void *)fake.arg[_IOC_NR(req)])
#define FAKE_FAIL(req, err) (fake.fail[_IOC_NR(req)] = (err))

/**
 * fake_take() - consume the next task of a ring, as the device does
 * @q: the queue
 * @task: out: its slots, the descriptor first
 *
 * Links are followed. Return: 1, 0 (there is none), -1 (what lies there breaks the rules).
 */
int fake_take(struct fake_queue *q, struct simnpu_desc task[65]);
/* Says that all that was taken has completed. */
void fake_complete(struct fake_queue *q);

#endif /* SELFTESTS_DRIVERS_FAKE_NODE_H */
