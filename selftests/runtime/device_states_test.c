// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every public function in every state of a device: one answer each. What the
 * calls work on was made while all was well.
 */
#include "selftests/npu_kselftest.h"

#include "drivers/simnpu/simnpu_test.h"
#include "hal/device.h"
#include "selftests/fakes/driver.h"

static const char *module_path;
#define GOOD_MODULE module_path
#include "selftests/runtime/calls_env.h"

enum state { CLOSED, OPEN, FAULTED, STOPPED, RESTARTED, LOST, STATES };

static const char *const state_names[] = {
	"closed", "open", "faulted", "stopped", "restarted", "lost",
};

/* In the order of enum state. RESTARTED: with what was made before. */
#define SAME { 0, 0, 0, 0, 0, 0 }
#define ASKED { 0, 0, 0, 0, 0, -ENODEV }
#define WORK { 0, 0, -EIO, -ESHUTDOWN, 0, -ENODEV }
#define OLD { -ESTALE, 0, -EIO, -ESHUTDOWN, -ESTALE, -ENODEV }
#define OLD_ASKED { -ESTALE, 0, 0, 0, -ESTALE, 0 }
#define OLD_SPACE { -ESTALE, 0, -EINVAL, -EINVAL, -ESTALE, -EINVAL }
#define KEPT { -ESTALE, 0, 0, 0, 0, 0 }
#define KEPT_WORK { -ESTALE, 0, -EIO, -ESHUTDOWN, 0, -ENODEV }
#define MEMORY { -EINVAL, 0, 0, 0, 0, 0 }
#define MEMORY_WORK { -EINVAL, 0, -EIO, -ESHUTDOWN, 0, -ENODEV }
#define MEMORY_OLD { -EINVAL, 0, -EIO, -ESHUTDOWN, -ESTALE, -ENODEV }

static const struct answer {
	const char *name;
	int want[STATES];
} answers[] = {
	/* what a device has no say in */
	{ "npu_version", SAME }, { "npu_version_string", SAME }, { "npu_init", SAME },
	{ "npu_finalize", SAME }, { "npu_release_register", SAME },
	{ "npu_release_unregister", SAME }, { "npu_hook_init", SAME }, { "npu_hook_sync", SAME },
	{ "npu_option_set", SAME }, { "npu_option_get", SAME }, { "npu_option_at", SAME },
	{ "npu_last_error", SAME }, { "npu_error_clear", SAME }, { "npu_error_name", SAME },
	{ "npu_error_next", SAME }, { "npu_error_explain", SAME }, { "npu_tag_set", SAME },
	{ "npu_log_set_sink", SAME }, { "npu_guard_end", SAME },

	/* questions about a device, and choosing one */
	{ "npu_device_count", SAME }, { "npu_device_get_info", SAME },
	{ "npu_device_get_health", SAME }, { "npu_device_observe", SAME },
	{ "npu_device_unobserve", SAME }, { "npu_device_is_active", SAME },
	{ "npu_device_used", SAME }, { "npu_device_get", SAME }, { "npu_device_restore", SAME },
	{ "npu_device_set", SAME }, { "npu_device_exchange", SAME },
	{ "npu_device_can_access_peer", SAME }, { "npu_device_mem_info", ASKED },
	{ "npu_device_utilization", ASKED }, { "npu_device_time", ASKED },
	{ "npu_device_sync", WORK }, { "npu_device_sync_all", WORK },
	/* these are called for another device; for this one see below */
	{ "npu_device_stop", SAME }, { "npu_device_restart", SAME }, { "npu_device_reset", SAME },

	{ "npu_context_create", WORK }, { "npu_context_destroy", KEPT },
	{ "npu_context_primary", SAME }, { "npu_context_get", SAME }, { "npu_context_set", KEPT },
	{ "npu_context_device", KEPT }, { "npu_context_sync", KEPT_WORK },

	{ "npu_stream_create", WORK }, { "npu_stream_destroy", OLD_ASKED },
	{ "npu_stream_query", OLD }, { "npu_stream_sync", OLD }, { "npu_stream_abort", OLD },
	{ "npu_stream_set_wait_mode", OLD_ASKED }, { "npu_stream_get_info", OLD_ASKED },
	{ "npu_stream_wait_event", OLD }, { "npu_stream_wait_stream", OLD },
	{ "npu_stream_callback", OLD }, { "npu_stream_fd", OLD },
	/* the library's own: they exist, or are made anew */
	{ "npu_stream_default", SAME }, { "npu_stream_secondary", SAME },
	{ "npu_stream_current", SAME }, { "npu_stream_set_current", SAME },
	{ "npu_stream_pool_get", WORK }, { "npu_stream_lease", WORK },
	{ "npu_stream_release", OLD_ASKED }, { "npu_stream_import", SAME },

	/* recording one without a time is no work, waiting for it is; it goes with its device */
	{ "npu_event_create", SAME }, { "npu_event_destroy", SAME }, { "npu_event_query", SAME },
	{ "npu_event_record", OLD_ASKED }, { "npu_event_sync", KEPT_WORK },
	{ "npu_event_elapsed", KEPT }, { "npu_event_timestamp", KEPT },
	{ "npu_event_device", KEPT }, { "npu_event_fd", KEPT_WORK },

	{ "npu_guard_device", SAME }, { "npu_guard_stream", OLD_ASKED },
	{ "npu_guard_secondary", WORK },

	/* of a device that shares nothing */
	{ "npu_ipc_export", MEMORY }, { "npu_ipc_allow", MEMORY }, { "npu_ipc_import", SAME },
	{ "npu_ipc_close", SAME }, { "npu_ipc_export_event", SAME },
	{ "npu_ipc_allow_event", SAME }, { "npu_ipc_import_event", SAME },
	{ "npu_ipc_export_event_fd", SAME }, { "npu_ipc_import_event_fd", SAME },
	{ "npu_malloc", WORK }, { "npu_malloc_host", WORK }, { "npu_host_register", WORK },
	{ "npu_free", MEMORY }, { "npu_free_host", MEMORY }, { "npu_host_unregister", MEMORY },
	{ "npu_pointer_get_info", SAME }, { "npu_mem_set_safe", MEMORY },
	{ "npu_host_alloc", WORK }, { "npu_host_free", SAME }, { "npu_host_is_pinned", SAME },
	{ "npu_host_record_stream", OLD_ASKED }, { "npu_host_empty_cache", SAME },
	{ "npu_host_get_stats", SAME }, { "npu_host_reset_peak", SAME },
	{ "npu_host_reset_accumulated", SAME },
	/* (where there is none to be had, none is given back) */
	{ "npu_workspace_get", OLD }, { "npu_workspace_put", OLD_SPACE },
	{ "npu_workspace_trim", SAME }, { "npu_workspace_get_stats", SAME },
	/* the cache: what it has it gives and takes back, whatever the device is */
	{ "npu_mem_alloc", OLD }, { "npu_mem_free", MEMORY },
	{ "npu_mem_record_stream", OLD_ASKED }, { "npu_mem_erase_stream", MEMORY },
	{ "npu_mem_get_block", MEMORY }, { "npu_mem_set_tag", MEMORY },
	{ "npu_mem_empty_cache", SAME }, { "npu_mem_set_fraction", SAME },
	{ "npu_mem_get_fraction", SAME }, { "npu_mem_get_stats", SAME },
	{ "npu_mem_reset_peak", SAME }, { "npu_mem_reset_accumulated", SAME },
	{ "npu_mem_history", SAME }, { "npu_mem_snapshot", SAME },
	{ "npu_mem_observe_oom", SAME }, { "npu_mem_unobserve_oom", SAME },
	{ "npu_mem_add_reclaim", SAME }, { "npu_mem_remove_reclaim", SAME },
	/* (it is awake; see below) */
	{ "npu_mem_sleep", WORK }, { "npu_mem_wake", SAME },
	{ "npu_mem_set_allocator", SAME },
	{ "npu_mem_pool_create", SAME }, { "npu_mem_pool_destroy", KEPT },
	{ "npu_mem_pool_begin", OLD_ASKED }, { "npu_mem_pool_end", KEPT },
	{ "npu_mem_pool_trim", KEPT }, { "npu_mem_pool_get_info", KEPT },

	{ "npu_vm_get_granularity", SAME }, { "npu_vm_reserve", WORK },
	{ "npu_vm_release", MEMORY }, { "npu_vm_create", WORK }, { "npu_vm_destroy", KEPT },
	{ "npu_vm_map", KEPT_WORK }, { "npu_vm_unmap", MEMORY },
	{ "npu_vm_protect", MEMORY_WORK }, { "npu_vm_export", KEPT_WORK },
	{ "npu_vm_import", WORK },

	/* what is open stays so; (a transfer of its own is work, one in a stream is of that) */
	{ "npu_file_open", SAME }, { "npu_file_close", SAME }, { "npu_file_size", SAME },
	{ "npu_file_read", MEMORY_WORK }, { "npu_file_write", MEMORY_WORK },
	{ "npu_file_read_async", OLD }, { "npu_file_write_async", OLD },
	{ "npu_weights_open", SAME }, { "npu_weights_close", SAME },
	{ "npu_weights_count", SAME }, { "npu_weights_info", SAME },
	{ "npu_weights_find", SAME }, { "npu_weights_verify", SAME },
	{ "npu_weights_write", SAME }, { "npu_weights_load", OLD },

	{ "npu_memcpy", MEMORY_WORK }, { "npu_memcpy_2d", MEMORY_WORK },
	{ "npu_memset", MEMORY_WORK }, { "npu_memcpy_async", MEMORY_OLD },
	{ "npu_memcpy_2d_async", MEMORY_OLD }, { "npu_memset_async", MEMORY_OLD },

	{ "npu_module_load", WORK }, { "npu_module_load_data", WORK },
	{ "npu_module_unload", KEPT }, { "npu_kernel_get", SAME }, { "npu_launch", OLD },
};

static const struct answer *answer_of(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if (!strcmp(answers[i].name, name))
			return &answers[i];
	return NULL;
}

/* ---- calls that need an object of their own, made while all was well ---- */

static struct {
	npu_stream stream, lease;
	npu_event event, pending;
	npu_context ctx;
	npu_module module;
	void *mem, *host, *page, *block, *used, *reserved, *mapped;
	npu_vm_memory vm, there;
	npu_mem_pool pool;
	int fd;
} spares;

static int destroy_stream(void)
{
	return npu_stream_destroy(spares.stream, 5000);
}

static int release_stream(void)
{
	return npu_stream_release(spares.lease);
}

static int destroy_event(void)
{
	return npu_event_destroy(spares.event);
}

static int destroy_context(void)
{
	return npu_context_destroy(spares.ctx, 5000);
}

static int unload_module(void)
{
	return npu_module_unload(spares.module, 5000);
}

static int free_memory(void)
{
	return npu_free(spares.mem);
}

static int free_host(void)
{
	return npu_free_host(spares.host);
}

static int unregister(void)
{
	return npu_host_unregister(spares.page);
}

static int free_block(void)
{
	return npu_mem_free(spares.block);
}

static int record_stream(void)
{
	return npu_mem_record_stream(spares.used, obj.s);
}

static int erase_stream(void)
{
	return npu_mem_erase_stream(spares.used, obj.s);
}

static int get_block(void)
{
	return npu_mem_get_block(spares.used, &obj.block);
}

static int set_tag(void)
{
	return npu_mem_set_tag(spares.used, 1);
}

static int sleep_here(void)
{
	int err = npu_mem_sleep(0, NULL, 0, 5000);

	return err ? err : npu_mem_wake(0);
}

static int wake_here(void)
{
	return npu_mem_wake(0);
}

static int release_addresses(void)
{
	return npu_vm_release(spares.reserved);
}

static int destroy_vm_memory(void)
{
	return npu_vm_destroy(spares.vm);
}

static int unmap_memory(void)
{
	return npu_vm_unmap(spares.mapped, VM_SIZE);
}

static int import_vm_memory(void)
{
	return npu_vm_import(spares.fd, 0, &obj.v_out, NULL);
}

static int export_vm_memory(void)
{
	return take_fd(npu_vm_export(obj.v, &obj.fd));
}

static int destroy_pool(void)
{
	return npu_mem_pool_destroy(spares.pool);
}

static int wait_for_other(void)
{
	return npu_stream_wait_stream(obj.s, obj.idle);
}

static const struct {
	const char *name;
	int (*fn)(void);
} instead[] = {
	{ "npu_stream_destroy", destroy_stream }, { "npu_stream_release", release_stream },
	{ "npu_event_destroy", destroy_event }, { "npu_context_destroy", destroy_context },
	{ "npu_module_unload", unload_module }, { "npu_free", free_memory },
	{ "npu_free_host", free_host }, { "npu_host_unregister", unregister },
	{ "npu_stream_wait_stream", wait_for_other },
	{ "npu_mem_free", free_block }, { "npu_mem_record_stream", record_stream },
	{ "npu_mem_erase_stream", erase_stream }, { "npu_mem_get_block", get_block },
	{ "npu_mem_set_tag", set_tag }, { "npu_mem_sleep", sleep_here },
	{ "npu_mem_wake", wake_here }, { "npu_vm_release", release_addresses },
	{ "npu_vm_destroy", destroy_vm_memory }, { "npu_vm_unmap", unmap_memory },
	{ "npu_mem_pool_destroy", destroy_pool },
	{ "npu_vm_import", import_vm_memory }, { "npu_vm_export", export_vm_memory },
};

static int do_call(const struct call *c)
{
	size_t i;

	for (i = 0; i < sizeof(instead) / sizeof(instead[0]); i++)
		if (!strcmp(instead[i].name, c->name))
			return if_built(c->name, instead[i].fn());
	return c->fn();
}

/* ---- the states ---- */

FIXTURE(device) {
	char path[64];
};

FIXTURE_VARIANT(device) {
	const char *driver;
};

FIXTURE_VARIANT_ADD(device, fake) {
	.driver = "fake",
};

FIXTURE_VARIANT_ADD(device, simnpu) {
	.driver = "simnpu",
};

static bool fake;

static void break_device(bool lost)
{
	if (fake && lost)
		fake_fault(fake_device(0), HAL_DEVICE_LOST, -ENODEV);
	else if (fake)
		fake_fault(fake_device(0), HAL_DEVICE_FAULTED, -ENOLINK);
	else
		simnpu_test_device_fault(0, lost ? "gone" : "link");
}

static struct npu_device_health health(int device)
{
	struct npu_device_health h = { .size = sizeof(h) };

	npu_device_get_health(device, &h);
	return h;
}

/* Of the caches, for the stream that the table's calls don't use; and virtual memory. */
static int make_memory(void)
{
	spares.fd = -1;
	return BUILT(npu_mem_alloc, 64, obj.idle, &spares.block) ||
	       BUILT(npu_mem_alloc, 64, obj.idle, &spares.used) ||
	       BUILT(npu_vm_create, 0, VM_SIZE, 0, &spares.vm) ||
	       BUILT(npu_vm_create, 0, VM_SIZE, 0, &spares.there) ||
	       BUILT(npu_vm_reserve, 0, VM_SIZE, 0, NULL, &spares.reserved) ||
	       BUILT(npu_vm_reserve, 0, VM_SIZE, 0, NULL, &spares.mapped) ||
	       BUILT(npu_vm_map, spares.mapped, VM_SIZE, spares.there, 0, NPU_VM_READ) ||
	       (fake && BUILT(npu_vm_export, obj.v, &spares.fd));
}

static int make_spares(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	npu_stream s;
	npu_kernel k;

	spares.page = page;
	/* what a context has of its own is made when it is first asked for */
	if (npu_context_set(obj.ctx) || npu_stream_current(0, &s) ||
	    npu_kernel_get(NPU_MODULE_BUILTIN, "nop", &k) || npu_context_set((npu_context){ 0 }))
		return -1;
	return make_memory() || BUILT(npu_mem_pool_create, 0, NULL, &spares.pool) ||
	       npu_stream_create(NULL, &spares.stream) || npu_stream_lease(0, 4, &spares.lease) ||
	       npu_event_create(0, &spares.event) || npu_event_create(0, &spares.pending) ||
	       npu_context_create(0, &spares.ctx) || npu_malloc(64, 0, &spares.mem) ||
	       npu_module_load(GOOD_MODULE, &spares.module) ||
	       npu_malloc_host(64, 0, &spares.host) || npu_host_register(page, 4096, 0) ||
	       npu_stream_default(0, &s) || npu_stream_secondary(0, &s) ||
	       npu_launch(obj.k, 1, NULL, 0, s) || npu_launch(obj.k, 1, NULL, 0, obj.s) ||
	       npu_launch(obj.k, 1, NULL, 0, obj.idle) ||
	       npu_event_record(obj.e, obj.idle) || npu_event_record(spares.pending, obj.idle) ||
	       npu_device_sync(0, 5000) || npu_event_sync(obj.e, 5000);
}

static int go_to(enum state state)
{
	switch (state) {
	case CLOSED:
		return npu_device_reset(0, 5000);
	case FAULTED:
		break_device(false);
		return health(0).state == NPU_DEVICE_FAULTED ? 0 : -1;
	case STOPPED:
		return npu_device_stop(0, 5000);
	case RESTARTED:
		break_device(false);
		return npu_device_restart(0, NPU_RESTART_REBUILD, 5000);
	case LOST:
		break_device(true);
		return health(0).state == NPU_DEVICE_LOST ? 0 : -1;
	default:
		return 0;
	}
}

/* What the state is called outside. */
static const int seen_as[] = {
	NPU_DEVICE_CLOSED, NPU_DEVICE_OPEN, NPU_DEVICE_FAULTED, NPU_DEVICE_STOPPED,
	NPU_DEVICE_OPEN, NPU_DEVICE_LOST,
};

FIXTURE_SETUP(device)
{
	FILE *f;

	fake = !strcmp(variant->driver, "fake");
	module_path = TEST_DATA("rt_kernels.so");
	if (fake) {
		snprintf(self->path, sizeof(self->path), "/tmp/npu-module-%d", getpid());
		f = fopen(self->path, "w");
		ASSERT_TRUE(f != NULL);
		fputs("FAKE", f);
		fclose(f);
		module_path = self->path;
	}
	OK(npu_option_set("driver", variant->driver));
	OK(npu_option_set("mem_growable", "1"));
	ASSERT_EQ(0, set_up()) TH_LOG("%s", last_error().text);
	ASSERT_EQ(0, make_spares()) TH_LOG("%s", last_error().text);
}

FIXTURE_TEARDOWN(device)
{
	simnpu_test_plug_reset();
	/* the state and what was left by calls that had to fail do not keep it from ending */
	EXPECT_EQ(0, npu_finalize(5000));
	EXPECT_EQ(0, npu_finalize(5000));
	if (fake) {
		close(spares.fd);
		EXPECT_EQ(0, fake_objects());
		unlink(self->path);
	}
}

static int want_of(const struct answer *a, enum state state)
{
	int want = is_built(a->name) ? a->want[state] : 0;

	/* a device of one process alone gives memory to no other, whatever its state */
	if (!fake && want != -ESTALE && is_built(a->name) &&
	    (!strcmp(a->name, "npu_vm_export") || !strcmp(a->name, "npu_vm_import")))
		return -EOPNOTSUPP;
	return want;
}

/* Calls all in a state; what they open is closed again. Returns how many were wrong. */
static int try_all(enum state state)
{
	const struct answer *a;
	int want, got, left, now, wrong = 0;
	struct npu_error e;
	size_t i;

	for (i = 0; i < CALLS_NR; i++) {
		/* a result of its own */
		if (!strcmp(calls[i].name, "npu_state_get"))
			continue;
		a = answer_of(calls[i].name);
		if (!a) {
			printf("# %s has no line\n", calls[i].name);
			wrong++;
			continue;
		}
		want = want_of(a, state);
		npu_error_clear();
		if (want < 0)
			fill_results(&calls[i]);
		got = do_call(&calls[i]);
		e = last_error();
		left = want < 0 ? left_behind(&calls[i]) : 0;
		now = health(0).state;
		if (state == CLOSED && now != NPU_DEVICE_CLOSED) {
			npu_device_reset(0, 5000);
			now = health(0).state;
		}
		if (got == want && !left && now == seen_as[state] &&
		    (want >= 0 || (e.code == want && e.text[0])))
			continue;
		wrong++;
		printf("# %s: %s: %d, expected %d; record %d %s%s; state %d\n", state_names[state],
		       calls[i].name, got, want, e.code, e.text,
		       left ? "; a result is not cleared" : "", now);
	}
	return wrong;
}

/* The other device goes on as if nothing were. */
static int other_works(void)
{
	struct npu_stream_attr attr = NPU_STREAM_ATTR_INIT;
	npu_stream s;
	int err;

	attr.device = 1;
	err = npu_stream_create(&attr, &s);
	if (!err)
		err = npu_stream_callback(s, nothing, NULL, 0);
	if (!err)
		err = npu_stream_sync(s, 5000);
	return err ? err : npu_stream_destroy(s, 5000);
}

/* After closing it, it is as new. */
static int works_again(void)
{
	npu_stream s;
	void *p;
	int err;

	simnpu_test_plug_reset();
	err = npu_device_reset(0, 5000);
	if (!err)
		err = npu_malloc(4096, 0, &p);
	if (!err)
		err = npu_memset(p, 1, 4096);
	if (!err)
		err = npu_stream_create(NULL, &s);
	if (!err)
		err = npu_stream_callback(s, nothing, NULL, 0);
	return err ? err : npu_stream_sync(s, 5000);
}

static void table(struct __test_metadata *_metadata, enum state which)
{
	ASSERT_EQ(0, go_to(which));
	ASSERT_EQ(seen_as[which], health(0).state);
	EXPECT_EQ(0, other_works());
	EXPECT_EQ(0, try_all(which));
	EXPECT_EQ(0, other_works());
	EXPECT_EQ(0, works_again());
	EXPECT_EQ(NPU_DEVICE_OPEN, health(0).state);
}

TEST_F(device, closed)
{
	table(_metadata, CLOSED);
}

TEST_F(device, open)
{
	table(_metadata, OPEN);
}

TEST_F(device, faulted)
{
	table(_metadata, FAULTED);
}

TEST_F(device, stopped)
{
	table(_metadata, STOPPED);
}

TEST_F(device, restarted)
{
	table(_metadata, RESTARTED);
}

TEST_F(device, lost)
{
	table(_metadata, LOST);
}

/* The calls that lead from state to state, and where to. */
TEST_F(device, transitions)
{
	static const struct {
		int code, to;
	} stop[STATES] = {
		[CLOSED] = { 0, NPU_DEVICE_CLOSED }, [OPEN] = { 0, NPU_DEVICE_STOPPED },
		[FAULTED] = { 0, NPU_DEVICE_STOPPED }, [STOPPED] = { 0, NPU_DEVICE_STOPPED },
		[RESTARTED] = { 0, NPU_DEVICE_STOPPED }, [LOST] = { -ENODEV, NPU_DEVICE_LOST },
	}, restart[STATES] = {
		[CLOSED] = { 0, NPU_DEVICE_CLOSED }, [OPEN] = { -EBUSY, NPU_DEVICE_OPEN },
		[FAULTED] = { 0, NPU_DEVICE_OPEN }, [STOPPED] = { 0, NPU_DEVICE_OPEN },
		[RESTARTED] = { -EBUSY, NPU_DEVICE_OPEN }, [LOST] = { -ENODEV, NPU_DEVICE_LOST },
	};
	void *p;
	int i, how;

	for (i = CLOSED; i < STATES; i++) {
		for (how = 0; how < 2; how++) {
			simnpu_test_plug_reset();
			OK(npu_device_reset(0, 5000));
			OK(npu_malloc(64, 0, &p));
			ASSERT_EQ(0, go_to((enum state)i));
			if (how) {
				EXPECT_EQ(stop[i].code, npu_device_stop(0, 5000));
				EXPECT_EQ(stop[i].to, health(0).state)
					TH_LOG("stop when %s", state_names[i]);
			} else {
				EXPECT_EQ(restart[i].code, npu_device_restart(0, 0, 5000));
				EXPECT_EQ(restart[i].to, health(0).state)
					TH_LOG("restart when %s", state_names[i]);
			}
			EXPECT_EQ(0, other_works());
			EXPECT_EQ(0, npu_device_reset(0, 5000));
			EXPECT_EQ(NPU_DEVICE_CLOSED, health(0).state);
		}
	}
}

/* An event that nobody has seen done answers as its stream does; one that was seen, is. */
TEST_F(device, events_that_nobody_looked_at)
{
	OK(go_to(FAULTED));
	EXPECT_EQ(0, npu_event_query(obj.e));
	EXPECT_EQ(0, npu_event_sync(obj.e, 5000));
	EXPECT_EQ(-EIO, npu_event_record(obj.t, obj.s));
	EXPECT_EQ(-EIO, npu_event_query(spares.pending));
	EXPECT_EQ(-EIO, npu_event_sync(spares.pending, 5000));
	OK(npu_device_stop(0, 5000));
	EXPECT_EQ(-ESHUTDOWN, npu_event_query(spares.pending));
	EXPECT_EQ(-ESHUTDOWN, npu_event_sync(spares.pending, 5000));
	OK(npu_device_restart(0, 0, 5000));
	EXPECT_EQ(0, npu_event_query(spares.pending));
	EXPECT_EQ(0, npu_event_sync(spares.pending, 5000));
}

/* What the cache has, it gives without asking the device; the stream must be there. */
TEST_F(device, blocks_at_hand)
{
	static const int want[STATES] = OLD_ASKED;
	void *p;
	int i;

	if (!is_built("npu_mem_alloc"))
		SKIP(return, "built without MEM_CACHE");
	for (i = CLOSED; i < STATES; i++) {
		simnpu_test_plug_reset();
		OK(npu_device_reset(0, 5000));
		OK(npu_stream_create(NULL, &obj.s));
		OK(npu_mem_alloc(64, obj.s, &p));
		OK(npu_mem_free(p));
		ASSERT_EQ(0, go_to((enum state)i));
		EXPECT_EQ(want[i], npu_mem_alloc(64, obj.s, &p)) TH_LOG("%s", state_names[i]);
		EXPECT_EQ(want[i] ? -EINVAL : 0, npu_mem_free(want[i] ? &p : p));
	}
}

/* Memory that sleeps: what wakes it, and what it says meanwhile. */
TEST_F(device, asleep)
{
	static const struct {
		int wake, sleep, alloc;
	} want[STATES] = {
		[CLOSED] = { 0, 0, -ESTALE }, [OPEN] = { 0, 0, -EBUSY },
		[FAULTED] = { -EIO, 0, -EBUSY }, [STOPPED] = { -ESHUTDOWN, 0, -EBUSY },
		[RESTARTED] = { 0, 0, -ESTALE }, [LOST] = { -ENODEV, 0, -EBUSY },
	};
	char text[8];
	void *p, *q;
	int i;

	if (!is_built("npu_mem_sleep"))
		SKIP(return, "built without MEM_SLEEP");
	for (i = CLOSED; i < STATES; i++) {
		simnpu_test_plug_reset();
		OK(npu_device_reset(0, 5000));
		OK(npu_stream_create(NULL, &obj.s));
		OK(npu_mem_alloc(64, obj.s, &p));
		OK(npu_memcpy(p, "kept", 5, NPU_COPY_AUTO));
		OK(npu_mem_sleep(0, NULL, 0, 5000));
		ASSERT_EQ(0, go_to((enum state)i));
		EXPECT_EQ(want[i].alloc, npu_mem_alloc(64, obj.s, &q));
		EXPECT_EQ(want[i].sleep, npu_mem_sleep(0, NULL, 0, 5000));
		EXPECT_EQ(want[i].wake, npu_mem_wake(0)) TH_LOG("%s", state_names[i]);
		if (i == FAULTED || i == STOPPED) {
			OK(npu_device_restart(0, 0, 5000));
			OK(npu_mem_wake(0));
		}
		if (i == OPEN || i == FAULTED || i == STOPPED) {
			OK(npu_memcpy(text, p, 5, NPU_COPY_AUTO));
			EXPECT_STREQ("kept", text);
		}
		EXPECT_EQ(i == CLOSED ? -EINVAL : 0, npu_mem_free(p));
	}
}

TEST(all_functions)
{
	EXPECT_EQ(0, table_differs_from_map());
	EXPECT_EQ(CALLS_NR, sizeof(answers) / sizeof(answers[0]) + 1);
	TH_LOG("%zu calls in %d states", sizeof(answers) / sizeof(answers[0]), STATES);
}

TEST_HARNESS_MAIN
