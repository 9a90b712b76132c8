/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every step of a call: each call through the system-call seam and each call of
 * a device node is one, memory included. One step fails, or all from one on, and
 * what there was before is compared with what there is after.
 *
 * Included once by a test, after the harness.
 */
#ifndef SELFTESTS_RUNTIME_STEPS_H
#define SELFTESTS_RUNTIME_STEPS_H

#include <dirent.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "drivers/simnpu/simnpu.h"
#include "drivers/simnpu/simnpu_test.h"
#include "hal/handle.h"
#include "hal/sys_judge.h"
#include "selftests/runtime/rt_test.h"

/* ---- which steps fail ---------------------------------------------------------- */

#define STEP_NONE UINT32_MAX
/* For waits that are to end: longer than a machine that is busy may take. */
#define LONG_MS 20000

enum step_mode {
	STEP_FAIL,	/* one fails */
	STEP_AGAIN,	/* one was interrupted: EINTR, which nobody may notice */
	STEP_DRY,	/* from one on nothing is to be had: memory, descriptors, threads */
	STEP_LEFT,	/* one that gives something back to the device fails and does not do it */
	STEP_ALLOC,	/* the device finds no memory, or no thread, of the kind variant */
	STEP_TASK,	/* a task fails */
	STEP_FAULT,	/* a fault of the hardware, or another oddity, by the rule step_plan.rule */
	STEP_MODES
};

static const char *const step_mode_name[STEP_MODES] = {
	"fail", "again", "dry", "left", "alloc", "task", "fault",
};

/* Calls of a node are told apart from the process's. */
#define STEP_NODE 1000
#define STEP_NODE_OPEN (STEP_NODE + HAL_SYS_open)
#define STEP_NODE_CLOSE (STEP_NODE + HAL_SYS_close)
#define STEP_NODE_IOCTL (STEP_NODE + HAL_SYS_ioctl)
#define STEP_NODE_MMAP (STEP_NODE + HAL_SYS_mmap)
#define STEP_NODE_MUNMAP (STEP_NODE + HAL_SYS_munmap)
/* What the device made fail by itself. */
#define STEP_DEVICE 2000

/**
 * struct step_hit - the step that failed
 * @call: enum hal_sys_call, STEP_NODE_*, or STEP_DEVICE
 * @arg: of an ioctl its number, of a futex its operation
 * @code: the errno that it failed with
 */
struct step_hit {
	int call;
	unsigned long arg;
	int code;
};

/* Whose steps they are: the caller's, or those of the library's own threads. */
enum step_whose { STEP_MINE, STEP_THEIRS };

/* What fails: the library's threads look at it, too. */
static struct {
	_Atomic enum step_mode mode;
	uint32_t at;		/* 1: the next one; STEP_NONE: none */
	uint32_t variant;	/* of the errno */
	const char *rule;	/* STEP_FAULT: without nth= */
	_Atomic enum step_whose whose;
} step_plan;

/* Protects: @at and @variant of step_plan, step_hit, and that nothing is counted when disarmed. */
static pthread_mutex_t step_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool step_armed;
static _Atomic uint32_t step_count;
static _Atomic uint32_t step_hits;
static struct step_hit step_hit;	/* the first; written by whoever counts it */
static __thread bool step_mine, step_spared;

/* Those that the device makes fail by itself are not counted here. */
static bool step_by_device(void)
{
	return step_plan.mode == STEP_ALLOC || step_plan.mode == STEP_TASK ||
	       step_plan.mode == STEP_FAULT;
}

/* A thread of the library that has nothing to do sleeps and looks: these are no steps. */
static bool step_idles(int call, unsigned long arg)
{
	return call == HAL_SYS_futex && arg != FUTEX_WAKE;
}

static bool step_counts(int call, unsigned long arg)
{
	if (!atomic_load(&step_armed) || step_spared)
		return false;
	return step_plan.whose == STEP_MINE ? step_mine : !step_mine && !step_idles(call, arg);
}

/* Whether an ioctl gives something back, and which wants something. */
static bool step_gives(unsigned long request)
{
	switch (request) {
	case SIMNPU_IOCTL_CONTEXT_DESTROY:
	case SIMNPU_IOCTL_MEM_DESTROY:
	case SIMNPU_IOCTL_VM_RELEASE:
	case SIMNPU_IOCTL_QUEUE_DESTROY:
	case SIMNPU_IOCTL_EVENT_DESTROY:
	case SIMNPU_IOCTL_MODULE_UNLOAD:
	case SIMNPU_IOCTL_CALLBACK_STOP:
		return true;
	default:
		return false;
	}
}

static bool step_wants(int call, unsigned long arg)
{
	switch (call) {
	case STEP_NODE_IOCTL:
		return arg == SIMNPU_IOCTL_CONTEXT_CREATE || arg == SIMNPU_IOCTL_MEM_CREATE ||
		       arg == SIMNPU_IOCTL_MEM_REGISTER || arg == SIMNPU_IOCTL_QUEUE_CREATE ||
		       arg == SIMNPU_IOCTL_QUEUE_GROW || arg == SIMNPU_IOCTL_QUEUE_EXPORT ||
		       arg == SIMNPU_IOCTL_QUEUE_IMPORT || arg == SIMNPU_IOCTL_EVENT_CREATE ||
		       arg == SIMNPU_IOCTL_VM_RESERVE || arg == SIMNPU_IOCTL_VM_MAP ||
		       arg == SIMNPU_IOCTL_MODULE_LOAD || arg == SIMNPU_IOCTL_KERNEL_GET ||
		       arg == SIMNPU_IOCTL_NOTIFY;
	case STEP_NODE_OPEN:
	case STEP_NODE_MMAP:
	case HAL_SYS_open:
	case HAL_SYS_mmap:
	case HAL_SYS_mremap:
	case HAL_SYS_mprotect:
	case HAL_SYS_madvise:
	case HAL_SYS_mlock:
	case HAL_SYS_memfd_create:
	case HAL_SYS_eventfd:
	case HAL_SYS_dup:
	case HAL_SYS_fallocate:
	case HAL_SYS_lock:
	case HAL_SYS_socket:
	case HAL_SYS_bind:
	case HAL_SYS_connect:
	case HAL_SYS_sendmsg:
	case HAL_SYS_recvmsg:
	case HAL_SYS_thread_create:
	case HAL_SYS_alloc:
	case HAL_SYS_dlopen:
		return true;
	default:
		return false;
	}
}

/* What the wrappers of hal/sys.c repeat. */
static bool step_repeats(int call)
{
	switch (call) {
	case STEP_NODE_OPEN:
	case STEP_NODE_IOCTL:
	case HAL_SYS_open:
	case HAL_SYS_ioctl:
	case HAL_SYS_mprotect:
	case HAL_SYS_madvise:
	case HAL_SYS_mlock:
	case HAL_SYS_memfd_create:
	case HAL_SYS_eventfd:
	case HAL_SYS_dup:
	case HAL_SYS_fstat:
	case HAL_SYS_fallocate:
	case HAL_SYS_lock:
	case HAL_SYS_socket:
	case HAL_SYS_bind:
	case HAL_SYS_connect:
	case HAL_SYS_accept:
	case HAL_SYS_sendmsg:
	case HAL_SYS_recvmsg:
	case HAL_SYS_poll:
	case HAL_SYS_read:
	case HAL_SYS_write:
	case HAL_SYS_futex:
	case HAL_SYS_membarrier:
		return true;
	default:
		return false;
	}
}

static int step_code(int call, unsigned long arg)
{
	static const int of_ioctl[] = { EIO, ENOMEM, ENODEV };
	static const int of_open[] = { EMFILE, EACCES, ENODEV };

	if (step_plan.mode == STEP_AGAIN)
		return call == STEP_NODE_IOCTL && step_plan.variant ? EAGAIN : EINTR;
	if (step_plan.mode == STEP_DRY && call == STEP_NODE_IOCTL)
		return ENOMEM;
	switch (call) {
	case STEP_NODE_IOCTL:
		return of_ioctl[step_plan.variant % 3];
	case STEP_NODE_OPEN:
	case HAL_SYS_open:
		return of_open[step_plan.variant % 3];
	case HAL_SYS_futex:
		/* only a wait: that it is to look again */
		return EAGAIN;
	default:
		return hal_sys_call_errno((unsigned int)call % STEP_NODE);
	}
}

/* Counts a call, if it is a step of this mode; the errno that it is to fail with, or 0. */
static int step_now(int call, unsigned long arg)
{
	bool gives = call == STEP_NODE_IOCTL && step_gives(arg);
	int code = 0;
	uint32_t n;

	if (!step_counts(call, arg) || step_by_device())
		return 0;
	if ((step_plan.mode == STEP_DRY && !step_wants(call, arg)) ||
	    (step_plan.mode == STEP_AGAIN && !step_repeats(call)) ||
	    (step_plan.mode == STEP_LEFT && !gives))
		return 0;
	pthread_mutex_lock(&step_lock);
	if (atomic_load(&step_armed)) {
		n = atomic_fetch_add(&step_count, 1) + 1;
		if (n == step_plan.at || (n > step_plan.at && step_plan.mode == STEP_DRY))
			code = step_code(call, arg);
		if (code && !atomic_fetch_add(&step_hits, 1))
			step_hit = (struct step_hit){ call, arg, code };
	}
	pthread_mutex_unlock(&step_lock);
	return code;
}

static void step_judge(enum hal_sys_call call, unsigned long arg, struct hal_sys_verdict *v)
{
	v->code = step_now((int)call, arg);
}

/* ---- the node ---------------------------------------------------------------------- */

#define STEP_NODE_FAILS(call, arg, failed)		\
	do {						\
		int code_ = step_now(call, arg);	\
		if (code_) {				\
			errno = code_;			\
			return failed;			\
		}					\
	} while (0)

static int node_open(const char *path, int flags, unsigned int mode)
{
	STEP_NODE_FAILS(STEP_NODE_OPEN, 0, -1);
	return simnpu_model_sys.open(path, flags, mode);
}

static int node_close(int fd)
{
	int code = step_now(STEP_NODE_CLOSE, 0), rc = simnpu_model_sys.close(fd);

	errno = code ? code : errno;
	return code ? -1 : rc;
}

/*
 * What gives something back does so even if it says that it failed, but for STEP_LEFT. Where the
 * steps of the library's threads count, it is they who run all tasks, not who waits for them.
 */
static int node_ioctl(int fd, unsigned long request, void *arg)
{
	int code = step_now(STEP_NODE_IOCTL, request), rc = -1;
	bool gives = step_gives(request) || (request == SIMNPU_IOCTL_VM_UNMAP && code != ENOMEM);
	struct simnpu_wait w;

	if (request == SIMNPU_IOCTL_WAIT && step_plan.whose == STEP_THEIRS) {
		w = *(struct simnpu_wait *)arg;
		w.flags |= SIMNPU_WAIT_NO_BORROW;
		arg = &w;
	}
	if (!code || (gives && step_plan.mode == STEP_FAIL))
		rc = simnpu_model_sys.ioctl(fd, request, arg);
	errno = code ? code : errno;
	return code ? -1 : rc;
}

static void *node_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	STEP_NODE_FAILS(STEP_NODE_MMAP, 0, MAP_FAILED);
	return simnpu_model_sys.mmap(addr, size, prot, flags, fd, offset);
}

static int node_munmap(void *addr, size_t size)
{
	int code = step_now(STEP_NODE_MUNMAP, 0), rc = simnpu_model_sys.munmap(addr, size);

	errno = code ? code : errno;
	return code ? -1 : rc;
}

static const struct hal_sys_ops step_node = {
	.open = node_open,
	.close = node_close,
	.ioctl = node_ioctl,
	.mmap = node_mmap,
	.munmap = node_munmap,
};

/* Before anything else of the library runs. */
static void steps_install(void)
{
	simnpu_sys = &step_node;
	hal_sys_judge_set(step_judge);
}

/* Sets the rule of the device's own failures so that number @at from now on is hit. */
static void step_rule(uint32_t at)
{
	char rule[96];

	if (step_plan.mode == STEP_ALLOC)
		simnpu_test_fail(step_plan.variant, at, 1, ENOMEM);
	else if (snprintf(rule, sizeof(rule), "%s,nth=%u", step_plan.mode == STEP_TASK ?
			  "task,code=ENOMEM" : step_plan.rule, at) < 0 ||
		 simnpu_fault_set(rule, NULL))
		abort();
}

/* Ends it; how often the device's own failures were asked for since it was set. */
static uint32_t step_rule_end(void)
{
	struct simnpu_fault_rule r;

	if (step_plan.mode == STEP_ALLOC)
		return simnpu_test_fail(step_plan.variant, 0, 0, 0);
	return simnpu_fault_end(&r, 1) ? (uint32_t)r.seen : 0;
}

static void step_arm(enum step_mode mode, uint32_t variant, uint32_t at, enum step_whose whose)
{
	pthread_mutex_lock(&step_lock);
	atomic_store(&step_count, 0);
	atomic_store(&step_hits, 0);
	step_hit = (struct step_hit){ .call = -1 };
	step_plan.mode = mode;
	step_plan.variant = variant;
	step_plan.at = at;
	step_plan.whose = whose;
	pthread_mutex_unlock(&step_lock);
	step_mine = true;
	if (step_by_device())
		step_rule(at);
	atomic_store(&step_armed, true);
}

/* What the device has seen so far is counted; where it goes on, it does so from there. */
static void step_note_seen(void)
{
	uint32_t seen = step_rule_end(), n = atomic_fetch_add(&step_count, seen) + seen;

	if (n >= step_plan.at && !atomic_exchange(&step_hits, 1))
		step_hit = (struct step_hit){ STEP_DEVICE, step_plan.variant, ENOMEM };
}

/* True: a step failed. */
static bool step_disarm(void)
{
	pthread_mutex_lock(&step_lock);
	atomic_store(&step_armed, false);
	pthread_mutex_unlock(&step_lock);
	step_mine = false;
	if (step_by_device())
		step_note_seen();
	return atomic_load(&step_hits);
}

/* For the helpers of a call, which are no part of it: the record stays the call's. */
static void step_spare(bool on)
{
	static __thread struct hal_error record;

	if (on == step_spared)
		return;
	step_spared = on;
	if (on)
		record = *hal_error_last();
	else if (record.code)
		hal_fail_record(&record);
	else
		npu_error_clear();
	/* tasks run when they run: those of helpers fail, too */
	if (!atomic_load(&step_armed) || !step_by_device() || step_plan.mode == STEP_TASK)
		return;
	if (on)
		step_note_seen();
	else if (atomic_load(&step_count) < step_plan.at)
		step_rule(step_plan.at - atomic_load(&step_count));
}

static const char *step_hit_name(const struct step_hit *h, char *buf, size_t size)
{
	const char *name = hal_sys_call_name((unsigned int)h->call % STEP_NODE);

	if (h->call == STEP_DEVICE && step_plan.mode == STEP_FAULT)
		snprintf(buf, size, "%s", step_plan.rule);
	else if (h->call == STEP_DEVICE)
		snprintf(buf, size, "%s: errno %d", step_mode_name[step_plan.mode], h->code);
	else if (h->call == STEP_NODE_IOCTL)
		snprintf(buf, size, "ioctl 0x%02lx: errno %d", h->arg & 0xff, h->code);
	else
		snprintf(buf, size, "%s%s: errno %d", h->call >= STEP_NODE ? "node " : "",
			 name ? name : "?", h->code);
	return buf;
}

/* ---- what there is ----------------------------------------------------------------- */

#define STEP_DEVICES 2

/**
 * struct census - what must not grow
 * @handles: live handles by type
 * @mem: bytes of device memory by device, as the device counts them
 * @obj: the device's own objects: opens, contexts, queues, events, mems, modules
 * @used: bytes of device memory that hal counts, by device
 * @locked: bytes that are locked in RAM
 * @fds: open descriptors
 * @threads: threads but the engines'
 * @engines: engine threads, which come at need
 */
struct census {
	uint32_t handles[HAL_HANDLE_TYPES];
	uint64_t mem[STEP_DEVICES];
	uint32_t obj[STEP_DEVICES][6];
	uint64_t used[STEP_DEVICES];
	uint64_t locked;
	uint32_t fds;
	uint32_t threads;
	uint32_t engines;
};

static uint32_t entries_of(const char *path)
{
	DIR *d = opendir(path);
	uint32_t n = 0;

	if (!d)
		return 0;
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static uint64_t locked_bytes(void)
{
	char line[128];
	unsigned long kib = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmLck: %lu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return (uint64_t)kib << 10;
}

/* All of it but what the device counts; that is zero when it is closed. */
static void take_census(struct census *c)
{
	struct simnpu_test_device d;
	uint32_t i, t;

	memset(c, 0, sizeof(*c));
	for (t = 1; t < HAL_HANDLE_TYPES; t++)
		c->handles[t] = hal_handle_count((enum hal_handle_type)t);
	for (i = 0; i < STEP_DEVICES; i++) {
		simnpu_test_device(i, &d);
		c->mem[i] = d.mem_used;
		c->obj[i][0] = d.opens;
		c->obj[i][1] = d.contexts;
		c->obj[i][2] = d.queues;
		c->obj[i][3] = d.events;
		c->obj[i][4] = d.mems;
		c->obj[i][5] = d.modules;
		c->engines += d.threads;
	}
	c->locked = locked_bytes();
	c->fds = entries_of("/proc/self/fd");
	/* ThreadSanitizer has one of its own, from the first that is made on */
	c->threads = NPU_TEST_TSAN ? 0 : entries_of("/proc/self/task") - c->engines;
	c->engines = 0;
}

static const char *const census_name[] = {
	"handles", "device memory", "opens", "contexts", "queues", "timed events", "memories",
	"modules", "locked bytes", "descriptors", "threads",
};

/*
 * What there is more than before, by up to what a call that succeeds may leave; NULL: nothing.
 * What the device keeps counts only if asked for.
 */
static const char *census_grown(const struct census *was, const struct census *is,
				const struct census *may, bool device)
{
	static const struct census nothing;
	uint32_t i, k;

	may = may ? may : &nothing;
	for (i = 1; i < HAL_HANDLE_TYPES; i++)
		if (is->handles[i] != was->handles[i] &&
		    is->handles[i] != was->handles[i] + may->handles[i])
			return census_name[0];
	for (i = 0; device && i < STEP_DEVICES; i++) {
		if (is->mem[i] != was->mem[i] && is->mem[i] != was->mem[i] + may->mem[i])
			return census_name[1];
		for (k = 0; k < 6; k++)
			if (is->obj[i][k] != was->obj[i][k] &&
			    is->obj[i][k] != was->obj[i][k] + may->obj[i][k])
				return census_name[2 + k];
	}
	if (device && is->locked != was->locked && is->locked != was->locked + may->locked)
		return census_name[8];
	if (is->fds != was->fds && is->fds != was->fds + may->fds)
		return census_name[9];
	if ((int32_t)(is->threads - was->threads) > 0 && is->threads != was->threads + may->threads)
		return census_name[10];
	return NULL;
}

/*
 * The same of now. A thread that was joined, or ends by itself, may be there a little longer; so
 * may the queue of a stream that was destroyed as the thread for files told it what it had done.
 */
static const char *census_settled(const struct census *was, const struct census *may, bool device)
{
	const char *grown;
	struct census is;
	int ms;

	for (ms = 0;; ms++) {
		take_census(&is);
		grown = census_grown(was, &is, may, device);
		if ((grown != census_name[10] && grown != census_name[4]) || ms == LONG_MS)
			return grown;
		usleep(1000);
	}
}

/* What a call that succeeds adds. */
static inline void census_minus(const struct census *is, const struct census *was, struct census *d)
{
	uint32_t i, k;

	memset(d, 0, sizeof(*d));
	for (i = 0; i < HAL_HANDLE_TYPES; i++)
		d->handles[i] = is->handles[i] - was->handles[i];
	for (i = 0; i < STEP_DEVICES; i++) {
		d->mem[i] = is->mem[i] - was->mem[i];
		for (k = 0; k < 6; k++)
			d->obj[i][k] = is->obj[i][k] - was->obj[i][k];
	}
	d->locked = is->locked - was->locked;
	d->fds = is->fds - was->fds;
	d->threads = is->threads - was->threads;
}

/* ---- children ------------------------------------------------------------------------ */

/**
 * struct step_report - what a child has found, in memory that it shares with the test
 * @at: the step that is tried
 * @steps: steps that were tried
 * @borne: those that the call bore
 * @wrong: things that were wrong
 * @seen: steps that the call had, as it was
 * @refused: it was refused though nothing failed
 * @done: it came through without a failing step
 * @hit: the last step that failed
 * @say: lines about what was wrong
 */
struct step_report {
	uint32_t at;
	uint32_t steps;
	uint32_t borne;
	uint32_t wrong;
	uint32_t seen;
	bool refused;
	bool done;
	struct step_hit hit;
	char say[2048];
};

static struct step_report *step_report;

static void steps_share(void)
{
	step_report = mmap(NULL, sizeof(*step_report), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

__attribute__((format(printf, 1, 2))) static void step_wrong(const char *fmt, ...)
{
	size_t len = strlen(step_report->say);
	char hit[64];
	va_list ap;

	step_report->wrong++;
	if (len > sizeof(step_report->say) - 256)
		return;
	len += (size_t)snprintf(step_report->say + len, 96, "#   step %u (%s): ", step_report->at,
				step_hit_name(&step_report->hit, hit, sizeof(hit)));
	va_start(ap, fmt);
	len += (size_t)vsnprintf(step_report->say + len, 140, fmt, ap);
	va_end(ap);
	strcpy(step_report->say + len, "\n");
}

/* The answer of a call at whose step something failed: the record says the same, with a text. */
static void step_check_record(int rc)
{
	struct npu_error e = last_error();

	if (e.code != rc || !e.text[0] || !e.op[0])
		step_wrong("returns %d, the record says %d \"%s: %s\"", rc, e.code, e.op, e.text);
}

/* Runs a function in a child; true: it came back. What it found is in step_report. */
static bool step_child(void (*fn)(const void *arg), const void *arg, unsigned int seconds)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		alarm(seconds * npu_test_slower());
		fn(arg);
		npu_test_leave();
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
	    WEXITSTATUS(status)) {
		step_wrong(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "hangs"
			   : "the process ends with status 0x%x", status);
		return false;
	}
	return true;
}

#endif /* SELFTESTS_RUNTIME_STEPS_H */
