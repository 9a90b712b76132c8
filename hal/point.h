/* SPDX-License-Identifier: MIT */
/*
 * Points in streams, for users who want to know when memory is theirs again: nothing here fills a
 * record, and no failure is reported or counts as told.
 */
#ifndef HAL_POINT_H
#define HAL_POINT_H

#include "hal/stream.h"

/* The point behind the last task submitted; false: the handle is not good. Lock-free. */
bool hal_stream_last(uint64_t stream, struct hal_point *p);

/*
 * Whether a point has completed, well or not, or its stream is gone: one load, for use under a spin
 * lock. It says no of a stream without a timeline, for which there is hal_point_done().
 */
bool hal_point_passed(const struct hal_point *p);

/**
 * hal_point_drain() - wait until a point has completed, well or not
 * @p: the point
 * @timeout_ms: how long
 *
 * Whatever becomes of the tasks, they have ended then.
 * Return: 0; -ETIMEDOUT; -EDEADLK (inside a callback, and it has not completed), or as the driver
 * fails.
 */
int hal_point_drain(const struct hal_point *p, int64_t timeout_ms);

#endif /* HAL_POINT_H */
