/* SPDX-License-Identifier: MIT */
/*
 * What processes share, inside the user-mode half: keys, and the thread that answers
 * those who show one.
 */
#ifndef DRIVERS_SIMNPU_IPC_H
#define DRIVERS_SIMNPU_IPC_H

#include "drivers/simnpu/simnpu.h"
#include "hal/ipc.h"
#include "hal/sys_unix.h"

#define SIMNPU_IPC_MAGIC 0x31637069u
#define SIMNPU_IPC_PIDS 128u
/* Waits that one thread takes care of: of other processes for events, and of streams for theirs. */
#define SIMNPU_IPC_WAITS 256u
/* How long who has connected may take to say what he wants, or has; and the owner to answer. */
#define SIMNPU_IPC_ASK_MS 1000
#define SIMNPU_IPC_ANSWER_MS 5000
/* The bit of a key's id that says that it is of an event. */
#define SIMNPU_IPC_EVENT (1u << 31)

/* simnpu_ipc_request.kind */
enum simnpu_ipc_kind {
	SIMNPU_IPC_GET,		/* a descriptor of memory, or of the page of an event */
	SIMNPU_IPC_QUERY,	/* what has become of a point */
	SIMNPU_IPC_WAIT,	/* the same, once it is reached */
};

/* What is asked. */
struct simnpu_ipc_request {
	uint32_t magic;
	uint32_t id;
	uint64_t number;
	uint32_t slot;
	uint32_t kind;
	struct hal_point point;
};

/* The answer to GET; with it comes a descriptor, if code is 0. The others are answered the code. */
struct simnpu_ipc_answer {
	int32_t code;
	uint32_t share;
	uint64_t size;
	uint64_t offset;
};

/**
 * struct simnpu_ipc_place - where memory that is for all can be had without asking its owner
 * @pid: the owner's process, 0: nowhere
 * @fd: its descriptor there
 * @object: the file that it is, so that another one is not taken for it
 * @size: bytes
 * @offset: of the byte that the key names
 */
struct simnpu_ipc_place {
	uint32_t pid;
	uint32_t fd;
	uint64_t object;
	uint64_t size;
	uint64_t offset;
};

/* A key, taken apart. */
struct simnpu_ipc_key {
	char instance[SIMNPU_NAME_LEN];
	uint32_t device;
	uint32_t slot;
	uint64_t number;
	uint32_t id;
	struct simnpu_ipc_place at;
};

/**
 * struct simnpu_exported - what a key was made of
 * @node: in simnpu_ipc.list, or in that of the events
 * @ipc: who hands it out
 * @id: in the key
 * @handle: what the device calls the memory
 * @event: the event
 * @offset: of the byte that the key names
 * @any: for all processes of the user
 * @secret: its id can't be guessed, and is told to nobody but who exports it
 * @at: memory: where these find it, as long as it is exported
 * @count: processes that may have it
 * @pids: these
 */
struct simnpu_exported {
	struct hal_list node;
	struct simnpu_ipc *ipc;
	uint32_t id;
	uint32_t handle;
	uint64_t event;
	uint64_t offset;
	bool any;
	bool secret;
	struct simnpu_ipc_place at;
	uint32_t count;
	pid_t pids[SIMNPU_IPC_PIDS];
};

/* Another process that waits for an event of this one. */
struct simnpu_ipc_asker {
	int sock;
	uint64_t event;
	struct hal_point point;
};

/**
 * struct simnpu_ipc - what a device hands out
 * @sys: how the device is reached
 * @fd: its node
 * @listen: where others connect
 * @stop: becomes readable when the thread has to end
 * @news: becomes readable when something that is waited for may have come
 * @thread: the thread
 * @left: the thread itself has closed the device: nobody waits for its end
 * @key: what all keys begin with
 * @lock: Protects: @list, @last_id, and memory from being freed while it is handed out
 * @list: struct simnpu_exported
 * @last_id: the last id that was given
 * @poll: the thread's own: what it waits for, and behind the first three the sockets of @asker and
 *	then of waits of streams
 * @asker: the thread's own: who waits for events of this process
 * @askers: how many
 * @wait: the thread's own: the numbers of the waits of streams in @poll
 */
struct simnpu_ipc {
	const struct hal_sys_ops *sys;
	int fd;
	int listen;
	int stop;
	int news;
	pthread_t thread;
	bool left;
	struct simnpu_ipc_key key;
	pthread_mutex_t lock;
	struct hal_list list;
	uint32_t last_id;
	struct pollfd poll[3 + 2 * SIMNPU_IPC_WAITS];
	struct simnpu_ipc_asker asker[SIMNPU_IPC_WAITS];
	uint32_t askers;
	uint64_t wait[SIMNPU_IPC_WAITS];
};

/* ipc.c */
int simnpu_ipc_start(struct simnpu_device *dev, struct simnpu_ipc **ipc);
bool simnpu_ipc_may(const struct simnpu_exported *x, pid_t pid);
int simnpu_ipc_admit(struct simnpu_exported *x, const int32_t *pids, size_t n);
void simnpu_ipc_name(char *name, size_t size, const struct simnpu_ipc_key *k);
void simnpu_ipc_key_text(const struct simnpu_ipc_key *k, char *text);
void simnpu_ipc_text(const struct simnpu_exported *x, char *key);

/* ipc_import.c */
int simnpu_ipc_failed(int err, const char *text);
bool simnpu_ipc_parse(const char *text, struct simnpu_ipc_key *k);
int simnpu_ipc_key_for(struct simnpu_device *dev, const char *text, bool event,
		       struct simnpu_ipc_key *k);
int simnpu_ipc_connect(const struct simnpu_ipc_key *k, uint64_t deadline, int *sock);
int simnpu_ipc_get(const struct simnpu_ipc_key *k, const struct simnpu_info *si, int *sock,
		   struct simnpu_ipc_answer *a, int *fd);

/* ipc_event.c */
int simnpu_ipc_fd_note(int fd);
void simnpu_ipc_fd_close(int fd);
bool simnpu_ipc_event_serve(struct simnpu_ipc *ipc, const struct simnpu_ipc_request *r, int sock,
			    pid_t pid);
uint32_t simnpu_ipc_event_poll(struct simnpu_ipc *ipc, uint64_t *deadline);
void simnpu_ipc_event_round(struct simnpu_ipc *ipc, uint32_t n);
void simnpu_ipc_event_stop(struct simnpu_ipc *ipc);

#endif /* DRIVERS_SIMNPU_IPC_H */
