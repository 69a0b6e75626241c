/* SPDX-License-Identifier: Apache-2.0
 * A team of threads that runs one function at a time. Idle threads sleep. In WebAssembly, where
 * work is shared among workers by the host instead, a team has one member: the caller. */
#ifndef WISP_BASE_POOL_H
#define WISP_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct pool;

enum { POOL_MAX_THREADS = 1024 };

/* Starts a team of `threads` threads, at most POOL_MAX_THREADS, which include the caller. The team
 * is smaller if the system grants fewer threads: pool_size tells its size. Fails only if
 * there is no memory. */
wisp_status pool_open(uint32_t threads, struct pool **team, wisp_error *error);

/* Starts the threads of the team again if this process is a fork of the one that started them: a
 * fork copies the calling thread only. The team never becomes larger than it was, and it is smaller
 * if the system grants fewer threads. Does nothing in the process that started them. */
void pool_renew(struct pool *team);

/* Ends the team's threads and frees it. `team` may be NULL. */
void pool_close(struct pool *team);

/* Returns the number of threads, which include the caller. */
uint32_t pool_size(const struct pool *team);

/* Calls function(context, member) once for each of members 0 .. n-1 at the same time, member 0 on
 * the calling thread, and returns when all have returned. n is at most the team's size. */
void pool_run(struct pool *team, uint32_t n, void (*function)(void *context, uint32_t member),
              void *context);

/* A barrier for the n members that pool_run has called: it returns when all of them have called it.
 * After the barrier all members see what any member wrote before it. Waiting members spin, because
 * members arrive within microseconds of one another, and yield if the others have not run. */
void pool_barrier(struct pool *team, uint32_t n);

/* Returns the seconds that members have waited in barriers for longer than their shares of work
 * explain, all together, since the team was opened: the system had not scheduled the member that
 * they waited for. 0 in WebAssembly, because waiting members soon sleep. */
double pool_waited(const struct pool *team);

/* Describes work that is cut into groups of consecutive items. */
struct pool_work {
    size_t items;
    /* Returns the end of the group that begins at item `first`. If this is NULL, each item is a
     * group. */
    size_t (*group_end)(const void *context, size_t first);
    /* Processes items [first, end) on the thread of `member`. */
    wisp_status (*run)(void *context, uint32_t member, size_t first, size_t end, wisp_error *error);
    void *context;
    /* For work that may pause. If `run` returns WISP_NEED_RANGES, its member takes no further
     * group, and the others go on. When the work continues, each member first calls `resume`, which
     * does nothing if that member has not paused, and returns what `run` would. */
    wisp_status (*resume)(void *context, uint32_t member, wisp_error *error); /* may be NULL */
    size_t next; /* the first item that no member has taken; 0 at the beginning */
};

/* Lets `members` members of the team process group after group until none is left or one fails.
 * Returns WISP_OK, or the first failure and its error, or WISP_NEED_RANGES if members paused: a
 * further call with the same work continues. */
wisp_status pool_each(struct pool *team, uint32_t members, struct pool_work *work,
                      wisp_error *error);

#endif
