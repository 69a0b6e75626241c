/* SPDX-License-Identifier: Apache-2.0
 * A team of threads that runs one function at a time. Idle threads sleep. In WebAssembly, where
 * work is shared among workers by the host instead, a team has one member: the caller. */
#ifndef WISP_BASE_POOL_H
#define WISP_BASE_POOL_H

#include <stddef.h>
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

/* A barrier for the n members that pool_run has called: returns when all of them have called it.
 * What a member wrote before the barrier, all members read after it. Waits awake, because members
 * arrive within microseconds of one another. */
void pool_barrier(struct pool *team, uint32_t n);

/* Work that is cut into groups of items. */
struct pool_work {
    size_t items;
    /* Where the group ends that begins at item `first`; NULL: each item is a group. */
    size_t (*group_end)(const void *context, size_t first);
    /* Does items [first, end) on the thread of `member`. */
    wisp_status (*run)(void *context, uint32_t member, size_t first, size_t end, wisp_error *error);
    void *context;
};

/* Lets `members` members of the team take group after group until none is left or one fails.
 * Returns the first failure. */
wisp_status pool_each(struct pool *team, uint32_t members, const struct pool_work *work,
                      wisp_error *error);

#endif
