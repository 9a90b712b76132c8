// SPDX-License-Identifier: MIT
/*
 * The host touches device memory: a line that names the allocation, before the
 * process dies of it as it would on hardware.
 *
 * The handler is a signal handler: no lock is waited for, nothing is allocated.
 * sigaction(2) does not fail for want of anything and touches no device: it is
 * not in the seam of hal/sys.h.
 */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "drivers/simnpu/model/model.h"
#include "drivers/simnpu/options.h"

#define TRIES 1000

/* Protects: installed, the handler's installation. */
static pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;
static bool installed;
/* Whose turn is after ours; written before ours can be called. */
static struct sigaction before;

/* A line that is put together without the help of libc. */
struct line {
	char text[256];
	size_t len;
};

static void put_text(struct line *l, const char *text)
{
	while (*text && l->len < sizeof(l->text))
		l->text[l->len++] = *text++;
}

static void put_number(struct line *l, uint64_t value, unsigned int base)
{
	char digits[24];
	size_t i = sizeof(digits) - 1;

	digits[i] = '\0';
	do
		digits[--i] = "0123456789abcdef"[value % base];
	while (value /= base);
	put_text(l, base == 16 ? "0x" : "");
	put_text(l, &digits[i]);
}

enum found { FOUND, FOUND_NONE, FOUND_BUSY };

/* The allocation that holds the address. Whoever holds the lock may be the thread we stopped. */
static enum found find(struct model_memory *m, uint64_t addr, struct hal_range *range)
{
	struct hal_range *r;
	int i;

	for (i = 0; !hal_spin_trylock(&m->map_lock); i++)
		if (i == TRIES)
			return FOUND_BUSY;
	r = hal_range_find(&m->used, addr);
	if (r)
		*range = *r;
	hal_spin_unlock(&m->map_lock);
	return r ? FOUND : FOUND_NONE;
}

static void report(struct model_device *dev, uint64_t addr)
{
	struct hal_range r = { 0 };
	struct line l = { .len = 0 };
	ssize_t n;

	put_text(&l, "libnpu: the host touched ");
	put_number(&l, addr, 16);
	put_text(&l, ", memory of simnpu");
	put_number(&l, dev->index, 10);
	switch (find(&dev->mem, addr, &r)) {
	case FOUND:
		put_text(&l, ": byte ");
		put_number(&l, addr - r.start, 10);
		put_text(&l, " of the allocation of ");
		put_number(&l, r.size, 10);
		put_text(&l, " bytes at ");
		put_number(&l, r.start, 16);
		break;
	case FOUND_NONE:
		put_text(&l, ": freed or never allocated device address");
		break;
	case FOUND_BUSY:
		put_text(&l, ": allocations are changing, it can't be said which");
		break;
	}
	put_text(&l, ". Copy it with npu_memcpy().\n");
	n = hal_sys_get()->write(STDERR_FILENO, l.text, l.len);
	(void)n;	/* there is nobody left to tell */
}

/* To the handler that was there before us, as if we were not. */
static void pass_on(int sig, siginfo_t *info, void *context)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	if (before.sa_flags & SA_SIGINFO) {
		before.sa_sigaction(sig, info, context);
		return;
	}
	if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
		before.sa_handler(sig);
		return;
	}
	/* a fault can't be ignored; what another process sent can */
	if (info->si_code <= 0 && before.sa_handler == SIG_IGN)
		return;
	sigaction(sig, &dfl, NULL);
	if (info->si_code <= 0)
		raise(sig);	/* it comes when we are done; a fault comes by itself */
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	uint64_t addr = (uintptr_t)info->si_addr;
	struct model_device *dev;
	int err = errno;
	uint32_t i;

	for (i = 0; info->si_code > 0 && i < SIMNPU_MAX_DEVICES; i++) {
		dev = model_device_of(i);
		if (!dev || !atomic_load(&dev->live) || addr - dev->mem.start >= dev->mem.size)
			continue;
		report(dev, addr);
		break;
	}
	errno = err;
	pass_on(sig, info, context);
}

/* Once: whoever comes later stands before us, and passes on to us or does not. */
static void install_locked(void)
{
	struct sigaction ours = { .sa_sigaction = on_fault };

	if (installed || sigaction(SIGSEGV, NULL, &before))
		return;
	/* ours runs as the one behind it would */
	ours.sa_mask = before.sa_mask;
	ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (before.sa_flags & (SA_NODEFER | SA_RESTART));
	installed = !sigaction(SIGSEGV, &ours, NULL);
}

/**
 * model_segv_install() - name the allocation when the host touches device memory
 *
 * If the option says so; once in a process, and it stays: another handler may have come to stand
 * on ours. Without open devices it has nothing to say.
 */
void model_segv_install(void)
{
	if (!hal_option_bool(simnpu_options, "simnpu_fault_handler"))
		return;
	pthread_mutex_lock(&install_lock);
	install_locked();
	pthread_mutex_unlock(&install_lock);
}
