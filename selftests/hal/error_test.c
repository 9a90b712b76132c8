// SPDX-License-Identifier: GPL-2.0-only
/*
 * The error record, tags, thread-local state, and the log.
 */
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

#include "selftests/npu_kselftest.h"

#include "hal/base.h"
#include "hal/error.h"
#include "hal/log.h"
#include "hal/tls.h"
#include "selftests/fakes/sys.h"

TEST(record)
{
	const struct hal_error *e = hal_error_last();
	struct hal_error own = { .code = -EIO, .device = 3, .op = "own", .seq = 9 };
	char longtext[400];

	ASSERT_NE(NULL, e);
	EXPECT_EQ(0, e->code);
	EXPECT_EQ(-1, e->device);
	EXPECT_EQ(-EINVAL, hal_fail(-EINVAL, "launch", "%d blocks\nand more", 0));
	e = hal_error_last();
	EXPECT_EQ(-EINVAL, e->code);
	EXPECT_EQ(-1, e->device);
	EXPECT_EQ(0, e->stream);
	EXPECT_STREQ("launch", e->op);
	EXPECT_STREQ("0 blocks and more", e->text);
	memset(longtext, 'x', sizeof(longtext) - 1);
	longtext[sizeof(longtext) - 1] = '\0';
	hal_fail(-EIO, "copy", "%s", longtext);
	EXPECT_EQ(HAL_ERROR_TEXT - 1, strlen(hal_error_last()->text));
	EXPECT_EQ(-EIO, hal_fail_record(&own));
	EXPECT_EQ(3, hal_error_last()->device);
	EXPECT_EQ(9, hal_error_last()->seq);
	hal_error_clear();
	EXPECT_EQ(0, hal_error_last()->code);
	EXPECT_EQ(-1, hal_error_last()->device);
}

static void *other_thread(void *arg)
{
	int *code = arg;

	*code = hal_error_last()->code;
	hal_fail(-EPERM, "other", "mine");
	hal_tag_set("other");
	return NULL;
}

/* What to do: where the catalogue's advice is too general. */
TEST(hint)
{
	char longtext[400];

	EXPECT_EQ(-EIO, hal_hint(-EIO, "nothing has failed"));
	EXPECT_STREQ("", hal_error_last()->hint);
	EXPECT_EQ(-EIO, hal_hint(hal_fail(-EIO, "copy", "x"), "look\nhere, %d", 3));
	EXPECT_STREQ("look here, 3", hal_error_last()->hint);
	/* of another failure */
	EXPECT_EQ(-EINVAL, hal_hint(-EINVAL, "no"));
	EXPECT_STREQ("look here, 3", hal_error_last()->hint);
	memset(longtext, 'x', sizeof(longtext) - 1);
	longtext[sizeof(longtext) - 1] = '\0';
	hal_hint(-EIO, "%s", longtext);
	EXPECT_EQ(HAL_ERROR_TEXT - 1, strlen(hal_error_last()->hint));
	hal_fail(-EIO, "copy", "again");
	EXPECT_STREQ("", hal_error_last()->hint);
}

static bool a_sentence(const char *text)
{
	size_t n = strlen(text);

	return n > 10 && n < HAL_ERROR_TEXT && text[n - 1] == '.' && !strchr(text, '\n');
}

/* Each code once, in whole sentences that fit a record's hint. */
TEST(catalogue)
{
	const struct hal_error_entry *e, *other;
	unsigned int i, k;

	for (i = 0; (e = hal_error_at(i)); i++) {
		EXPECT_GT(0, e->code);
		EXPECT_STREQ(hal_errno_name(e->code), e->name);
		EXPECT_TRUE(a_sentence(e->meaning))
			TH_LOG("%s: meaning", e->name);
		EXPECT_TRUE(a_sentence(e->causes))
			TH_LOG("%s: causes", e->name);
		EXPECT_TRUE(a_sentence(e->remedy))
			TH_LOG("%s: remedy", e->name);
		for (k = 0; k < i; k++) {
			other = hal_error_at(k);
			EXPECT_NE(other->code, e->code);
			EXPECT_STRNE(other->meaning, e->meaning);
			EXPECT_STRNE(other->remedy, e->remedy);
		}
		EXPECT_EQ(e, hal_error_explain(e->code));
		EXPECT_EQ(e, hal_error_explain(-e->code));
	}
	EXPECT_LT(25, i);
	EXPECT_EQ(NULL, hal_error_explain(0));
	EXPECT_EQ(NULL, hal_error_explain(EXFULL));
	EXPECT_EQ(NULL, hal_error_explain(INT_MIN));
}

TEST(each_thread_has_its_own)
{
	pthread_t t;
	int code = 1;

	hal_fail(-EINVAL, "main", "mine");
	ASSERT_EQ(0, hal_tag_set("main"));
	ASSERT_EQ(0, pthread_create(&t, NULL, other_thread, &code));
	pthread_join(t, NULL);
	EXPECT_EQ(0, code);
	EXPECT_EQ(-EINVAL, hal_error_last()->code);
	EXPECT_STREQ("main", hal_tag_name(hal_tag_current()));
}

TEST(tags)
{
	char name[NPU_TAG_LEN + 1];
	uint32_t a, i;

	EXPECT_EQ(0, hal_tag_current());
	EXPECT_STREQ("", hal_tag_name(0));
	EXPECT_STREQ("", hal_tag_name(12345));
	ASSERT_EQ(0, hal_tag_set("one"));
	a = hal_tag_current();
	EXPECT_NE(0, a);
	ASSERT_EQ(0, hal_tag_set("two"));
	EXPECT_NE(a, hal_tag_current());
	ASSERT_EQ(0, hal_tag_set("one"));
	EXPECT_EQ(a, hal_tag_current());
	hal_fail(-EIO, "x", "y");
	EXPECT_STREQ("one", hal_error_last()->tag);
	memset(name, 't', NPU_TAG_LEN);
	name[NPU_TAG_LEN] = '\0';
	EXPECT_EQ(-EINVAL, hal_tag_set(name));
	EXPECT_EQ(a, hal_tag_current());
	name[NPU_TAG_LEN - 1] = '\0';
	EXPECT_EQ(0, hal_tag_set(name));
	EXPECT_STREQ(name, hal_tag_name(hal_tag_current()));
	ASSERT_EQ(0, hal_tag_set(NULL));
	EXPECT_EQ(0, hal_tag_current());
	ASSERT_EQ(0, hal_tag_set(""));
	for (i = 3; i < 4095; i++) {
		snprintf(name, sizeof(name), "tag %u", i);
		ASSERT_EQ(0, hal_tag_set(name));
		ASSERT_STREQ(name, hal_tag_name(hal_tag_current()));
	}
	EXPECT_EQ(-ENOSPC, hal_tag_set("one too many"));
	EXPECT_EQ(0, hal_tag_current());
	EXPECT_EQ(0, hal_tag_set("one"));
	EXPECT_EQ(a, hal_tag_current());
}

TEST(names)
{
	EXPECT_STREQ("EINVAL", hal_errno_name(EINVAL));
	EXPECT_STREQ("EINVAL", hal_errno_name(-EINVAL));
	EXPECT_STREQ("EAGAIN", hal_errno_name(-EAGAIN));
	EXPECT_STREQ("EOPNOTSUPP", hal_errno_name(-EOPNOTSUPP));
	EXPECT_STREQ("ETIMEDOUT", hal_errno_name(ETIMEDOUT));
	EXPECT_EQ(NULL, hal_errno_name(0));
	EXPECT_EQ(NULL, hal_errno_name(99999));
}

static _Atomic uint32_t freed;

static void count_free(void *runtime)
{
	freed += (uint32_t)(uintptr_t)runtime;
}

static void *with_runtime(void *arg)
{
	hal_tls()->runtime = arg;
	return NULL;
}

TEST(the_runtime_is_told_of_a_threads_end)
{
	pthread_t t;

	hal_tls_set_free(count_free);
	ASSERT_EQ(0, pthread_create(&t, NULL, with_runtime, (void *)5));
	pthread_join(t, NULL);
	EXPECT_EQ(5, hal_load_relaxed(&freed));
	ASSERT_EQ(0, pthread_create(&t, NULL, with_runtime, NULL));
	pthread_join(t, NULL);
	EXPECT_EQ(5, hal_load_relaxed(&freed));
}

struct hold {
	pthread_barrier_t reached, leave;
	int got[12];
	int code[12];
	_Atomic uint32_t next;
};

static void *without_memory(void *arg)
{
	struct hold *h = arg;
	uint32_t i = h->next++;

	hal_fail(-EBUSY, "test", "thread %u", i);
	h->got[i] = hal_tls_peek() != NULL;
	h->code[i] = hal_error_last()->code;
	pthread_barrier_wait(&h->reached);
	pthread_barrier_wait(&h->leave);
	return NULL;
}

/* A few threads get a record nevertheless; the others learn that there is none. */
TEST(no_memory_for_the_record)
{
	struct hold h = { .next = 0 };
	pthread_t t[12];
	int i, round, got;

	hal_sys_set(&fake_sys);
	for (round = 0; round < 2; round++) {
		h.next = 0;
		fake_sys_fail(FAKE_SYS_ALLOC, 1, 1000, ENOMEM);
		pthread_barrier_init(&h.reached, NULL, 13);
		pthread_barrier_init(&h.leave, NULL, 13);
		for (i = 0; i < 12; i++)
			ASSERT_EQ(0, pthread_create(&t[i], NULL, without_memory, &h));
		pthread_barrier_wait(&h.reached);
		pthread_barrier_wait(&h.leave);
		for (got = 0, i = 0; i < 12; i++) {
			pthread_join(t[i], NULL);
			got += h.got[i];
			EXPECT_EQ(h.got[i] ? -EBUSY : -ENOMEM, h.code[i]);
		}
		EXPECT_EQ(8, got);	/* the second round gets what the first gave back */
		pthread_barrier_destroy(&h.reached);
		pthread_barrier_destroy(&h.leave);
	}
	fake_sys_fail(FAKE_SYS_ALLOC, 1, 1000, ENOMEM);
	hal_sys_set(NULL);
}

/* ---- the log ---- */

static char lines[8][600];
static int levels[8];
static unsigned int nr_lines;

static void sink(int level, uint32_t component, const char *line)
{
	if (nr_lines < 8) {
		levels[nr_lines] = level;
		snprintf(lines[nr_lines++], sizeof(lines[0]), "%s", line);
	}
	(void)component;
}

TEST(log_levels_and_masks)
{
	char longtext[1000];

	hal_log_set_sink(sink);
	hal_log_setup(HAL_LOG_WARN, HAL_LOG_CORE | HAL_LOG_MEMORY);
	EXPECT_EQ(HAL_LOG_WARN, hal_log_level_get());
	hal_err(HAL_LOG_CORE, "first %d", 1);
	hal_warn(HAL_LOG_MEMORY, "second\nline");
	hal_info(HAL_LOG_CORE, "too talkative");
	hal_err(HAL_LOG_DRIVER, "masked");
	ASSERT_EQ(2, nr_lines);
	EXPECT_STREQ("error core first 1", lines[0]);
	EXPECT_EQ(HAL_LOG_ERROR, levels[0]);
	EXPECT_STREQ("warn memory second line", lines[1]);
	hal_log_setup(HAL_LOG_NONE, HAL_LOG_ALL);
	hal_err(HAL_LOG_CORE, "none");
	EXPECT_EQ(2, nr_lines);
	hal_log_setup(99, HAL_LOG_ALL);
	EXPECT_EQ(HAL_LOG_DEBUG, hal_log_level_get());
	hal_log_setup(-1, HAL_LOG_ALL);
	EXPECT_EQ(HAL_LOG_NONE, hal_log_level_get());
	hal_log_setup(HAL_LOG_ERROR, HAL_LOG_ALL);
	memset(longtext, 'y', sizeof(longtext) - 1);
	longtext[sizeof(longtext) - 1] = '\0';
	hal_err(HAL_LOG_CORE, "%s", longtext);
	ASSERT_EQ(3, nr_lines);
	EXPECT_LE(strlen(lines[2]), 511);
	EXPECT_GT(strlen(lines[2]), 400);
	hal_err(1u << 30, "x");
	EXPECT_STREQ("error other x", lines[3]);
}

TEST(log_goes_to_standard_error)
{
	int p[2], old;
	char buf[64] = "";

	ASSERT_EQ(0, pipe(p));
	old = dup(2);
	dup2(p[1], 2);
	hal_log_setup(HAL_LOG_ERROR, HAL_LOG_ALL);
	hal_err(HAL_LOG_MODEL, "hello");
	dup2(old, 2);
	close(old);
	close(p[1]);
	ASSERT_EQ(18, read(p[0], buf, sizeof(buf)));
	EXPECT_STREQ("error model hello\n", buf);
	close(p[0]);
}

/* A failure is logged where it is found, for those who debug. */
TEST(failures_are_logged_for_debugging)
{
	hal_log_set_sink(sink);
	hal_log_setup(HAL_LOG_INFO, HAL_LOG_ALL);
	hal_fail(-EINVAL, "launch", "quiet");
	EXPECT_EQ(0, nr_lines);
	hal_log_setup(HAL_LOG_DEBUG, HAL_LOG_ALL);
	hal_fail(-EINVAL, "launch", "no blocks");
	if (CONFIG_LOG_MAX_LEVEL < HAL_LOG_DEBUG)
		SKIP(return, "this build has no debugging lines");
	ASSERT_EQ(1, nr_lines);
	EXPECT_STREQ("debug core launch: EINVAL: no blocks", lines[0]);
}

TEST_HARNESS_MAIN
