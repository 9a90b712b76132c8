/* SPDX-License-Identifier: MIT */
/*
 * What the files of the ioctl fuzz target share.
 */
#ifndef SELFTESTS_FUZZ_IOCTL_FUZZ_H
#define SELFTESTS_FUZZ_IOCTL_FUZZ_H

#include <stdint.h>

#include "selftests/fuzz/fuzz.h"
#include "uapi/simnpu.h"

#define FILES 3
#define POOL 32
#define SEGMENTS 12
#define BUF_SIZE 65536
#define ARG_SIZE 512
#define U64(p) ((uint64_t)(uintptr_t)(p))

/* A segment of a ring, and where the next task goes. */
struct segment {
	char *at;
	struct simnpu_queue_header *header;
	uint32_t slots;
	uint32_t pos;
	uint64_t seq;
	uint32_t queue;
	int fd;
};

/* What an input has made so far. Numbers of things that are gone stay: they are to be used, too. */
struct fuzz_state {
	struct fuzz_in in;
	int fd[FILES];
	uint32_t handle[POOL];
	uint32_t handles;
	uint64_t addr[POOL];
	uint32_t addrs;
	uint32_t context;
	char *arena;
	uint32_t arena_of;
	int arena_fd;
	uint64_t map;
	uint64_t kernel;
	struct segment seg[SEGMENTS];
	uint32_t segs;
	int exported;
};

extern struct fuzz_state z;
extern char *buf;	/* the submitter's memory, and behind it a page that can't be touched */
extern int efd;

/* ioctl_args.c: something that was made, and numbers that were not. */
uint32_t some_handle(void);
uint64_t some_addr(void);
/* Makes a structure, or a task, that is right as far as there is something to name. */
void sensible(unsigned long request, void *arg);
void sensible_task(struct simnpu_desc *d, uint32_t slots, uint64_t ring);
/* Changes some bytes of it. */
void edit(char *arg, size_t size);
/* Keeps what is left away from memory and descriptors that are not the input's. */
void tame(unsigned long nr, void *arg);
void tame_desc(struct simnpu_desc *d, const struct simnpu_desc *to);


#endif /* SELFTESTS_FUZZ_IOCTL_FUZZ_H */
