// SPDX-License-Identifier: MIT
/*
 * The library's life in the process: UNINIT, INITIALIZING, READY, FINALIZING and
 * UNINIT again; FAILED; FINAL on the way out.
 *
 * Calls look at one word, hal_ready(); whatever else there is to say about a
 * state is said in rt_enter_slow(). Calls that are on their way when the library
 * is finalized are not waited for: what they hold is counted by hal, handles
 * go stale, and the runtime's own state lies in static storage.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/alloc.h"
#include "runtime/file.h"

#define VERSION_TEXT2(a, b, c) #a "." #b "." #c
#define VERSION_TEXT1(a, b, c) VERSION_TEXT2(a, b, c)
#define VERSION_TEXT VERSION_TEXT1(NPU_VERSION_MAJOR, NPU_VERSION_MINOR, NPU_VERSION_PATCH)

/* By itself, as zeroes take no room in the file. */
static struct hal_device_info infos[RT_DEVICES];

struct rt_process rt = {
	.epoch = 1,
	.first = -1,
	.info = infos,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.hooks_end = &rt.hooks,
};

NPU_API uint32_t npu_version(void)
{
	return NPU_VERSION;
}

NPU_API const char *npu_version_string(void)
{
	return VERSION_TEXT
#if IS_ENABLED(CONFIG_DRV_SIMNPU)
		" simnpu"
#endif
#if IS_ENABLED(CONFIG_DRV_NULL)
		" null"
#endif
#if IS_ENABLED(CONFIG_STATIC)
		" static"
#endif
		;
}

/* The state as the program is told it. Takes no lock. */
enum npu_state rt_state(void)
{
	uint32_t s = hal_load_acquire(&rt.state);

	return hal_forked() ? NPU_STATE_FORKED : (enum npu_state)s;
}

NPU_API enum npu_state npu_state_get(void)
{
	return rt_state();
}

/* ---- forks ----------------------------------------------------------------------- */

/* What a child that has not inherited an initialised library may take: none is held in it. */
static void before_fork(void)
{
	pthread_mutex_lock(&rt.lock);
	rt_lists_lock();
	rt_sync_lock();
	rt_observers_lock();
	rt_mem_hooks_lock();
	rt_options_lock();
}

static void after_fork(void)
{
	rt_options_unlock();
	rt_mem_hooks_unlock();
	rt_observers_unlock();
	rt_sync_unlock();
	rt_lists_unlock();
	pthread_mutex_unlock(&rt.lock);
}

static void after_fork_child(void)
{
	rt_caches_fork_child();
	rt_pinned_fork_child();
	rt_workspace_fork_child();
	after_fork();
}

/* First of all constructors, so that those of the program can use the library. */
__attribute__((constructor(101))) static void set_up(void)
{
	int i;

	hal_cond_init(&rt.cond);
	for (i = 0; i < RT_DEVICES; i++) {
		pthread_mutex_init(&rt_devices[i].lock, NULL);
		hal_cond_init(&rt_devices[i].cond);
		hal_list_init(&rt_devices[i].contexts);
		hal_list_init(&rt_devices[i].idle);
		hal_list_init(&rt_devices[i].leased);
	}
	pthread_atfork(before_fork, after_fork, after_fork_child);
	hal_tls_set_free(free);
	hal_set_state_hook(rt_state_changed);
	rt_options_setup();
}

/* ---- coming up -------------------------------------------------------------------- */

static void set_state_locked(enum npu_state s)
{
	/* once the process is on its way out nothing changes that */
	if (hal_load_relaxed(&rt.state) != NPU_STATE_FINAL)
		hal_store_release(&rt.state, s);
	pthread_cond_broadcast(&rt.cond);
}

static void forget_devices(void)
{
	hal_store_release(&rt.fixed, false);
	hal_store_relaxed(&rt.first, -1);
	/* life before epoch: a thread that sees the new epoch resets itself */
	hal_add_relaxed(&rt.life, 1);
	atomic_fetch_add(&rt.epoch, 1);
}

/*
 * Asks what the devices are. One that is not there, though its node is, keeps nobody from using the
 * others. A call left over from before npu_finalize() may still read it.
 */
static int ask_devices(const struct rt_visible *v)
{
	struct hal_device_info info;
	struct rt_record before;
	uint32_t i;
	int err;

	rt_record_save(&before);
	for (i = 0; i < v->count; i++) {
		err = hal_driver_info(v->drv, v->index[i], &info);
		if (err == -ENODEV) {
			rt_record_restore(&before);
			memset(&info, 0, sizeof(info));
		} else if (err) {
			return err;
		}
		/* what changes all the time is not kept */
		info.mem_used = 0;
		if (memcmp(&info, &rt.info[i], sizeof(info)))
			rt.info[i] = info;
	}
	return 0;
}

/* All that an initialisation does, each step undone by the caller's come_down() if one fails. */
static int come_up(void)
{
	struct rt_visible v = { .count = 0 };
	int err;

	err = rt_options_load();
	if (err)
		return err;
	err = rt_visible_read(&v, "init");
	if (!err)
		err = ask_devices(&v);
	if (err)
		return err;
	if (memcmp(&v, &rt.visible, sizeof(v)))
		rt.visible = v;
	hal_store_release(&rt.fixed, true);
	return rt_hooks_run();
}

/* Undoes it. After an error work did not end, so that a child of a fork must still keep away. */
static int come_down(int64_t timeout_ms)
{
	uint64_t deadline = hal_sys_deadline(timeout_ms);
	int err = 0;

	if (hal_load_acquire(&rt.fixed))
		err = rt_devices_close(deadline);
	rt_io_stop(deadline);
	rt_files_close();
	rt_weights_close_all();
	rt_pools_drop(-1);
	rt_plug_drop(-1);
	rt_options_unload();
	forget_devices();
	return err;
}

static int initialise(bool *hung)
{
	struct rt_record why;
	int err = come_up();

	*hung = false;
	if (!err)
		return 0;
	rt_record_save(&why);
	*hung = come_down(hal_option_int(rt_options, "exit_timeout_ms"));
	rt_record_restore(&why);
	return err;
}

/* Whether to go and initialise; else *err is the answer. Waits for others that do. */
static bool my_turn_locked(const char *op, bool counted, int *err)
{
	for (;;) {
		switch ((enum npu_state)hal_load_relaxed(&rt.state)) {
		case NPU_STATE_READY:
			rt.inits += counted;
			*err = 0;
			return false;
		case NPU_STATE_INITIALIZING:
			if (hal_load_relaxed(&rt.owner) == rt_self()) {
				rt.inits += counted;
				*err = 0;
				return false;
			}
			pthread_cond_wait(&rt.cond, &rt.lock);
			break;
		case NPU_STATE_UNINIT:
		case NPU_STATE_FAILED:
			if (counted || hal_option_bool(rt_options, "lazy_init"))
				return true;
			*err = hal_fail(-ENOTCONN, op, "the library is not initialised, and the "
					"option lazy_init is off");
			return false;
		default:
			*err = hal_fail(-ESHUTDOWN, op, "the library is being finalized, or the "
					"process exits");
			return false;
		}
	}
}

/*
 * Forks wait for rt.lock: a child that inherits a state in which we are at work
 * is told that it must keep away, as arming and disarming go with the state.
 */
static int init(const char *op, bool counted)
{
	bool hung;
	int err;

	pthread_mutex_lock(&rt.lock);
	if (!my_turn_locked(op, counted, &err)) {
		pthread_mutex_unlock(&rt.lock);
		return err;
	}
	err = hal_fork_arm();
	if (err) {
		pthread_mutex_unlock(&rt.lock);
		return err;
	}
	rt.inits = counted;
	hal_store_release(&rt.owner, rt_self());
	set_state_locked(NPU_STATE_INITIALIZING);
	pthread_mutex_unlock(&rt.lock);

	err = initialise(&hung);

	pthread_mutex_lock(&rt.lock);
	hal_store_release(&rt.owner, 0);
	if (err)
		rt.inits = 0;
	if (err && !hung)
		hal_fork_disarm();
	set_state_locked(err ? NPU_STATE_FAILED : NPU_STATE_READY);
	if (hal_load_relaxed(&rt.state) == NPU_STATE_READY)
		hal_ready_set(true);
	else if (!err)
		err = hal_fail(-ESHUTDOWN, op, "the process exits");
	pthread_mutex_unlock(&rt.lock);
	return err;
}

NPU_API int npu_init(void)
{
	if (hal_in_callback())
		return hal_fail(-EDEADLK, "init", "inside a callback of a stream");
	if (hal_forked())
		return rt_gone("init");
	return init("init", true);
}

/* ---- what a call may do in other states than READY --------------------------------- */

/* -ECHILD or -ESHUTDOWN where nothing will ever work again, or not now; else 0. */
int rt_gone(const char *op)
{
	switch (rt_state()) {
	case NPU_STATE_FORKED:
		return hal_fail(-ECHILD, op, "the parent had initialised the library before it "
				"forked; start the child by exec, or initialise after the fork");
	case NPU_STATE_FINALIZING:
		if (hal_load_acquire(&rt.owner) == rt_self())
			return 0;
		return hal_fail(-ESHUTDOWN, op, "the library is being finalized");
	case NPU_STATE_FINAL:
		return hal_fail(-ESHUTDOWN, op, "the process exits");
	default:
		return 0;
	}
}

/* Whether the calling thread may use devices now. */
bool rt_allowed(void)
{
	return hal_ready() || (hal_load_acquire(&rt.owner) == rt_self() && !hal_forked());
}

/**
 * rt_enter_slow() - answer a call while the library is not ready
 * @op: the function
 *
 * Hooks and release callbacks may use the library; others wait for an initialisation that is
 * under way, or do one.
 * Return: 0, -ECHILD, -ESHUTDOWN, -ENOTCONN, or as npu_init().
 */
int rt_enter_slow(const char *op)
{
	int err = rt_gone(op);

	if (err || rt_allowed())
		return err;
	return init(op, false);
}

/* ---- going down ---------------------------------------------------------------------- */

/* Whether the caller is to finalize; else *err is the answer. */
static bool may_finalize_locked(int *err)
{
	while (hal_load_relaxed(&rt.state) == NPU_STATE_INITIALIZING &&
	       hal_load_relaxed(&rt.owner) != rt_self())
		pthread_cond_wait(&rt.cond, &rt.lock);
	*err = 0;
	switch ((enum npu_state)hal_load_relaxed(&rt.state)) {
	case NPU_STATE_READY:
		if (rt.inits <= 1)
			return true;
		rt.inits--;
		return false;
	case NPU_STATE_UNINIT:
	case NPU_STATE_FAILED:
		return false;
	case NPU_STATE_INITIALIZING:
		*err = hal_fail(-EDEADLK, "finalize", "inside a hook of the initialisation");
		return false;
	case NPU_STATE_FINALIZING:
		if (hal_load_relaxed(&rt.owner) == rt_self()) {
			*err = hal_fail(-EDEADLK, "finalize", "inside a release callback");
			return false;
		}
		/* fall through */
	default:
		*err = hal_fail(-ESHUTDOWN, "finalize", "it is being finalized already");
		return false;
	}
}

static void begin_end_locked(void)
{
	rt.inits = 0;
	hal_store_release(&rt.owner, rt_self());
	hal_ready_set(false);
	set_state_locked(NPU_STATE_FINALIZING);
}

NPU_API int npu_finalize(int64_t timeout_ms)
{
	int err;

	if (hal_forked())
		return rt_gone("finalize");
	err = rt_timeout_check(timeout_ms, "finalize");
	if (err)
		return err;
	if (hal_in_callback())
		return hal_fail(-EDEADLK, "finalize", "inside a callback of a stream");
	if (rt_restarts())
		return hal_fail(-EDEADLK, "finalize", "inside an observer of a restart");
	pthread_mutex_lock(&rt.lock);
	if (!may_finalize_locked(&err)) {
		pthread_mutex_unlock(&rt.lock);
		return err;
	}
	begin_end_locked();
	pthread_mutex_unlock(&rt.lock);

	rt_release_run();
	hal_store_release(&rt.owner, 0);
	err = come_down(timeout_ms);

	pthread_mutex_lock(&rt.lock);
	if (!err)
		hal_fork_disarm();
	set_state_locked(NPU_STATE_UNINIT);
	pthread_mutex_unlock(&rt.lock);
	return err;
}

/* ---- the end of the process ---------------------------------------------------------- */

/* Waits until no other thread initialises or finalizes, but not for long. */
static void settle_locked(int64_t timeout_ms)
{
	struct timespec until;
	uint64_t ns;
	uint32_t s;
	int err = 0;

	ns = hal_sys_deadline(timeout_ms);
	until.tv_sec = (time_t)(ns / 1000000000u);
	until.tv_nsec = (long)(ns % 1000000000u);
	do {
		s = hal_load_relaxed(&rt.state);
		if ((s != NPU_STATE_INITIALIZING && s != NPU_STATE_FINALIZING) ||
		    hal_load_relaxed(&rt.owner) == rt_self())
			return;
		err = pthread_cond_timedwait(&rt.cond, &rt.lock, &until);
	} while (!err);
}

/*
 * Runs after the exit handlers of the program, so that those can still use the library. Stops
 * submissions, waits a bounded time for what is queued, and frees nothing: other threads may
 * still be in a call.
 */
__attribute__((destructor(102))) static void at_exit(void)
{
	int64_t timeout_ms;
	bool ready;

	if (hal_forked())
		return;
	timeout_ms = hal_option_int(rt_options, "exit_timeout_ms");
	pthread_mutex_lock(&rt.lock);
	settle_locked(timeout_ms);
	ready = hal_load_relaxed(&rt.state) == NPU_STATE_READY;
	if (ready)
		begin_end_locked();
	pthread_mutex_unlock(&rt.lock);
	if (ready) {
		rt_release_run();
		/* a callback that calls exit() can't wait for its own stream */
		if (!hal_in_callback())
			rt_devices_drain(hal_sys_deadline(timeout_ms));
	}
	pthread_mutex_lock(&rt.lock);
	hal_ready_set(false);
	hal_store_release(&rt.owner, 0);
	hal_store_release(&rt.state, NPU_STATE_FINAL);
	pthread_cond_broadcast(&rt.cond);
	pthread_mutex_unlock(&rt.lock);
}
