/* SPDX-License-Identifier: Apache-2.0
 * A team of threads that runs one function at a time. Idle threads sleep. In WebAssembly, where
 * work is shared among workers by the host instead, a team has one member: the caller. */
#ifndef WISP_BASE_POOL_H
#define WISP_BASE_POOL_H

#include <stdint.h>

#include "base/status.h"

struct pool;

/* A team of `threads`, the caller included; fewer where the system grants fewer (pool_size says
 * how many). */
wisp_status pool_open(uint32_t threads, struct pool **team, wisp_error *error);

void pool_close(struct pool *team);

uint32_t pool_size(const struct pool *team);

/* Calls function(context, member) once for each of members 0 .. n-1 at the same time, member 0 on
 * the calling thread, and returns when all have returned. n is at most the team's size. */
void pool_run(struct pool *team, uint32_t n, void (*function)(void *context, uint32_t member),
              void *context);

/* For the n members that pool_run has called: returns when all of them have called it. What one did
 * before, the others see after. Waits awake, as what it waits for is to take microseconds. */
void pool_meet(struct pool *team, uint32_t n);

#endif
