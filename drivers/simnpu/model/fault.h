/* SPDX-License-Identifier: MIT */
/*
 * The simulated device, inside: what goes wrong, by itself or on demand. Included by model.h.
 */
#ifndef DRIVERS_SIMNPU_MODEL_FAULT_H
#define DRIVERS_SIMNPU_MODEL_FAULT_H

#include "drivers/simnpu/model/queue.h"

struct model_worker;

/* error.c */
const struct model_gone *model_gone_before(const struct model_queue *q, uint64_t seq);

/* halt.c */
bool model_queue_claim(struct model_queue *q);
int model_gave_up(struct model_queue *q, uint64_t seq);
void model_halt_begin(struct model_queue *q, uint32_t code, const struct model_origin *origin);
void model_halt(struct model_queue *q);
int model_halt_device(struct model_device *dev, uint32_t code, const struct model_origin *origin,
		      uint64_t deadline);
bool model_queue_halted(struct model_queue *q);
bool model_stopped(struct model_queue *q);
void model_queue_tidy(struct model_queue *q);
int model_queue_abort(struct model_file *f, const struct simnpu_abort *arg);

/* state.c */
/* Changes with the state of any device, and when one is closed. */
extern _Atomic uint32_t model_changes;
void model_state_in_child(void);
void model_state_reset(struct model_device *dev);
void model_state_info(struct model_device *dev, struct simnpu_info *i);
int model_state_refuse(const struct model_device *dev);
bool model_state_lost(struct model_device *dev, uint32_t cause);
bool model_fault_mark(struct model_device *dev, uint32_t cause);
void model_fault_end(struct model_device *dev, const struct model_origin *origin,
		     struct model_queue *own);
void model_device_fault(struct model_device *dev, uint32_t cause,
			const struct model_origin *origin, struct model_queue *own);
int model_device_stop(struct model_file *f, const struct simnpu_stop *arg);
int model_device_restart(struct model_file *f, const struct simnpu_stop *arg);

/* poison.c; the rest of it in memory.h */
int model_poison(struct model_file *f, struct simnpu_poison *arg);
struct model_device *model_poison_mark(struct model_device *dev, uint64_t addr);
void model_poison_end(struct model_device *dev, struct model_device *of,
		      const struct model_origin *origin, struct model_queue *own);

/* ---- on demand: drivers/simnpu/simnpu_test.h says how --------------------------------------- */

#ifdef CONFIG_SIMNPU_FAULTS

/* fault.c */
int model_fault_now(int what);
void model_fault_in_child(void);

/* rules.c */
void model_rules_in_child(void);
int model_rules_open(void);
uint32_t model_rules_care(void);
bool model_rules_ioctl(struct model_device *dev, unsigned int nr, struct model_verdict *v);
bool model_rules_task(struct model_queue *q, uint32_t op, struct model_verdict *v);
uint32_t model_rules_alloc(int what);
void model_rules_odd(bool calls);
bool model_rules_new(const struct model_verdict *v);
bool model_rules_hold(struct model_verdict *v, uint64_t deadline,
		      const _Atomic uint32_t *word, uint32_t value);

/* act.c */
int model_act_before(struct model_device *dev, struct model_verdict *v);
void model_act_after(struct model_verdict *v);
int model_act_task(struct model_worker *w, struct model_queue *q, const struct simnpu_desc *d,
		   const struct simnpu_desc *slot);
void model_act_done(struct model_queue *q, const struct simnpu_desc *d);

/* plug.c */
void model_plug_in_child(void);
int model_plug_part(uint32_t node);
struct model_device *model_plug_open(int part);
void model_unplug(struct model_device *dev, uint64_t ns);
void model_replug(struct model_device *dev);

#else

static inline int model_fault_now(int what)
{
	(void)what;
	return 0;
}

static inline void model_rules_in_child(void)
{
}

static inline int model_rules_open(void)
{
	return 0;
}

static inline uint32_t model_rules_care(void)
{
	return 0;
}

static inline bool model_rules_ioctl(struct model_device *dev, unsigned int nr,
				     struct model_verdict *v)
{
	(void)dev;
	(void)nr;
	(void)v;
	return false;
}

static inline int model_act_before(struct model_device *dev, struct model_verdict *v)
{
	(void)dev;
	(void)v;
	return 0;
}

static inline void model_act_after(struct model_verdict *v)
{
	(void)v;
}

static inline int model_act_task(struct model_worker *w, struct model_queue *q,
				 const struct simnpu_desc *d, const struct simnpu_desc *slot)
{
	(void)w;
	(void)q;
	(void)d;
	(void)slot;
	return 0;
}

static inline void model_act_done(struct model_queue *q, const struct simnpu_desc *d)
{
	(void)q;
	(void)d;
}

static inline int model_plug_part(uint32_t node)
{
	return (int)node;
}

#endif

#endif /* DRIVERS_SIMNPU_MODEL_FAULT_H */
