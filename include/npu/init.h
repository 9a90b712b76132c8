/* SPDX-License-Identifier: MIT */
/*
 * The library's life: initialisation, finalization, hooks and what is called at
 * the end.
 */
#ifndef NPU_INIT_H
#define NPU_INIT_H

#include "npu/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NPU_VERSION_MAJOR 0
#define NPU_VERSION_MINOR 1
#define NPU_VERSION_PATCH 0
/** NPU_VERSION - as npu_version() gives it */
#define NPU_VERSION (NPU_VERSION_MAJOR << 16 | NPU_VERSION_MINOR << 8 | NPU_VERSION_PATCH)

/**
 * npu_version() - version of the library
 *
 * Context: any thread, any state; initialises nothing.
 * Return: major << 16 | minor << 8 | patch.
 */
NPU_API uint32_t npu_version(void);

/**
 * npu_version_string() - version of the library as text, and what was built in
 *
 * Context: any thread, any state; initialises nothing.
 * Return: a static string.
 */
NPU_API const char *npu_version_string(void);

/** enum npu_state - states of the library in this process */
enum npu_state {
	NPU_STATE_UNINIT = 0,		/* not initialised, or finalized */
	NPU_STATE_INITIALIZING = 1,
	NPU_STATE_READY = 2,
	NPU_STATE_FINALIZING = 3,
	NPU_STATE_FAILED = 4,		/* an initialisation failed; another may be tried */
	NPU_STATE_FINAL = 5,		/* the process is exiting */
	NPU_STATE_FORKED = 6,		/* child of a fork, after the parent was initialised */
};

/**
 * npu_state_get() - the state now
 *
 * Context: any thread, any state; initialises nothing.
 * Return: enum npu_state.
 */
NPU_API enum npu_state npu_state_get(void);

/**
 * npu_init() - initialise the library
 *
 * Chooses the driver, reads the options, runs the hooks. Opens no device and
 * starts no thread. Calls count: each needs its npu_finalize(). Calls that need
 * the library do it by themselves, once and not counted, unless the option
 * `lazy_init` is off.
 *
 * Context: any thread; others that need the library wait until it is done. From inside a
 * hook that it runs: counts, and returns 0.
 * Return: 0, -EINVAL (an option has a bad value), -ENODEV (no driver finds a device), -ENOMEM,
 * -ECHILD, -ESHUTDOWN, -EDEADLK (inside a callback of a stream), or what a hook returned. After
 * a failure all is as before, and it can be tried again.
 */
NPU_API int npu_init(void);

/**
 * npu_finalize() - undo one npu_init(), and the whole with the last
 * @timeout_ms: how long to wait for work that is queued
 *
 * The last one runs the release callbacks, then ends events, streams, memory,
 * contexts and devices, in this order. Handles and device pointers are stale
 * afterwards. npu_init() works again.
 *
 * Where nothing is initialised it returns 0. Where the library was initialised by need alone
 * one call finalizes.
 *
 * Context: any thread; calls of others give -ESHUTDOWN while it runs.
 * Return: 0; -ETIMEDOUT: work did not end in time; it was abandoned with its
 * device, and all else was finalized; -EDEADLK (inside a callback, a hook, or an observer of a
 * restart), -ECHILD, -ESHUTDOWN.
 */
NPU_API int npu_finalize(int64_t timeout_ms);

/* When a release callback runs; any number from 0 to 10 is allowed. */
#define NPU_RELEASE_FIRST 0
#define NPU_RELEASE_MIDDLE 5
#define NPU_RELEASE_LAST 10

/**
 * npu_release_register() - have a function called when the library is finalized
 * @fn: the function; what it returns is logged when it is not 0
 * @arg: for it
 * @priority: 0 (first) to 10 (last); in order of registration within one
 *
 * Each is called exactly once, with all devices still usable, and is then
 * forgotten. One that fails or registers another does not stop the rest; one
 * registered meanwhile is called in the same run. Initialises nothing.
 * Context: any; it is called by the thread that finalizes, with no lock held.
 * Return: 0, -EINVAL, -ENOMEM, -ESHUTDOWN (exiting), -ECHILD.
 */
NPU_API int npu_release_register(int (*fn)(void *arg), void *arg, int priority);
/**
 * npu_release_unregister() - forget the newest registration of a function and argument
 * @fn: the function
 * @arg: for it
 *
 * Return: 0, -EINVAL (NULL), -ENOENT (not registered, or already called).
 */
NPU_API int npu_release_unregister(int (*fn)(void *arg), void *arg);

/**
 * npu_hook_init() - have a function called at the end of each initialisation
 * @fn: the function; a result other than 0 makes the initialisation fail with it
 * @arg: for it
 *
 * In order of registration; for ever. If the library is ready, it is called at once, and its
 * result returned; a result other than 0 leaves it unregistered.
 * Return: 0, -EINVAL, -ENOMEM, -ESHUTDOWN, -ECHILD.
 */
NPU_API int npu_hook_init(int (*fn)(void *arg), void *arg);

/** enum npu_sync_kind - what a thread waits for */
enum npu_sync_kind {
	NPU_SYNC_EVENT = 0,
	NPU_SYNC_STREAM = 1,
	NPU_SYNC_DEVICE = 2,
	NPU_SYNC_COPY = 3,	/* a blocking copy or fill */
};

/**
 * typedef npu_sync_fn - told of a host thread's wait
 * @kind: what it waits for
 * @handle: handle of the stream or event; ordinal of the device
 * @done: 0 before the wait, 1 after it
 * @result: what the wait returned; 0 before
 * @arg: from the registration
 */
typedef void npu_sync_fn(enum npu_sync_kind kind, uint64_t handle, int done, int result, void *arg);

/**
 * npu_hook_sync() - be told of every wait of a host thread (for profilers)
 * @fn: called in the waiting thread; NULL: no longer
 * @arg: for it
 *
 * One function at a time.
 * Context: any thread, any state; initialises nothing.
 * Return: 0, -EBUSY (there is another one), -ENOMEM.
 */
NPU_API int npu_hook_sync(npu_sync_fn *fn, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* NPU_INIT_H */
