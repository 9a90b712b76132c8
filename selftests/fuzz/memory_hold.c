// SPDX-License-Identifier: MIT
/*
 * Streams that do not go on: each hold is a device of its own, whose callback does not return; who
 * is held waits for what is behind it there.
 */
#include "selftests/fuzz/memory_fuzz.h"

/**
 * struct hold - a device that holds a stream
 * @stream: its stream
 * @event: what is behind the callback
 * @taken: somebody is held by it
 * @open: the callback may return
 */
static struct hold {
	npu_stream stream;
	npu_event event;
	bool taken;
	bool open;
} holds[MF_HOLDS];

/* lock Protects: holds. change: one is open. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;

void mf_holds_begin(void)
{
	int i;

	for (i = 0; i < MF_HOLDS; i++) {
		holds[i] = (struct hold){ .taken = false };
		MF_CHECK(!npu_device_set(MF_DEVICES + i), "hold %d", i);
		MF_CHECK(!npu_stream_create(NULL, &holds[i].stream), "hold %d", i);
		MF_CHECK(!npu_event_create(0, &holds[i].event), "hold %d", i);
	}
	MF_CHECK(!npu_device_set(0), "back");
}

void mf_holds_end(void)
{
	int i;

	for (i = 0; i < MF_HOLDS; i++)
		MF_CHECK(!holds[i].taken, "hold %d", i);
}

int mf_hold_take(void)
{
	int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < MF_HOLDS && holds[i].taken; i++)
		;
	if (i < MF_HOLDS) {
		holds[i].taken = true;
		holds[i].open = false;
	}
	pthread_mutex_unlock(&lock);
	return i < MF_HOLDS ? i : -1;
}

static void stay(void *arg)
{
	struct hold *h = arg;

	pthread_mutex_lock(&lock);
	while (!h->open)
		pthread_cond_wait(&change, &lock);
	pthread_mutex_unlock(&lock);
}

void mf_hold(int hold, npu_stream s)
{
	struct hold *h = &holds[hold];

	MF_CHECK(!npu_stream_callback(h->stream, stay, h, 0), "hold %d", hold);
	MF_CHECK(!npu_event_record(h->event, h->stream), "hold %d", hold);
	MF_CHECK(!npu_stream_wait_event(s, h->event), "hold %d", hold);
}

void mf_unhold(int hold, npu_stream s)
{
	struct hold *h = &holds[hold];

	pthread_mutex_lock(&lock);
	h->open = true;
	pthread_cond_broadcast(&change);
	pthread_mutex_unlock(&lock);
	MF_CHECK(!npu_stream_sync(s, 20000), "hold %d", hold);
	MF_CHECK(!npu_stream_sync(h->stream, 20000), "hold %d", hold);
	pthread_mutex_lock(&lock);
	h->taken = false;
	pthread_mutex_unlock(&lock);
}
