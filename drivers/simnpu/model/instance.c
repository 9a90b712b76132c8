// SPDX-License-Identifier: MIT
/*
 * Named instances: devices that several processes of one user share. Who has how
 * much is in a file, which uapi/simnpu.h describes; a process that dies loses
 * its locks there, and what it had is free.
 */
#include <fcntl.h>
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
/* How long another one may take to set the file up. */
#define SETUP_NS 1000000000ull

struct model_instance model_instance = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

#define inst model_instance

_Atomic bool model_instance_on;

/* ---- the file ------------------------------------------------------------------ */

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
		model_instance_nap();
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
	inst = (struct model_instance){ .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };
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
