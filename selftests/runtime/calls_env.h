/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The table of calls.h as functions, with what they work on. Included once by a
 * test, after the harness.
 */
#ifndef SELFTESTS_RUNTIME_CALLS_ENV_H
#define SELFTESTS_RUNTIME_CALLS_ENV_H

#include <sys/mman.h>

#include "selftests/runtime/calls.h"
#include "selftests/runtime/rt_test.h"

#ifndef GOOD_MODULE
#define GOOD_MODULE TEST_DATA("rt_kernels.so")
#endif

/* Bytes of virtual memory: what the simulator takes at least. */
#define VM_SIZE (2u << 20)

/* A container that is there. */
#define CONTAINER TEST_SRCTREE "/samples/fashion_mnist/weights.bin"

/* What the calls work on; handles are stale where the library is not ready. */
static struct {
	npu_stream s, idle, s_out;
	npu_event e, t, never, e_out;
	npu_context ctx, ctx_out;
	npu_module module, m_out;
	npu_kernel k, k_out;
	npu_file file, f_out;
	npu_vm_memory v, there, v_out;
	npu_weights weights, w_out;
	npu_mem_pool pool, pool_out;
	struct npu_tensor_info tensor;
	struct npu_guard g, unused;
	struct npu_device_info info;
	struct npu_device_health health;
	struct npu_stream_info stream;
	struct npu_pointer_info pointer;
	struct npu_option_info option;
	char key[NPU_IPC_KEY_SIZE];
	struct npu_error error;
	struct npu_error_info explained;
	struct npu_mem_block block;
	struct npu_mem_stats stats;
	struct npu_workspace_stats spaces;
	struct npu_mem_pool_info pool_info;
	struct npu_host_stats host_stats;
	double fraction;
	void *p, *q, *out, *page, *va, *mapped;
	char text[64], path[64];
	size_t size;
	uint64_t u64;
	int64_t i64;
	uint32_t u32;
	int n, fd;
} obj;

/* A test that makes calls fail says here how those of the helpers are spared. */
static void (*calls_spare)(bool on) __attribute__((unused));

static void spare(bool on)
{
	if (calls_spare)
		calls_spare(on);
}

static int callback(void *arg)
{
	return 0;
}

/* Devices of one process alone share nothing. */
static int alone(int rc)
{
	return rc == -EOPNOTSUPP ? 0 : rc;
}

static void nothing(void *arg)
{
}

static void changed(int device, int from, int to, int cause, void *arg)
{
}

static int observe(void)
{
	uint64_t id;
	int err = npu_device_observe(changed, NULL, &id);

	return err ? err : npu_device_unobserve(id);
}

static void no_memory(const struct npu_mem_oom *oom, void *arg)
{
}

static int observe_oom(void)
{
	uint64_t id;
	int err = npu_mem_observe_oom(0, no_memory, NULL, &id);

	return err ? err : npu_mem_unobserve_oom(id);
}

/* One that is refused whether one may be set or not. */
static int no_allocator(void)
{
	const struct npu_mem_allocator a = { .size = sizeof(a) };
	int err = npu_mem_set_allocator(&a, NULL);

	return err == -EINVAL ? 0 : err;
}

static int give_nothing(int device, size_t size, void *arg)
{
	return 0;
}

static int add_reclaim(void)
{
	uint64_t id;
	int err = npu_mem_add_reclaim(give_nothing, NULL, &id);

	return err ? err : npu_mem_remove_reclaim(id);
}

static bool is_ready(void)
{
	return npu_state_get() == NPU_STATE_READY;
}

static npu_stream new_stream(void)
{
	npu_stream s = obj.s;

	spare(true);
	if (is_ready())
		npu_stream_create(NULL, &s);
	spare(false);
	return s;
}

static npu_stream new_lease(void)
{
	npu_stream s = obj.s;

	spare(true);
	if (is_ready())
		npu_stream_lease(0, 4, &s);
	spare(false);
	return s;
}

static npu_event new_event(void)
{
	npu_event e = obj.e;

	spare(true);
	if (is_ready())
		npu_event_create(0, &e);
	spare(false);
	return e;
}

/* Of an event that could be exported, and was not. */
static int allow_event(void)
{
	npu_event e = obj.e;
	int rc;

	spare(true);
	if (is_ready())
		npu_event_create(NPU_EVENT_IPC, &e);
	spare(false);
	rc = npu_ipc_allow_event(e, &(int32_t){ 1 }, 1);
	spare(true);
	if (is_ready() && e.h != obj.e.h)
		npu_event_destroy(e);
	spare(false);
	return rc == -ENOENT ? 0 : rc;
}

static npu_context new_context(void)
{
	npu_context c = obj.ctx;

	spare(true);
	if (is_ready())
		npu_context_create(0, &c);
	spare(false);
	return c;
}

static void *new_addresses(void)
{
	void *p = obj.va;

	spare(true);
	if (is_ready())
		npu_vm_reserve(0, VM_SIZE, 0, NULL, &p);
	spare(false);
	return p;
}

static npu_vm_memory new_vm_memory(void)
{
	npu_vm_memory v = obj.v;

	spare(true);
	if (is_ready())
		npu_vm_create(0, VM_SIZE, 0, &v);
	spare(false);
	return v;
}

/* What is mapped is unmapped again, and the other way round. */
static int and_unmap(int err)
{
	spare(true);
	if (!err)
		npu_vm_unmap(obj.va, VM_SIZE);
	spare(false);
	return err;
}

static int and_map(int err)
{
	spare(true);
	if (!err)
		npu_vm_map(obj.mapped, VM_SIZE, obj.there, 0, NPU_VM_READ);
	spare(false);
	return err;
}

static npu_file new_file(void)
{
	npu_file f = obj.file;

	spare(true);
	if (is_ready())
		npu_file_open(obj.path, NPU_FILE_READ, &f);
	spare(false);
	return f;
}

static npu_weights new_weights(void)
{
	npu_weights w = obj.weights;

	spare(true);
	if (is_ready())
		npu_weights_open(CONTAINER, &w);
	spare(false);
	return w;
}

static npu_mem_pool new_mem_pool(void)
{
	npu_mem_pool p = obj.pool;

	spare(true);
	if (is_ready())
		npu_mem_pool_create(0, NULL, &p);
	spare(false);
	return p;
}

/* Begun, and ended, too. */
static int begin_pool(void)
{
	int err = npu_mem_pool_begin(obj.pool, NPU_MEM_POOL_STREAM, obj.s);

	spare(true);
	if (!err)
		npu_mem_pool_end(obj.pool, NPU_MEM_POOL_STREAM, obj.s);
	spare(false);
	return err;
}

static int end_pool(void)
{
	int err;

	spare(true);
	if (is_ready())
		npu_mem_pool_begin(obj.pool, NPU_MEM_POOL_THREAD, NPU_STREAM_CURRENT);
	spare(false);
	err = npu_mem_pool_end(obj.pool, NPU_MEM_POOL_THREAD, NPU_STREAM_CURRENT);
	spare(true);
	if (err)
		npu_mem_pool_end(obj.pool, NPU_MEM_POOL_THREAD, NPU_STREAM_CURRENT);
	spare(false);
	return err;
}

static int write_weights(void)
{
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/tmp/npu-calls-%d", getpid());
	err = npu_weights_write(path, NULL, 0);
	unlink(path);
	return err;
}

/* Got, and given back, too. */
static int get_workspace(void)
{
	void *p;
	int err = npu_workspace_get(obj.s, 64, &p);

	spare(true);
	if (!err)
		npu_workspace_put(obj.s);
	npu_workspace_trim(0);
	spare(false);
	return err;
}

static int put_workspace(void)
{
	bool got;
	void *p;
	int err;

	spare(true);
	got = is_ready() && !npu_workspace_get(obj.s, 64, &p);
	spare(false);
	err = npu_workspace_put(obj.s);
	spare(true);
	if (err && got)
		npu_workspace_put(obj.s);
	npu_workspace_trim(0);
	spare(false);
	return err;
}

static int take_fd(int err)
{
	if (!err)
		close(obj.fd);
	return err;
}

static int end_of(int err)
{
	int end = npu_guard_end(&obj.g);

	return err ? err : end;
}

/* Of a call that can only be refused here: the refusal that is right is a success. */
static int not_here(int err)
{
	return err == -EOPNOTSUPP ? 0 : err;
}

static inline int no_text(const char *text, size_t size, void *arg)
{
	return 0;
}

/* A library without snapshots says so. */
static inline int if_shot(int err)
{
	return !IS_ENABLED(CONFIG_MEM_SNAPSHOT) && err == -EOPNOTSUPP ? 0 : err;
}

static int bad_image(int err)
{
	return err == -ENOEXEC ? 0 : err;
}

static int no_block(int err)
{
	return err == -EINVAL ? 0 : err;
}

#define DEFINE(name, expr) static int call_##name(void) { return if_built(#name, (expr)); }
CALLS(DEFINE, DEFINE, DEFINE)

enum class { CLASS_ANY, CLASS_NEED, CLASS_LIFE };

static const struct call {
	const char *name;
	int (*fn)(void);
	enum class class;
	const char *text;
} calls[] = {
#define ROW_ANY(name, expr) { #name, call_##name, CLASS_ANY, #expr },
#define ROW_NEED(name, expr) { #name, call_##name, CLASS_NEED, #expr },
#define ROW_LIFE(name, expr) { #name, call_##name, CLASS_LIFE, #expr },
	CALLS(ROW_ANY, ROW_NEED, ROW_LIFE)
};

#define CALLS_NR (sizeof(calls) / sizeof(calls[0]))

/* Results that the calls name, and what a failure leaves there: nothing of before. */
static const struct result {
	const char *text;
	void *at;
	size_t size;
	int64_t cleared;
} results[] = {
#define RESULT(field, cleared) { "&obj." #field, &obj.field, sizeof(obj.field), cleared }
	RESULT(s_out, 0), RESULT(e_out, 0), RESULT(ctx_out, 0), RESULT(module, 0),
	RESULT(m_out, 0), RESULT(k_out, 0), RESULT(f_out, 0), RESULT(v_out, 0), RESULT(w_out, 0),
	RESULT(pool_out, 0),
	RESULT(out, 0), RESULT(fraction, 0), RESULT(u64, 0), RESULT(i64, 0),
	RESULT(n, -1), RESULT(fd, -1),
};

#define RESULTS_NR (sizeof(results) / sizeof(results[0]))
#define BEFORE 0x55

static bool names(const struct call *c, const struct result *r)
{
	const char *at = strstr(c->text, r->text);

	return at && strchr(",)", at[strlen(r->text)]);
}

static void fill_results(const struct call *c)
{
	size_t i;

	for (i = 0; i < RESULTS_NR; i++)
		if (names(c, &results[i]))
			memset(results[i].at, BEFORE, results[i].size);
}

/* How many results of a call that failed are not cleared. */
static int left_behind(const struct call *c)
{
	int wrong = 0;
	size_t i;

	/* (the machine is little-endian, as all that the library runs on) */
	for (i = 0; i < RESULTS_NR; i++)
		wrong += names(c, &results[i]) &&
			 memcmp(results[i].at, &results[i].cleared, results[i].size) != 0;
	return wrong;
}

/* A file that is nowhere, and stays open: before anybody counts descriptors. */
static __attribute__((constructor)) void make_file_for_calls(void)
{
	int fd = memfd_create("calls", MFD_CLOEXEC);

	if (!ftruncate(fd, 1 << 20))
		snprintf(obj.path, sizeof(obj.path), "/proc/self/fd/%d", fd);
}

/* What needs no library. */
static void set_sizes(void)
{
	obj.info.size = sizeof(obj.info);
	obj.health.size = sizeof(obj.health);
	obj.stream.size = sizeof(obj.stream);
	obj.pointer.size = sizeof(obj.pointer);
	obj.option.size = sizeof(obj.option);
	obj.explained.size = sizeof(obj.explained);
	obj.block.size = sizeof(obj.block);
	obj.stats.size = sizeof(obj.stats);
	obj.spaces.size = sizeof(obj.spaces);
	obj.pool_info.size = sizeof(obj.pool_info);
	obj.host_stats.size = sizeof(obj.host_stats);
	obj.error.size = sizeof(obj.error);
	obj.tensor.size = sizeof(obj.tensor);
	obj.page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Makes something to work on, if it can be made. */
#define BUILT(call, ...) if_built(#call, call(__VA_ARGS__))

static inline int set_up(void)
{
	set_sizes();
	return npu_option_set("lazy_init", "0") || npu_init() ||
	       npu_stream_create(NULL, &obj.s) || npu_stream_create(NULL, &obj.idle) ||
	       npu_event_create(0, &obj.e) || npu_event_create(0, &obj.never) ||
	       npu_event_create(NPU_EVENT_TIMING, &obj.t) || npu_event_record(obj.t, obj.s) ||
	       npu_event_sync(obj.t, 5000) || npu_context_create(0, &obj.ctx) ||
	       npu_malloc(4096, 0, &obj.p) || npu_malloc(4096, 0, &obj.q) ||
	       BUILT(npu_vm_reserve, 0, VM_SIZE, 0, NULL, &obj.va) ||
	       BUILT(npu_vm_reserve, 0, VM_SIZE, 0, NULL, &obj.mapped) ||
	       BUILT(npu_vm_create, 0, VM_SIZE, 0, &obj.v) ||
	       BUILT(npu_vm_create, 0, VM_SIZE, 0, &obj.there) ||
	       BUILT(npu_vm_map, obj.mapped, VM_SIZE, obj.there, 0, NPU_VM_READ) ||
	       BUILT(npu_file_open, obj.path, NPU_FILE_READ | NPU_FILE_WRITE, &obj.file) ||
	       BUILT(npu_weights_open, CONTAINER, &obj.weights) ||
	       BUILT(npu_mem_pool_create, 0, NULL, &obj.pool) ||
	       npu_kernel_get(NPU_MODULE_BUILTIN, "nop", &obj.k);
}

/* Lines that the table lacks, of the functions that the version map lists, and lines too many. */
static inline int table_differs_from_map(void)
{
	char line[128], name[96];
	size_t i, listed = 0;
	int wrong = 0;
	bool found;
	FILE *f;

	f = fopen(TEST_SRCTREE "/libnpu.map", "r");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, " npu_%90[a-z0-9_];", name) != 1)
			continue;
		for (i = 0, found = false; i < CALLS_NR; i++)
			found |= !strcmp(calls[i].name + 4, name);
		if (!found)
			printf("# npu_%s has no line in calls.h\n", name);
		wrong += !found;
		listed++;
	}
	fclose(f);
	if (listed - (size_t)wrong != CALLS_NR)
		printf("# %zu lines in calls.h, %zu functions in libnpu.map\n", CALLS_NR, listed);
	return wrong + (listed - (size_t)wrong != CALLS_NR);
}

#endif /* SELFTESTS_RUNTIME_CALLS_ENV_H */
