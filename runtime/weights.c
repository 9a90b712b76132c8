// SPDX-License-Identifier: MIT
/*
 * Containers of weights: opening one, and what is in it. What a file says is
 * believed only after it was checked, so that a damaged or hostile one is refused whole.
 */
#include <stdlib.h>

#include "runtime/weights.h"
#include "runtime/xxh64.h"

/* ---- what can be in one ----------------------------------------------------------- */

/* Bytes of a number, 0: no such type. */
uint64_t rt_dtype_size(uint32_t dtype)
{
	static const uint8_t size[] = {
		[NPU_DTYPE_U8] = 1, [NPU_DTYPE_I8] = 1, [NPU_DTYPE_U16] = 2, [NPU_DTYPE_I16] = 2,
		[NPU_DTYPE_U32] = 4, [NPU_DTYPE_I32] = 4, [NPU_DTYPE_U64] = 8, [NPU_DTYPE_I64] = 8,
		[NPU_DTYPE_F16] = 2, [NPU_DTYPE_BF16] = 2, [NPU_DTYPE_F32] = 4, [NPU_DTYPE_F64] = 8,
	};

	return dtype < ARRAY_SIZE(size) ? size[dtype] : 0;
}

/* Bytes of a tensor; false: there is no such one. */
bool rt_tensor_bytes(uint32_t dtype, uint32_t rank, const uint64_t *shape, uint64_t *bytes)
{
	uint32_t i;

	*bytes = rt_dtype_size(dtype);
	if (!*bytes || rank > NPU_TENSOR_RANK_MAX)
		return false;
	for (i = 0; i < rank; i++)
		if (__builtin_mul_overflow(*bytes, shape[i], bytes))
			return false;
	return *bytes <= INT64_MAX;
}

/* Whether a text is well-formed UTF-8 without control characters, and not empty. */
bool rt_utf8(const char *text, size_t len)
{
	static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)text, *end = p + len;
	unsigned int more, i;
	uint32_t c;

	while (p < end) {
		c = *p++;
		if (c < 0x20 || c == 0x7f)
			return false;
		if (c < 0x80)
			continue;
		more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
		if (c < 0xc2 || c > 0xf4 || (size_t)(end - p) < more)
			return false;
		c &= 0x3fu >> more;
		for (i = 0; i < more; i++, p++) {
			if ((*p & 0xc0) != 0x80)
				return false;
			c = c << 6 | (*p & 0x3f);
		}
		if (c < least[more] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
			return false;
	}
	return len;
}

/* ---- checking --------------------------------------------------------------------- */

static bool zero(const unsigned char *p, size_t n)
{
	for (; n; n--, p++)
		if (*p)
			return false;
	return true;
}

/* What is wrong with the head, or NULL; its version apart. */
static const char *head_wrong(const unsigned char *h, uint64_t size)
{
	uint64_t align = weights_load(h + HEAD_ALIGN, 4), header = weights_load(h + HEAD_HEADER, 8);

	if (weights_load(h + HEAD_FILE, 8) != size)
		return "it is not as long as it says";
	if (header > size || header > WEIGHTS_HEADER_MAX ||
	    header < WEIGHTS_HEAD + weights_load(h + HEAD_COUNT, 4) * WEIGHTS_ENTRY)
		return "its table does not fit";
	if (!align || align & (align - 1) || !zero(h + HEAD_ZERO, HEAD_SUM - HEAD_ZERO))
		return "its head makes no sense";
	return NULL;
}

/* What is wrong with an entry, or NULL. *end: where the tensor before ends, and then this one. */
static const char *entry_wrong(const unsigned char *h, const unsigned char *e, uint64_t *end)
{
	uint64_t header = weights_load(h + HEAD_HEADER, 8), names, bytes;
	uint64_t shape[NPU_TENSOR_RANK_MAX];
	uint64_t at = weights_load(e + ENTRY_NAME, 4), len = weights_load(e + ENTRY_NAME_LEN, 2);
	uint64_t offset = weights_load(e + ENTRY_OFFSET, 8);
	uint32_t i, rank = e[ENTRY_RANK];

	names = WEIGHTS_HEAD + weights_load(h + HEAD_COUNT, 4) * WEIGHTS_ENTRY;
	if (at < names || at > header || len > header - at || len >= NPU_TENSOR_NAME_LEN ||
	    !rt_utf8((const char *)h + at, len))
		return "a name is none";
	for (i = 0; i < NPU_TENSOR_RANK_MAX; i++)
		shape[i] = weights_load(e + ENTRY_SHAPE + 8 * i, 8);
	if (!rt_tensor_bytes(e[ENTRY_DTYPE], rank, shape, &bytes) ||
	    bytes != weights_load(e + ENTRY_BYTES, 8) ||
	    !zero(e + ENTRY_SHAPE + 8 * rank, 8 * (NPU_TENSOR_RANK_MAX - rank)) ||
	    !zero(e + ENTRY_ZERO, WEIGHTS_ENTRY - ENTRY_ZERO))
		return "type, shape and size of a tensor contradict";
	if (offset < *end || offset % weights_load(h + HEAD_ALIGN, 4) ||
	    offset > weights_load(h + HEAD_FILE, 8) ||
	    bytes > weights_load(h + HEAD_FILE, 8) - offset)
		return "a tensor is not where it can be";
	*end = offset + bytes;
	return NULL;
}

static const char *header_wrong(unsigned char *h)
{
	uint64_t sum = weights_load(h + HEAD_SUM, 8), end = weights_load(h + HEAD_HEADER, 8);
	uint32_t i, count = (uint32_t)weights_load(h + HEAD_COUNT, 4);
	const char *wrong = NULL;

	weights_store(h + HEAD_SUM, 8, 0);
	if (rt_xxh64(h, end) != sum)
		return "the checksum of its header differs";
	for (i = 0; i < count && !wrong; i++)
		wrong = entry_wrong(h, h + WEIGHTS_HEAD + (size_t)i * WEIGHTS_ENTRY, &end);
	return wrong;
}

static int by_name(const void *a, const void *b, void *arg)
{
	const struct rt_weights *w = arg;

	return weights_name_cmp(weights_name(w->header, weights_entry(w, *(const uint32_t *)a)),
				weights_name(w->header, weights_entry(w, *(const uint32_t *)b)));
}

/* The order of names; false: two are the same. */
static bool sort_names(struct rt_weights *w)
{
	uint32_t i;

	for (i = 0; i < w->count; i++)
		w->by_name[i] = i;
	qsort_r(w->by_name, w->count, sizeof(*w->by_name), by_name, w);
	for (i = 1; i < w->count; i++)
		if (!by_name(&w->by_name[i - 1], &w->by_name[i], w))
			return false;
	return true;
}

/* ---- opening ---------------------------------------------------------------------- */

static int bad(const struct rt_weights *w, const char *what)
{
	return hal_fail(-EBADMSG, "weights_open", "%s: no container of weights, or damaged: %s",
			w->file->path, what);
}

/* All that is asked for. */
static int read_at(struct rt_weights *w, void *buf, uint64_t size, uint64_t offset)
{
	uint64_t done = 0;
	ssize_t n;

	while (done < size) {
		n = rt_file_sys->pread(w->file->fd, (char *)buf + done, size - done, offset + done);
		if (n < 0)
			return hal_fail(-EIO, "weights_open", "%s: %s", w->file->path,
					strerror((int)-n));
		if (!n)
			return bad(w, "it ends too early");
		done += (uint64_t)n;
	}
	return 0;
}

static int load(struct rt_weights *w, uint64_t size)
{
	unsigned char head[WEIGHTS_HEAD];
	const char *wrong;
	uint64_t header;
	int err;

	if (size < WEIGHTS_HEAD)
		return bad(w, "it is too short");
	err = read_at(w, head, sizeof(head), 0);
	if (err)
		return err;
	if (memcmp(head, WEIGHTS_MAGIC, 8))
		return bad(w, "it does not begin like one");
	if (weights_load(head + HEAD_VERSION, 4) != WEIGHTS_VERSION)
		return hal_fail(-EPROTO, "weights_open", "%s: version %u of the format, not %u",
				w->file->path, (unsigned int)weights_load(head + HEAD_VERSION, 4),
				WEIGHTS_VERSION);
	wrong = head_wrong(head, size);
	if (wrong)
		return bad(w, wrong);
	w->count = (uint32_t)weights_load(head + HEAD_COUNT, 4);
	header = weights_load(head + HEAD_HEADER, 8);
	w->header = malloc(header);
	w->by_name = calloc(w->count + 1u, sizeof(*w->by_name));
	if (!w->header || !w->by_name)
		return hal_fail(-ENOMEM, "weights_open", "%s: no memory", w->file->path);
	err = read_at(w, w->header, header, 0);
	if (err)
		return err;
	/* as it was looked at: somebody may write to the file */
	memcpy(w->header, head, sizeof(head));
	wrong = header_wrong(w->header);
	if (!wrong && !sort_names(w))
		wrong = "two tensors have one name";
	return wrong ? bad(w, wrong) : 0;
}

static void release(struct kref *ref)
{
	struct rt_weights *w = container_of(ref, struct rt_weights, held.ref);

	rt_file_put(w->file);
	free(w->header);
	free(w->by_name);
	free(w);
}

/* Gives a reference back. */
void rt_weights_put(struct rt_weights *w)
{
	kref_put(&w->held.ref, release);
}

/* The container of a handle with a reference, or NULL with the record filled. */
struct rt_weights *rt_weights_get(npu_weights w, const char *op)
{
	return rt_handle_get(HAL_HANDLE_WEIGHTS, w.h, op);
}

static int open_it(const char *path, struct rt_weights **weights)
{
	struct rt_weights *w;
	struct stat st;
	int err;

	w = hal_zalloc(sizeof(*w));
	if (!w)
		return hal_fail(-ENOMEM, "weights_open", "%s: no memory", path);
	kref_init(&w->held.ref);
	err = rt_file_open(path, NPU_FILE_READ, "weights_open", &w->file);
	if (!err && rt_file_sys->fstat(w->file->fd, &st))
		err = hal_fail(-EIO, "weights_open", "%s: its size can't be told", path);
	if (!err)
		err = load(w, (uint64_t)st.st_size);
	if (err) {
		rt_weights_put(w);
		return err;
	}
	*weights = w;
	return 0;
}

NPU_API int npu_weights_open(const char *path, npu_weights *weights)
{
	struct hal_slot *slot;
	struct rt_weights *w = NULL;
	int err;

	err = rt_enter_handle("weights_open", weights, "weights");
	if (err)
		return err;
	if (!path)
		return hal_fail(-EINVAL, "weights_open", "path is NULL");
	err = hal_handle_alloc(HAL_HANDLE_WEIGHTS, &slot);
	if (err)
		return err;
	err = open_it(path, &w);
	if (err) {
		hal_handle_free(HAL_HANDLE_WEIGHTS, slot);
		return err;
	}
	weights->h = rt_handle_new(HAL_HANDLE_WEIGHTS, slot, &w->held);
	return 0;
}

static int close_handle(uint64_t handle)
{
	struct rt_weights *w = rt_handle_end(HAL_HANDLE_WEIGHTS, handle, "weights_close");

	if (!w)
		return hal_error_last()->code;
	rt_weights_put(w);
	return 0;
}

NPU_API int npu_weights_close(npu_weights weights)
{
	int err = rt_enter("weights_close");

	return err ? err : close_handle(weights.h);
}

static int close_slot(struct hal_slot *slot, void *arg)
{
	(void)arg;
	close_handle(hal_handle_of(HAL_HANDLE_WEIGHTS, slot));
	return 0;
}

/* The library is finalized. */
void rt_weights_close_all(void)
{
	hal_handle_for_each(HAL_HANDLE_WEIGHTS, close_slot, NULL);
}

/* ---- questions -------------------------------------------------------------------- */

NPU_API int npu_weights_count(npu_weights weights, uint32_t *count)
{
	struct rt_weights *w;
	int err;

	if (!count)
		return hal_fail(-EINVAL, "weights_count", "count is NULL");
	*count = 0;
	err = rt_enter("weights_count");
	if (err)
		return err;
	w = rt_weights_get(weights, "weights_count");
	if (!w)
		return hal_error_last()->code;
	*count = w->count;
	rt_weights_put(w);
	return 0;
}

/* There is no such tensor. */
int rt_weights_no_tensor(const struct rt_weights *w, uint32_t index, const char *op)
{
	return hal_fail(-ENOENT, op, "%s: no tensor %u: there are %u", w->file->path, index,
			w->count);
}

static void tell(const struct rt_weights *w, uint32_t index, struct npu_tensor_info *out)
{
	const unsigned char *e = weights_entry(w, index);
	struct weights_name name = weights_name(w->header, e);
	uint32_t i;

	out->offset = weights_load(e + ENTRY_OFFSET, 8);
	out->bytes = weights_load(e + ENTRY_BYTES, 8);
	out->checksum = weights_load(e + ENTRY_SUM, 8);
	out->dtype = e[ENTRY_DTYPE];
	out->rank = e[ENTRY_RANK];
	for (i = 0; i < NPU_TENSOR_RANK_MAX; i++)
		out->shape[i] = weights_load(e + ENTRY_SHAPE + 8 * i, 8);
	memcpy(out->name, name.text, name.len);
	out->name[name.len] = '\0';
}

NPU_API int npu_weights_info(npu_weights weights, uint32_t index, struct npu_tensor_info *info)
{
	struct npu_tensor_info out = { 0 };
	struct rt_weights *w;
	int err;

	err = rt_enter("weights_info");
	if (err)
		return err;
	if (!info || info->size < sizeof(info->size))
		return hal_fail(-EINVAL, "weights_info",
				"info is NULL, or its size is not set");
	w = rt_weights_get(weights, "weights_info");
	if (!w)
		return hal_error_last()->code;
	if (index >= w->count) {
		err = rt_weights_no_tensor(w, index, "weights_info");
	} else {
		out.size = info->size;
		tell(w, index, &out);
		rt_copy_out(info, &out, info->size, sizeof(out));
	}
	rt_weights_put(w);
	return err;
}

static uint32_t find(const struct rt_weights *w, const char *name)
{
	const struct weights_name key = { name, strlen(name) };
	uint32_t low = 0, high = w->count, mid;
	int d;

	while (low < high) {
		mid = low + (high - low) / 2;
		d = weights_name_cmp(key, weights_name(w->header,
						       weights_entry(w, w->by_name[mid])));
		if (!d)
			return w->by_name[mid];
		if (d < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return UINT32_MAX;
}

NPU_API int npu_weights_find(npu_weights weights, const char *name, uint32_t *index)
{
	struct rt_weights *w;
	int err;

	if (!index)
		return hal_fail(-EINVAL, "weights_find", "index is NULL");
	*index = UINT32_MAX;
	err = rt_enter("weights_find");
	if (err)
		return err;
	if (!name)
		return hal_fail(-EINVAL, "weights_find", "name is NULL");
	w = rt_weights_get(weights, "weights_find");
	if (!w)
		return hal_error_last()->code;
	*index = find(w, name);
	if (*index == UINT32_MAX)
		err = hal_fail(-ENOENT, "weights_find", "%s: no tensor \"%.64s\"", w->file->path,
			       name);
	rt_weights_put(w);
	return err;
}
