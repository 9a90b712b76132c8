// SPDX-License-Identifier: MIT
/*
 * Options: the runtime's table, the values in force, and the public functions.
 *
 * Before the library is initialised a value is looked up each time it is asked
 * for; npu_init() checks all and keeps them until npu_finalize().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/alloc.h"

#define STR2(x) #x
#define STR(x) STR2(x)

enum {
	OPT_DRIVER,
	OPT_VISIBLE_DEVICES,
	OPT_LAZY_INIT,
	OPT_LOG_LEVEL,
	OPT_LOG_MASK,
	OPT_WAIT_MODE,
	OPT_OP_TIMEOUT_MS,
	OPT_LAUNCH_BLOCKING,
	OPT_EXIT_TIMEOUT_MS,
	OPT_STREAM_POOL_SIZE,
	OPT_STREAM_LEASE_MAX,
	OPT_IO_URING,
	OPT_IO_WINDOW,
	OPT_MEM_CACHING,
	OPT_MEM_GROWABLE,
	OPT_MEM_MAX_SPLIT,
	OPT_MEM_ROUNDING,
	OPT_MEM_GC,
	OPT_MEM_DIVISIONS,
	OPT_MEM_LARGE_SEGMENT,
	OPT_MEM_BLOCK_ALIGN,
	OPT_MEM_FRACTION,
	OPT_PINNED_LIMIT,
	OPT_PINNED_KEEP,
	OPT_PINNED_LOCK,
	OPT_COUNT
};

const struct hal_option rt_options[] = {
	[OPT_DRIVER] = {
		.name = "driver", .type = HAL_OPTION_TEXT, .def = CONFIG_OPT_DRIVER,
		.max = NPU_NAME_LEN - 1,
		.help = "The driver to use; empty: the one of the highest rank that finds a "
			"device.",
	},
	[OPT_VISIBLE_DEVICES] = {
		.name = "visible_devices", .type = HAL_OPTION_TEXT,
		.def = CONFIG_OPT_VISIBLE_DEVICES, .max = 1023,
		.aliases = "ASCEND_RT_VISIBLE_DEVICES",
		.help = "The devices that the process may use, in the order in which it counts "
			"them: \"all\", or different numbers separated by commas; empty: none. "
			"A number that no device has is refused.",
	},
	[OPT_LAZY_INIT] = {
		.name = "lazy_init", .type = HAL_OPTION_BOOL,
		.def = IS_ENABLED(CONFIG_OPT_LAZY_INIT) ? "1" : "0",
		.help = "Whether calls that need the library initialise it; if not, they give "
			"-ENOTCONN before npu_init().",
	},
	[OPT_LOG_LEVEL] = {
		.name = "log_level", .type = HAL_OPTION_CHOICE, .def = CONFIG_OPT_LOG_LEVEL,
		.choices = "none error warn info debug",
		.help = "The most talkative level of the log that is written.",
	},
	[OPT_LOG_MASK] = {
		.name = "log_mask", .type = HAL_OPTION_INT, .def = "0xffffffff",
		.min = 0, .max = 0xffffffff,
		.help = "The components whose lines are written, added up: 1 core, 2 driver, "
			"4 simulated device, 8 runtime, 16 memory.",
	},
	[OPT_WAIT_MODE] = {
		.name = "wait_mode", .type = HAL_OPTION_CHOICE, .def = CONFIG_OPT_WAIT_MODE,
		.choices = "auto spin yield block",
		.help = "How threads wait for streams that are made from now on without saying "
			"otherwise.",
	},
	[OPT_OP_TIMEOUT_MS] = {
		.name = "op_timeout_ms", .type = HAL_OPTION_INT,
		.def = STR(CONFIG_OPT_OP_TIMEOUT_MS), .min = -1, .max = INT32_MAX,
		.help = "Milliseconds that a submission to a full stream waits for room; -1: "
			"for ever.",
	},
	[OPT_LAUNCH_BLOCKING] = {
		.name = "launch_blocking", .type = HAL_OPTION_BOOL,
		.def = IS_ENABLED(CONFIG_OPT_LAUNCH_BLOCKING) ? "1" : "0",
		.aliases = "ASCEND_LAUNCH_BLOCKING",
		.help = "For debugging: each submission waits for its task, up to op_timeout_ms, "
			"and returns its failure; inside callbacks it does not wait.",
	},
	[OPT_EXIT_TIMEOUT_MS] = {
		.name = "exit_timeout_ms", .type = HAL_OPTION_INT,
		.def = STR(CONFIG_OPT_EXIT_TIMEOUT_MS), .min = 0, .max = 600000,
		.help = "Milliseconds that the end of the process waits for queued work.",
	},
	[OPT_STREAM_POOL_SIZE] = {
		.name = "stream_pool_size", .type = HAL_OPTION_INT,
		.def = STR(CONFIG_OPT_STREAM_POOL_SIZE), .min = 1, .max = RT_POOL_MAX,
		.help = "Streams that npu_stream_pool_get() shares out, for each device and "
			"priority.",
	},
	[OPT_STREAM_LEASE_MAX] = {
		.name = "stream_lease_max", .type = HAL_OPTION_INT,
		.def = STR(CONFIG_OPT_STREAM_LEASE_MAX), .min = 1, .max = 65536,
		.help = "Streams that npu_stream_lease() may make on a device.",
	},
	[OPT_IO_URING] = {
		.name = "io_uring", .type = HAL_OPTION_BOOL,
		.def = IS_ENABLED(CONFIG_OPT_IO_URING) ? "1" : "0",
		.help = "Whether files are read and written by io_uring, where the build, the "
			"machine and the kernel have it; else by threads.",
	},
	[OPT_IO_WINDOW] = {
		.name = "io_window", .type = HAL_OPTION_BOOL,
		.def = IS_ENABLED(CONFIG_OPT_IO_WINDOW) ? "1" : "0",
		.help = "Whether files are read straight into device memory, and written from "
			"there, where the device has a window for it; else through buffers.",
	},
	[OPT_MEM_CACHING] = {
		.name = "mem_caching", .type = HAL_OPTION_BOOL,
		.def = IS_ENABLED(CONFIG_OPT_MEM_CACHING) ? "1" : "0",
		.help = "Whether npu_mem_alloc() keeps what is freed; if not, each request goes "
			"to the driver.",
	},
	[OPT_MEM_GROWABLE] = {
		.name = "mem_growable", .type = HAL_OPTION_BOOL,
		.def = IS_ENABLED(CONFIG_OPT_MEM_GROWABLE) ? "1" : "0",
		.help = "Whether segments of npu_mem_alloc() grow and shrink in place, on devices "
			"with virtual memory. Not together with mem_max_split_mb or "
			"mem_gc_threshold, which are for segments that do not.",
	},
	[OPT_MEM_MAX_SPLIT] = {
		.name = "mem_max_split_mb", .type = HAL_OPTION_INT,
		.def = STR(CONFIG_OPT_MEM_MAX_SPLIT_MB), .min = 0, .max = 1 << 20,
		.help = "MiB from which on a free block is not cut for smaller requests; 0: there "
			"is no such size. Not less than mem_large_segment_mb.",
	},
	[OPT_MEM_ROUNDING] = {
		.name = "mem_max_non_split_rounding_mb", .type = HAL_OPTION_INT,
		.def = STR(CONFIG_OPT_MEM_MAX_NON_SPLIT_ROUNDING_MB), .min = 1, .max = 1 << 20,
		.help = "MiB that a block which is not cut may be larger than the request that "
			"it serves.",
	},
	[OPT_MEM_GC] = {
		.name = "mem_gc_threshold", .type = HAL_OPTION_INT,
		.def = STR(CONFIG_OPT_MEM_GC_THRESHOLD), .min = 0, .max = 99,
		.help = "Percent of the memory that npu_mem_alloc() may take from which on "
			"segments that have been idle for long are given back first; 0: never. "
			"Without a limit it is percent of the device.",
	},
	[OPT_MEM_DIVISIONS] = {
		.name = "mem_roundup_power2_divisions", .type = HAL_OPTION_INT,
		.def = STR(CONFIG_OPT_MEM_ROUNDUP_POWER2_DIVISIONS), .min = 0, .max = 64,
		.help = "Steps between two powers of two to which sizes are rounded up, itself "
			"a power of two; 0 or 1: sizes are only rounded to mem_block_align.",
	},
	[OPT_MEM_LARGE_SEGMENT] = {
		.name = "mem_large_segment_mb", .type = HAL_OPTION_INT,
		.def = STR(CONFIG_OPT_MEM_LARGE_SEGMENT_MB), .min = 2, .max = 4096,
		.help = "MiB that the driver is asked for when more than 1 MiB, but less than "
			"half as much is needed.",
	},
	[OPT_MEM_BLOCK_ALIGN] = {
		.name = "mem_block_align", .type = HAL_OPTION_SIZE,
		.def = CONFIG_OPT_MEM_BLOCK_ALIGN, .min = HEAP_UNIT, .max = RT_SMALL_SEGMENT,
		.help = "Bytes to which blocks of npu_mem_alloc() are aligned, a power of two. "
			"With 2M each can be exported alone.",
	},
	[OPT_MEM_FRACTION] = {
		.name = "mem_fraction", .type = HAL_OPTION_INT,
		.def = STR(CONFIG_OPT_MEM_FRACTION), .min = 0, .max = 100,
		.help = "Percent of a device's memory that npu_mem_alloc() may take, unless "
			"npu_mem_set_fraction() says otherwise.",
	},
	[OPT_PINNED_LIMIT] = {
		.name = "pinned_limit_mb", .type = HAL_OPTION_INT,
		.def = STR(CONFIG_OPT_PINNED_LIMIT_MB), .min = -1, .max = 1 << 30,
		.help = "MiB of pinned memory that npu_host_alloc() may take from the system; "
			"-1: there is no limit.",
	},
	[OPT_PINNED_KEEP] = {
		.name = "pinned_max_cached_mb", .type = HAL_OPTION_INT,
		.def = STR(CONFIG_OPT_PINNED_MAX_CACHED_MB), .min = -1, .max = 1 << 30,
		.help = "MiB of pinned memory that is kept of what npu_host_free() gets, for each "
			"device; more goes back to the system at once. -1: there is no limit.",
	},
	[OPT_PINNED_LOCK] = {
		.name = "pinned_lock_required", .type = HAL_OPTION_BOOL,
		.def = IS_ENABLED(CONFIG_OPT_PINNED_LOCK_REQUIRED) ? "1" : "0",
		.help = "Whether pinned memory that the limit on locked memory does not allow to "
			"be locked is refused with -ENOMEM; if not, it is used unlocked.",
	},
	[OPT_COUNT] = { .name = "" },
};

/* Those that can be changed while the library is initialised. */
static const bool changeable[OPT_COUNT] = {
	[OPT_LOG_LEVEL] = true,
	[OPT_LOG_MASK] = true,
	[OPT_WAIT_MODE] = true,
	[OPT_OP_TIMEOUT_MS] = true,
	[OPT_EXIT_TIMEOUT_MS] = true,
	[OPT_MEM_CACHING] = true,
};

/* Protects: changes of api, loaded and is_loaded, and the list of interned texts. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *_Atomic api[RT_OPTIONS_MAX];
static struct {
	const char *_Atomic text;	/* NULL: the default */
	_Atomic int origin;
} loaded[RT_OPTIONS_MAX];
static _Atomic bool is_loaded;

/* A text that is kept for the life of the process: readers take no lock. */
struct text {
	struct text *next;
	char s[];
};
static struct text *texts;

void rt_options_lock(void)
{
	pthread_mutex_lock(&lock);
}

void rt_options_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* The text, kept for ever, once; NULL: no memory. Under the lock. */
const char *rt_intern(const char *text, size_t len)
{
	struct text *t;

	for (t = texts; t; t = t->next)
		if (strlen(t->s) == len && !memcmp(t->s, text, len))
			return t->s;
	t = hal_zalloc(sizeof(*t) + len + 1);
	if (!t)
		return NULL;
	memcpy(t->s, text, len);
	t->next = texts;
	texts = t;
	return t->s;
}

/* The i-th option of all tables: ours, then each driver's. */
bool rt_option_at(unsigned int i, struct rt_option_ref *ref)
{
	const struct hal_option *t = rt_options;
	const struct hal_driver *drv;
	unsigned int d = 0, nr = 0;

	for (;;) {
		for (; t && t->name && t->name[0]; t++, nr++) {
			if (nr != i)
				continue;
			ref->opt = t;
			ref->nr = nr;
			return nr < RT_OPTIONS_MAX;
		}
		drv = hal_driver_at(d++);
		if (!drv)
			return false;
		t = drv->options;
	}
}

bool rt_option_find(const char *name, struct rt_option_ref *ref)
{
	unsigned int i;

	for (i = 0; rt_option_at(i, ref); i++)
		if (!strcmp(ref->opt->name, name))
			return true;
	return false;
}

/* The text in force and where it is from; never NULL. Takes no lock. */
static const char *value_of(const struct rt_option_ref *ref, int *origin)
{
	const char *text = hal_load_acquire(&api[ref->nr]);

	*origin = NPU_OPTION_API;
	if (text)
		return text;
	*origin = NPU_OPTION_DEFAULT;
	if (hal_load_acquire(&is_loaded)) {
		text = hal_load_acquire(&loaded[ref->nr].text);
		if (text)
			*origin = hal_load_relaxed(&loaded[ref->nr].origin);
	} else {
		rt_option_source(ref, false, &text, origin);
	}
	return text ? text : ref->opt->def;
}

/* Where the value of an option comes from: enum npu_option_origin. */
int rt_option_origin(const struct rt_option_ref *ref)
{
	int origin;

	value_of(ref, &origin);
	return origin;
}

static const char *read_text(const char *name)
{
	struct rt_option_ref ref;
	int origin;

	return rt_option_find(name, &ref) ? value_of(&ref, &origin) : NULL;
}

static const struct hal_option_reader reader = { .text = read_text };

/* Once, before main(): drivers read their options also to answer questions. */
void rt_options_setup(void)
{
	hal_option_set_reader(&reader);
}

static int64_t number(int nr)
{
	return hal_option_int(rt_options, rt_options[nr].name);
}

/* What goes together. Return: 0, -EINVAL, naming the options. */
static int check_mem(void)
{
	int64_t align = number(OPT_MEM_BLOCK_ALIGN), div = number(OPT_MEM_DIVISIONS);
	int64_t split = number(OPT_MEM_MAX_SPLIT), large = number(OPT_MEM_LARGE_SEGMENT);

	if (align & (align - 1))
		return hal_fail(-EINVAL, "init", "mem_block_align is %lld: not a power of two",
				(long long)align);
	if (div & (div - 1))
		return hal_fail(-EINVAL, "init", "mem_roundup_power2_divisions is %lld: not a "
				"power of two", (long long)div);
	if (split && split < large)
		return hal_fail(-EINVAL, "init", "mem_max_split_mb is %lld, less than "
				"mem_large_segment_mb, which is %lld", (long long)split,
				(long long)large);
	if (number(OPT_MEM_GROWABLE) && (split || number(OPT_MEM_GC)))
		return hal_fail(-EINVAL, "init", "mem_growable does not go together with %s",
				split ? "mem_max_split_mb" : "mem_gc_threshold");
	return 0;
}

static void apply_mem(void)
{
	int64_t split = number(OPT_MEM_MAX_SPLIT);

	hal_store_relaxed(&rt_mem.caching, number(OPT_MEM_CACHING) != 0);
	hal_store_relaxed(&rt_mem.growable, number(OPT_MEM_GROWABLE) != 0);
	hal_store_relaxed(&rt_mem.max_split, split ? (size_t)split * RT_MIB : SIZE_MAX);
	hal_store_relaxed(&rt_mem.rounding, (size_t)number(OPT_MEM_ROUNDING) * RT_MIB);
	hal_store_relaxed(&rt_mem.gc_percent, (uint32_t)number(OPT_MEM_GC));
	hal_store_relaxed(&rt_mem.divisions, (uint32_t)number(OPT_MEM_DIVISIONS));
	hal_store_relaxed(&rt_mem.large_segment, (size_t)number(OPT_MEM_LARGE_SEGMENT) * RT_MIB);
	hal_store_relaxed(&rt_mem.align, (size_t)number(OPT_MEM_BLOCK_ALIGN));
	hal_store_relaxed(&rt_mem.fraction, (uint32_t)number(OPT_MEM_FRACTION));
	rt_caches_begin();
}

/* MiB as bytes; negative: UINT64_MAX. */
static uint64_t bytes_of(int64_t mib)
{
	return mib < 0 ? UINT64_MAX : (uint64_t)mib * RT_MIB;
}

static void apply_pinned(void)
{
	hal_store_relaxed(&rt_pinned_opts.limit, bytes_of(number(OPT_PINNED_LIMIT)));
	hal_store_relaxed(&rt_pinned_opts.keep, bytes_of(number(OPT_PINNED_KEEP)));
	hal_store_relaxed(&rt_pinned_opts.lock, number(OPT_PINNED_LOCK) ? HAL_MEM_LOCKED : 0);
}

/* Puts the values to use. */
void rt_options_apply(void)
{
	hal_log_setup((int)number(OPT_LOG_LEVEL), (uint32_t)number(OPT_LOG_MASK));
	hal_set_op_timeout(number(OPT_OP_TIMEOUT_MS));
	hal_set_blocking(number(OPT_LAUNCH_BLOCKING));
	hal_store_relaxed(&rt.wait_mode, (uint32_t)number(OPT_WAIT_MODE));
	hal_store_relaxed(&rt.pool_size, (uint32_t)number(OPT_STREAM_POOL_SIZE));
	hal_store_relaxed(&rt.lease_max, (uint32_t)number(OPT_STREAM_LEASE_MAX));
	apply_mem();
	apply_pinned();
}

/* What may be applied while others use the values. */
static void apply_changed(void)
{
	hal_log_setup((int)number(OPT_LOG_LEVEL), (uint32_t)number(OPT_LOG_MASK));
	hal_set_op_timeout(number(OPT_OP_TIMEOUT_MS));
	hal_store_relaxed(&rt.wait_mode, (uint32_t)number(OPT_WAIT_MODE));
	hal_store_relaxed(&rt_mem.caching, number(OPT_MEM_CACHING) != 0);
	rt_caches_toggle();
}

/* Reads and checks all options; they stay as they are until rt_options_unload(). */
int rt_options_load(void)
{
	struct rt_option_ref ref;
	const char *text, *kept;
	int err, origin;
	unsigned int i;

	err = rt_option_file_check();
	for (i = 0; !err && rt_option_at(i, &ref); i++) {
		err = rt_option_check(ref.opt, ref.opt->def, "the default in Kconfig");
		if (!err)
			err = rt_option_source(&ref, true, &text, &origin);
		if (err)
			break;
		rt_options_lock();
		kept = text ? rt_intern(text, strlen(text)) : NULL;
		rt_options_unlock();
		if (text && !kept)
			return hal_fail(-ENOMEM, "init", "no memory for options");
		hal_store_relaxed(&loaded[i].origin, origin);
		hal_store_release(&loaded[i].text, kept);
	}
	if (err)
		return err;
	hal_store_release(&is_loaded, true);
	err = check_mem();
	if (err)
		return err;
	rt_options_apply();
	return 0;
}

void rt_options_unload(void)
{
	hal_store_release(&is_loaded, false);
}

static int check_api(const struct rt_option_ref *ref, const char *value)
{
	size_t pos;
	int64_t v;

	if (hal_option_parse(ref->opt, value, &v, &pos) == -ERANGE) {
		rt_option_check(ref->opt, value, "npu_option_set()");
		return hal_fail(-ERANGE, "option_set", "%s", hal_error_last()->text);
	}
	if (ref->opt == &rt_options[OPT_VISIBLE_DEVICES])
		return rt_visible_syntax(value);
	return rt_option_check(ref->opt, value, "npu_option_set()");
}

static int set_locked(const struct rt_option_ref *ref, const char *value)
{
	bool ours = ref->opt >= rt_options && ref->opt < rt_options + OPT_COUNT;
	const char *kept = NULL;

	if (hal_load_relaxed(&rt.state) != NPU_STATE_UNINIT &&
	    hal_load_relaxed(&rt.state) != NPU_STATE_FAILED &&
	    !(ours && changeable[ref->opt - rt_options]))
		return hal_fail(-EBUSY, "option_set",
				"%s is fixed while the library is initialised", ref->opt->name);
	if (value) {
		kept = rt_intern(value, strlen(value));
		if (!kept)
			return hal_fail(-ENOMEM, "option_set", "no memory");
	}
	hal_store_release(&api[ref->nr], kept);
	return 0;
}

NPU_API int npu_option_set(const char *name, const char *value)
{
	struct rt_option_ref ref;
	int err;

	if (!name)
		return hal_fail(-EINVAL, "option_set", "the name is NULL");
	err = rt_gone("option_set");
	if (err)
		return err;
	if (!rt_option_find(name, &ref))
		return hal_fail(-ENOENT, "option_set", "there is no option \"%.40s\"", name);
	if (value) {
		err = check_api(&ref, value);
		if (err)
			return err;
	}
	rt_options_lock();
	err = set_locked(&ref, value);
	rt_options_unlock();
	if (!err && hal_load_acquire(&is_loaded))
		apply_changed();
	return err;
}

NPU_API int npu_option_get(const char *name, char *buf, size_t size, int *origin)
{
	struct rt_option_ref ref;
	const char *text;
	int from;
	size_t n;

	if (!name || !buf || !size)
		return hal_fail(-EINVAL, "option_get", "name or buffer is missing");
	buf[0] = '\0';
	if (origin)
		*origin = NPU_OPTION_DEFAULT;
	if (!rt_option_find(name, &ref))
		return hal_fail(-ENOENT, "option_get", "there is no option \"%.40s\"", name);
	text = value_of(&ref, &from);
	if (origin)
		*origin = from;
	n = strnlen(text, size - 1);
	memcpy(buf, text, n);
	buf[n] = '\0';
	if (text[n])
		return hal_hint(hal_fail(-ENOSPC, "option_get", "the value of %s needs %zu bytes",
					 name, strlen(text) + 1),
				"Pass a buffer of that size.");
	return 0;
}

/* All environment names of an option, interned. */
static const char *env_names(const struct hal_option *opt)
{
	const char *kept;
	char buf[256];
	int n, i;

	n = snprintf(buf, sizeof(buf), "NPU_%s%s%s", opt->name, opt->aliases ? " " : "",
		     opt->aliases ? opt->aliases : "");
	for (i = 0; i < n && buf[i] && buf[i] != ' '; i++)
		if (buf[i] >= 'a' && buf[i] <= 'z')
			buf[i] -= 'a' - 'A';
	rt_options_lock();
	kept = rt_intern(buf, strlen(buf));
	rt_options_unlock();
	return kept ? kept : "";
}

NPU_API int npu_option_at(unsigned int i, struct npu_option_info *info)
{
	static const char *const types[] = {
		[HAL_OPTION_BOOL] = "bool", [HAL_OPTION_INT] = "int",
		[HAL_OPTION_SIZE] = "size", [HAL_OPTION_TEXT] = "text",
		[HAL_OPTION_CHOICE] = "choice",
	};
	struct npu_option_info in = { 0 };
	struct rt_option_ref ref;

	if (!info || info->size < sizeof(info->size))
		return hal_fail(-EINVAL, "option_at", "info is NULL, or its size is not set");
	if (!rt_option_at(i, &ref))
		return hal_fail(-ENOENT, "option_at", "there is no option number %u", i);
	in.name = ref.opt->name;
	in.type = types[ref.opt->type];
	in.def = ref.opt->def;
	in.choices = ref.opt->choices ? ref.opt->choices : "";
	in.env = env_names(ref.opt);
	in.help = ref.opt->help;
	in.min = ref.opt->min;
	in.max = ref.opt->max;
	in.runtime = i < OPT_COUNT && changeable[i];
	in.size = info->size;
	rt_copy_out(info, &in, info->size, sizeof(in));
	return 0;
}
