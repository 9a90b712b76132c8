/* SPDX-License-Identifier: MIT */
/*
 * The simulated device, inside: what a process has of a device, and what others
 * have of it where it belongs to a named instance. Included by model.h.
 */
#ifndef DRIVERS_SIMNPU_MODEL_INSTANCE_H
#define DRIVERS_SIMNPU_MODEL_INSTANCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "hal/base.h"
#include "uapi/simnpu.h"

struct model_device;
struct model_part;

/* ---- accounts: account.c ------------------------------------------------------- */

enum model_what { MODEL_BYTES, MODEL_QUEUES, MODEL_EVENTS, MODEL_WHATS };

/* So much of each. */
struct model_amount {
	uint64_t of[MODEL_WHATS];
};

int model_charge(struct model_device *dev, enum model_what what, uint64_t n);
void model_uncharge(struct model_device *dev, enum model_what what, uint64_t n);
uint64_t model_quota(enum model_what what);
void model_others(struct model_device *dev, struct model_amount *others);

/* ---- named instances: instance.c ----------------------------------------------- */

/* Nodes that are open belong to a named instance. */
extern _Atomic bool model_instance_on;

static inline bool model_named(void)
{
	/* relaxed: it changes while no node is open */
	return IS_ENABLED(CONFIG_SIMNPU_INSTANCES) && hal_load_relaxed(&model_instance_on);
}

/**
 * struct model_instance - the instance that this process's nodes belong to
 * @lock: Protects: all that follows, the process's own words in the file, its locks. Attaching and
 *	detaching are under open_lock, besides
 * @users: open nodes
 * @fd: the file, or -1
 * @map: its content, or NULL: the instance is private
 * @name: its name
 * @memory: bytes of a device, aligned
 * @part: what the devices are
 * @mine: a bit per slot that is this process's
 */
struct model_instance {
	pthread_mutex_t lock;
	uint32_t users;
	int fd;
	struct simnpu_instance *map;
	char name[SIMNPU_NAME_LEN];
	uint64_t memory;
	const struct model_part *part;
	uint64_t mine[SIMNPU_INSTANCE_SLOTS / 64];
};

extern struct model_instance model_instance;

int model_instance_attach(const char *name);
void model_instance_detach(void);
void model_instance_in_child(void);
uint32_t model_instance_devices(void);
const struct model_part *model_instance_part(uint64_t *memory);

/* slot.c */
void model_instance_nap(void);
int model_instance_join(struct model_device *dev);
void model_instance_leave(struct model_device *dev);
bool model_instance_charge(struct model_device *dev, enum model_what what, uint64_t n,
			   uint64_t limit);
void model_instance_uncharge(struct model_device *dev, enum model_what what, uint64_t n);
int model_instance_share(struct model_device *dev, uint64_t object, uint64_t size, uint32_t slot,
			 uint64_t number, uint32_t *share);
int model_instance_take(struct model_device *dev, const struct simnpu_instance_share *what,
			uint32_t *share);
void model_instance_unshare(struct model_device *dev, uint32_t share, bool owner);
void model_instance_orphan(struct model_device *dev, uint64_t object);
uint64_t model_instance_number(struct model_device *dev, uint32_t *slot);
void model_instance_others(struct model_device *dev, struct model_amount *others);

#endif /* DRIVERS_SIMNPU_MODEL_INSTANCE_H */
