// SPDX-License-Identifier: MIT
/*
 * Named instances: devices that several processes of one user share. Who has how
 * much is in a file, which uapi/simnpu.h describes; a process that dies loses
 * its locks there, and what it had is free.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/simnpu/model/model.h"
#include "drivers/simnpu/options.h"

#define PATH_SIZE 512u
#define FILE_MAX (64u << 10)
#define MAP_SIZE hal_align_up(sizeof(struct simnpu_instance), MODEL_PAGE)
#define NAP_NS 50000u
/* How long another one may take to set the file up; to charge something, unless he is stopped. */
#define SETUP_NS 1000000000ull
#define CHARGE_NS 100000000ull

/**
 * struct instance - the instance that this process's nodes belong to
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
static struct instance {
	pthread_mutex_t lock;
	uint32_t users;
	int fd;
	struct simnpu_instance *map;
	char name[SIMNPU_NAME_LEN];
	uint64_t memory;
	const struct model_part *part;
	uint64_t mine[SIMNPU_INSTANCE_SLOTS / 64];
} inst = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

_Atomic bool model_instance_on;

static void nap(void)
{
	_Atomic uint32_t word = 0;

	hal_sys_futex_wait(&word, 0, hal_sys_now() + NAP_NS);
}

/* ---- the file ------------------------------------------------------------------ */

static uint64_t slot_offset(uint32_t i)
{
	return offsetof(struct simnpu_instance, slot) + i * sizeof(struct simnpu_instance_slot);
}

/* Alone with the file: whatever was in it is nobody's. */
static int set_up(void)
{
	struct simnpu_instance *m = inst.map;
	const struct model_part *part;
	uint64_t memory;

	part = model_part_get(&memory);
	memset(m, 0, sizeof(*m));
	m->major = SIMNPU_ABI_MAJOR;
	m->slots = SIMNPU_INSTANCE_SLOTS;
	m->devices = (uint32_t)hal_option_int(simnpu_options, "simnpu_devices");
	m->memory = memory;
	memcpy(m->part, part->name, strlen(part->name));
	hal_shm_store_release(&m->magic, SIMNPU_INSTANCE_MAGIC);
	/* the write lock becomes a read lock, without a gap */
	return hal_sys_lock(inst.fd, F_RDLCK, SIMNPU_INSTANCE_LOCK_FILE, 1);
}

/* What the first one said counts: 0, -EAGAIN (nobody did), -EUCLEAN (nothing we understand). */
static int look_at(void)
{
	const struct simnpu_instance *m = inst.map;

	if (hal_shm_load_acquire(&m->magic) != SIMNPU_INSTANCE_MAGIC)
		return -EAGAIN;
	if (m->major != SIMNPU_ABI_MAJOR || m->slots != SIMNPU_INSTANCE_SLOTS ||
	    m->devices > SIMNPU_MAX_DEVICES || m->memory % MODEL_ALIGN || m->memory > 1ull << 46 ||
	    !memchr(m->part, 0, sizeof(m->part)))
		return -EUCLEAN;
	inst.part = model_part_named(m->part);
	inst.memory = m->memory;
	return inst.part && inst.memory ? 0 : -EUCLEAN;
}

/* Room first: what is mapped must not fail for want of it. */
static int map_file(void)
{
	struct stat st;
	void *p;
	int rc;

	rc = hal_sys_fstat(inst.fd, &st);
	if (!rc && ((uint64_t)st.st_size < sizeof(struct simnpu_instance) ||
		    (uint64_t)st.st_blocks * 512 < sizeof(struct simnpu_instance)))
		rc = hal_sys_fallocate(inst.fd, 0, sizeof(struct simnpu_instance));
	if (!rc)
		rc = hal_sys_mmap(hal_sys_get(), MAP_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
				  inst.fd, 0, &p);
	if (rc)
		return rc == -ENOSPC || rc == -EFBIG ? -ENOMEM : rc;
	/* a child that had it would hold the locks of its parent */
	rc = hal_sys_madvise(p, MAP_SIZE, MADV_DONTFORK);
	if (rc) {
		hal_sys_munmap(hal_sys_get(), p, MAP_SIZE);
		return rc;
	}
	inst.map = p;
	return 0;
}

/* Sets the file up, or waits for who does. */
static int enter_file(void)
{
	uint64_t end = hal_sys_now() + SETUP_NS;
	bool in;
	int rc;

	for (;;) {
		rc = hal_sys_lock(inst.fd, F_WRLCK, SIMNPU_INSTANCE_LOCK_FILE, 1);
		if (!rc)
			rc = set_up();
		else if (rc == -EAGAIN)
			rc = hal_sys_lock(inst.fd, F_RDLCK, SIMNPU_INSTANCE_LOCK_FILE, 1);
		in = !rc;
		if (in)
			rc = look_at();
		if (rc != -EAGAIN)
			return rc;
		if (hal_sys_now() >= end)
			return in ? -EUCLEAN : -EBUSY;
		/* who set it up died over it: who is alone begins anew */
		if (in)
			hal_sys_lock(inst.fd, F_UNLCK, SIMNPU_INSTANCE_LOCK_FILE, 1);
		nap();
	}
}

/* Whether the file is this user's alone, and not too large to be one of ours. */
static int trusted(const char *path)
{
	struct stat st;
	int rc = hal_sys_fstat(inst.fd, &st);

	if (rc)
		return rc;
	if (S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077) &&
	    st.st_nlink <= 1 && st.st_size <= FILE_MAX)
		return 0;
	hal_err(HAL_LOG_MODEL, "instance %s: %s is not a plain file that is this user's alone",
		inst.name, path);
	return -EUCLEAN;
}

/* Whether it still has its name: 0, -ESTALE, or as the system fails. */
static int named(void)
{
	struct stat st;
	int rc = hal_sys_fstat(inst.fd, &st);

	if (rc)
		return rc;
	return st.st_nlink ? 0 : -ESTALE;
}

static void close_file(void)
{
	if (inst.map)
		hal_sys_munmap(hal_sys_get(), inst.map, MAP_SIZE);
	if (inst.fd >= 0)
		hal_sys_close(hal_sys_get(), inst.fd);
	inst.map = NULL;
	inst.fd = -1;
}

static int open_path(const char *path)
{
	int rc;

	do {
		inst.fd = hal_sys_open(hal_sys_get(), path,
				       O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
		if (inst.fd < 0) {
			rc = inst.fd;
			inst.fd = -1;
			return rc;
		}
		rc = trusted(path);
		if (!rc)
			rc = map_file();
		if (!rc)
			rc = enter_file();
		if (!rc)
			rc = named();
		if (!rc)
			return 0;
		close_file();
		/* somebody removed it in between: there is a new one, or none */
	} while (rc == -ESTALE);
	if (rc != -EUCLEAN)
		hal_err(HAL_LOG_MODEL, "instance %s: %s: error %d", inst.name, path, -rc);
	return rc;
}

/* Whether another folder may do: not where a second try could find another one. */
static bool elsewhere(int rc)
{
	return rc == -ENOENT || rc == -ENOTDIR || rc == -EACCES || rc == -EPERM || rc == -ELOOP ||
	       rc == -EROFS || rc == -ENXIO || rc == -EISDIR;
}

static int open_file(void)
{
	const char *dirs[] = { secure_getenv("XDG_RUNTIME_DIR"), "/dev/shm", "/tmp" };
	char path[PATH_SIZE];
	int rc = -ENOENT;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(dirs) && elsewhere(rc); i++) {
		if (!dirs[i] || dirs[i][0] != '/')
			continue;
		if ((size_t)snprintf(path, sizeof(path), "%s/simnpu-%u-%s", dirs[i], geteuid(),
				     inst.name) < sizeof(path))
			rc = open_path(path);
	}
	return rc;
}

/* ---- attach and detach ----------------------------------------------------------- */

static bool name_ok(const char *name)
{
	return strlen(name) < SIMNPU_NAME_LEN && name[0] != '.' &&
	       !name[strspn(name, SIMNPU_INSTANCE_NAME)];
}

static void tell_difference(void)
{
	const struct model_part *part;
	static bool told;
	uint64_t memory;

	part = model_part_get(&memory);
	if (told || (part == inst.part && memory == inst.memory &&
		     (uint32_t)hal_option_int(simnpu_options, "simnpu_devices") ==
			     inst.map->devices))
		return;
	told = true;
	hal_warn(HAL_LOG_MODEL, "instance %s is as its first process made it: %u devices %s",
		 inst.name, inst.map->devices, inst.part->name);
}

/**
 * model_instance_attach() - one more open node
 * @name: name of the instance that it is to belong to; empty: a private one
 *
 * Context: under open_lock. Return: 0, -EINVAL (the name), -EBUSY (other nodes are open under
 * another name, or another process does not get on with the file), -EUCLEAN (the file is not to be
 * trusted), -ENOMEM, or as the system fails.
 */
int model_instance_attach(const char *name)
{
	int rc = 0;

	if (!name_ok(name))
		return -EINVAL;
	pthread_mutex_lock(&inst.lock);
	if (inst.users) {
		rc = strcmp(inst.name, name) ? -EBUSY : 0;
	} else {
		memcpy(inst.name, name, strlen(name) + 1);
		if (name[0])
			rc = open_file();
		if (!rc && name[0])
			tell_difference();
		hal_store_relaxed(&model_instance_on, !rc && name[0]);
	}
	if (!rc)
		inst.users++;
	pthread_mutex_unlock(&inst.lock);
	return rc;
}

/* One node less. Context: under open_lock. */
void model_instance_detach(void)
{
	pthread_mutex_lock(&inst.lock);
	if (!--inst.users) {
		hal_store_relaxed(&model_instance_on, false);
		close_file();
	}
	pthread_mutex_unlock(&inst.lock);
}

/* In the child of a fork: the locks are the parent's as long as nobody keeps its file open. */
void model_instance_in_child(void)
{
	if (inst.fd >= 0)
		hal_sys_get()->close(inst.fd);
	/* what was mapped is not here */
	inst = (struct instance){ .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };
	hal_store_relaxed(&model_instance_on, false);
}

/* How many devices there are. Context: a node is open. */
uint32_t model_instance_devices(void)
{
	return inst.map->devices;
}

/* What they are. Context: a node is open. */
const struct model_part *model_instance_part(uint64_t *memory)
{
	*memory = inst.memory;
	return inst.part;
}

/* ---- slots ----------------------------------------------------------------------- */

static bool is_mine(uint32_t i)
{
	return inst.mine[i / 64] >> i % 64 & 1;
}

static struct simnpu_instance_slot *slot_of(const struct model_device *dev)
{
	return dev->slot ? &inst.map->slot[dev->slot - 1] : NULL;
}

static void clear(struct simnpu_instance_slot *s)
{
	hal_shm_store_release(&s->owner, 0);
	hal_shm_store_relaxed(&s->mem, 0);
	hal_shm_store_relaxed(&s->queues, 0);
	hal_shm_store_relaxed(&s->events, 0);
}

/* Takes the lock of a slot; false: it is somebody's, or may be. */
static bool slot_lock(uint32_t i)
{
	return !is_mine(i) &&
	       !hal_sys_lock(inst.fd, F_WRLCK, slot_offset(i), sizeof(struct simnpu_instance_slot));
}

static void slot_unlock(uint32_t i)
{
	hal_sys_lock(inst.fd, F_UNLCK, slot_offset(i), sizeof(struct simnpu_instance_slot));
}

/* Whether who says that the slot is his is dead; then it is free. */
static bool reap(uint32_t i)
{
	if (!slot_lock(i))
		return false;
	clear(&inst.map->slot[i]);
	slot_unlock(i);
	return true;
}

static bool accounts_lock(void)
{
	uint64_t end = hal_sys_now() + CHARGE_NS;
	int rc;

	while ((rc = hal_sys_lock(inst.fd, F_WRLCK, SIMNPU_INSTANCE_LOCK_ACCOUNTS, 1)) ==
	       -EAGAIN && hal_sys_now() < end)
		nap();
	return !rc;
}

static void accounts_unlock(bool locked)
{
	if (locked)
		hal_sys_lock(inst.fd, F_UNLCK, SIMNPU_INSTANCE_LOCK_ACCOUNTS, 1);
}

/**
 * model_instance_join() - this process uses a device
 * @dev: the device
 *
 * Context: under the device's lock. Return: 0 or -ENOSPC: so many processes use devices already.
 */
int model_instance_join(struct model_device *dev)
{
	struct simnpu_instance_slot *s;
	bool locked;
	uint32_t i;

	pthread_mutex_lock(&inst.lock);
	locked = accounts_lock();
	for (i = 0; i < SIMNPU_INSTANCE_SLOTS && !dev->slot; i++) {
		if (!slot_lock(i))
			continue;
		s = &inst.map->slot[i];
		clear(s);
		hal_shm_store_relaxed(&s->device, dev->index);
		hal_shm_store_release(&s->owner, hal_sys_now());
		inst.mine[i / 64] |= 1ull << i % 64;
		dev->slot = i + 1;
	}
	accounts_unlock(locked);
	pthread_mutex_unlock(&inst.lock);
	return dev->slot ? 0 : -ENOSPC;
}

/* It does not use it any more; what it still has there is nobody's. */
void model_instance_leave(struct model_device *dev)
{
	struct simnpu_instance_slot *s;

	pthread_mutex_lock(&inst.lock);
	s = slot_of(dev);
	if (s) {
		clear(s);
		slot_unlock(dev->slot - 1);
		inst.mine[(dev->slot - 1) / 64] &= ~(1ull << (dev->slot - 1) % 64);
		dev->slot = 0;
	}
	pthread_mutex_unlock(&inst.lock);
}

/* ---- accounts ---------------------------------------------------------------------- */

static uint64_t amount(const struct simnpu_instance_slot *s, enum model_what what)
{
	switch (what) {
	case MODEL_BYTES:
		return __atomic_load_n(&s->mem, __ATOMIC_SEQ_CST);
	case MODEL_QUEUES:
		return __atomic_load_n(&s->queues, __ATOMIC_SEQ_CST);
	default:
		return __atomic_load_n(&s->events, __ATOMIC_SEQ_CST);
	}
}

/* Its own slot alone: nobody else writes there. */
static void add(struct simnpu_instance_slot *s, enum model_what what, uint64_t n)
{
	if (what == MODEL_BYTES)
		__atomic_store_n(&s->mem, s->mem + n, __ATOMIC_SEQ_CST);
	else if (what == MODEL_QUEUES)
		__atomic_store_n(&s->queues, s->queues + (uint32_t)n, __ATOMIC_SEQ_CST);
	else
		__atomic_store_n(&s->events, s->events + (uint32_t)n, __ATOMIC_SEQ_CST);
}

/* What all have of a device; of the living alone, or else the dead may count. */
static uint64_t sum(const struct model_device *dev, enum model_what what, bool living)
{
	const struct simnpu_instance_slot *s;
	uint64_t n, total = 0;
	uint32_t i;

	for (i = 0; i < SIMNPU_INSTANCE_SLOTS; i++) {
		s = &inst.map->slot[i];
		if (!hal_shm_load_acquire(&s->owner) ||
		    hal_shm_load_relaxed(&s->device) != dev->index)
			continue;
		n = amount(s, what);
		if (n && !(living && reap(i)))
			total += n;
	}
	return total;
}

/**
 * model_instance_charge() - take something of a device that all share
 * @dev: the device, joined
 * @what: of what
 * @n: how much
 * @limit: how much there is
 *
 * Return: whether there is so much left.
 */
bool model_instance_charge(struct model_device *dev, enum model_what what, uint64_t n,
			   uint64_t limit)
{
	struct simnpu_instance_slot *s;
	bool locked, ok = true;

	pthread_mutex_lock(&inst.lock);
	s = slot_of(dev);
	if (s) {
		locked = accounts_lock();
		add(s, what, n);
		ok = sum(dev, what, false) <= limit || sum(dev, what, true) <= limit;
		if (!ok)
			add(s, what, -n);
		accounts_unlock(locked);
	}
	pthread_mutex_unlock(&inst.lock);
	return ok;
}

/* Gives it back. One that has left the device has nothing there. */
void model_instance_uncharge(struct model_device *dev, enum model_what what, uint64_t n)
{
	struct simnpu_instance_slot *s;

	pthread_mutex_lock(&inst.lock);
	s = slot_of(dev);
	if (s)
		add(s, what, -n);
	pthread_mutex_unlock(&inst.lock);
}

/* What other processes have. Context: a node is open. */
void model_instance_others(struct model_device *dev, struct model_amount *others)
{
	struct simnpu_instance_slot *s;
	enum model_what what;

	pthread_mutex_lock(&inst.lock);
	s = slot_of(dev);
	for (what = 0; what < MODEL_WHATS; what++)
		others->of[what] = sum(dev, what, true) - (s ? amount(s, what) : 0);
	pthread_mutex_unlock(&inst.lock);
}
