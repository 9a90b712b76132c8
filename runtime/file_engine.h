/* SPDX-License-Identifier: MIT */
/* Between the engine and its thread. */
#ifndef RUNTIME_FILE_ENGINE_H
#define RUNTIME_FILE_ENGINE_H

#include "runtime/file.h"

void *rt_io_thread(void *backend);
bool rt_io_take(struct hal_list *active);
void rt_io_ended(struct rt_io *io);

#endif /* RUNTIME_FILE_ENGINE_H */
