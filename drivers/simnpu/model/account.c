// SPDX-License-Identifier: MIT
/*
 * Accounts: what this process has of a device, within the limits of the part,
 * its quota, and, in a named instance, what others have; and what all devices take
 * of the host.
 */
#include <unistd.h>

#include "drivers/simnpu/model/model.h"
#include "drivers/simnpu/options.h"

static bool take(_Atomic uint64_t *account, uint64_t n, uint64_t limit)
{
	uint64_t used = hal_load_relaxed(account);

	do {
		if (n > limit || used > limit - n)
			return false;
		/* relaxed: an account carries no data */
	} while (!atomic_compare_exchange_weak_explicit(account, &used, used + n,
							memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

/* ---- the host's budget, of all devices together ----------------------------- */

static _Atomic uint64_t budget_used;

static uint64_t budget_total(void)
{
	uint64_t total = (uint64_t)hal_option_int(simnpu_options, "simnpu_host_budget");

	/* constants of the machine: not in the seam of hal/sys.h */
	if (!total)
		total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 4 * 3;
	return total;
}

/* Charges memory to the host's budget: 0 or -ENOMEM. */
int model_budget_charge(uint64_t size)
{
	return take(&budget_used, size, budget_total()) ? 0 : -ENOMEM;
}

/* The opposite. */
void model_budget_uncharge(uint64_t size)
{
	atomic_fetch_sub_explicit(&budget_used, size, memory_order_relaxed);
}

/* ---- a device -------------------------------------------------------------------- */

/**
 * model_quota() - what this process may have of a device
 * @what: of what
 *
 * Return: how much, 0: as much as there is.
 */
uint64_t model_quota(enum model_what what)
{
	static const char *const names[] = {
		[MODEL_BYTES] = "simnpu_quota_memory",
		[MODEL_QUEUES] = "simnpu_quota_streams",
		[MODEL_EVENTS] = "simnpu_quota_events",
	};

	return (uint64_t)hal_option_int(simnpu_options, names[what]);
}

static uint64_t limit_of(const struct model_device *dev, enum model_what what)
{
	switch (what) {
	case MODEL_BYTES:
		return dev->mem.total;
	case MODEL_QUEUES:
		return dev->part->max_queues;
	default:
		return dev->part->max_events;
	}
}

/**
 * model_charge() - take something of a device
 * @dev: the device
 * @what: of what
 * @n: how much
 *
 * Context: not under a spin lock. Return: 0, -ENOMEM (bytes) or -ENOSPC: there is not so much left,
 * or not for this process.
 */
int model_charge(struct model_device *dev, enum model_what what, uint64_t n)
{
	uint64_t limit = limit_of(dev, what), quota = model_quota(what);
	bool ok;

	ok = take(&dev->own[what], n, quota && quota < limit ? quota : limit);
	if (ok && model_named() && !model_instance_charge(dev, what, n, limit)) {
		atomic_fetch_sub_explicit(&dev->own[what], n, memory_order_relaxed);
		ok = false;
	}
	if (ok)
		return 0;
	return what == MODEL_BYTES ? -ENOMEM : -ENOSPC;
}

/* Gives it back. */
void model_uncharge(struct model_device *dev, enum model_what what, uint64_t n)
{
	/* relaxed: see above */
	atomic_fetch_sub_explicit(&dev->own[what], n, memory_order_relaxed);
	if (model_named())
		model_instance_uncharge(dev, what, n);
}

/* What other processes have. */
void model_others(struct model_device *dev, struct model_amount *others)
{
	*others = (struct model_amount){ { 0 } };
	if (model_named())
		model_instance_others(dev, others);
}
