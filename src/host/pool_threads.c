/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/quiet_thread.h"

/* Each condition has one waiter: if several threads wait, glibc before 2.41 can lose a wake-up
 * for ever (its bug 25847). */
struct member {
    struct pool *team;
    uint32_t index;
    pthread_t thread;
    pthread_cond_t wake; /* signals that the member has a job or the team closes */
    bool has_job;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t done; /* signals that the last helper has finished the job */
    void (*function)(void *context, uint32_t member);
    void *context;
    uint32_t running; /* the helpers that have not finished the job */
    bool closing;
    atomic_uint arrived;  /* the members that wait in pool_barrier */
    atomic_uint barriers; /* counts the barriers at which all members have arrived */
    atomic_ullong waited; /* nanoseconds that members waited in barriers for longer than spinning */
    atomic_uint late;     /* until 0, waiting members yield early */
    uint32_t size;        /* the caller and the helpers that started */
    uint32_t most;        /* the size when the team was opened */
    pid_t process;        /* the process that the helpers belong to */
    struct member members[]; /* the helpers, from index 1 */
};

/* The loop of a helper thread: it waits for a job, takes part in it, and so on until the team
 * closes. */
static void *run_helper(void *argument) {
    struct member *self = argument;
    struct pool *team = self->team;
    pthread_mutex_lock(&team->lock);
    for (;;) {
        while (!team->closing && !self->has_job)
            pthread_cond_wait(&self->wake, &team->lock);
        if (team->closing)
            break;
        self->has_job = false;
        void (*function)(void *, uint32_t) = team->function;
        void *context = team->context;
        pthread_mutex_unlock(&team->lock);
        function(context, self->index);
        pthread_mutex_lock(&team->lock);
        if (--team->running == 0)
            pthread_cond_signal(&team->done);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

/* Sets all fields but `most` to those of a team that has had no job, and starts helpers until the
 * team has `threads` members or the system grants no more. */
static void start_team(struct pool *team, uint32_t threads) {
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->done, NULL);
    team->running = 0;
    team->closing = false;
    atomic_store(&team->arrived, 0);
    atomic_store(&team->barriers, 0);
    atomic_store(&team->waited, 0);
    atomic_store(&team->late, 0);
    team->process = getpid();
    team->size = 1;
    while (team->size < threads) {
        struct member *next = &team->members[team->size];
        *next = (struct member){.team = team, .index = team->size};
        pthread_cond_init(&next->wake, NULL);
        if (!quiet_thread_start(&next->thread, NULL, run_helper, next)) {
            pthread_cond_destroy(&next->wake);
            break;
        }
        team->size++;
    }
}

wisp_status pool_open(uint32_t threads, struct pool **team, wisp_error *error) {
    const size_t bytes = sizeof(struct pool) + (size_t)threads * sizeof(struct member);
    struct pool *made = calloc(1, bytes);
    if (!made)
        return fail_memory(error, bytes);
    start_team(made, threads);
    made->most = made->size;
    *team = made;
    return WISP_OK;
}

void pool_renew(struct pool *team) {
    if (team->process != getpid())
        start_team(team, team->most);
}

void pool_close(struct pool *team) {
    if (!team)
        return;
    if (team->process != getpid()) {
        /* A fork has no helpers to wait for, and one of its parent's may have held the lock. */
        free(team);
        return;
    }
    pthread_mutex_lock(&team->lock);
    team->closing = true;
    for (uint32_t i = 1; i < team->size; i++)
        pthread_cond_signal(&team->members[i].wake);
    pthread_mutex_unlock(&team->lock);
    for (uint32_t i = 1; i < team->size; i++) {
        pthread_join(team->members[i].thread, NULL);
        pthread_cond_destroy(&team->members[i].wake);
    }
    pthread_cond_destroy(&team->done);
    pthread_mutex_destroy(&team->lock);
    free(team);
}

uint32_t pool_size(const struct pool *team) {
    return team->size;
}

void pool_run(struct pool *team, uint32_t n, void (*function)(void *context, uint32_t member),
              void *context) {
    if (n > 1) {
        pthread_mutex_lock(&team->lock);
        team->function = function;
        team->context = context;
        team->running = n - 1;
        for (uint32_t i = 1; i < n; i++) {
            team->members[i].has_job = true;
            pthread_cond_signal(&team->members[i].wake);
        }
        pthread_mutex_unlock(&team->lock);
    }
    function(context, 0);
    if (n > 1) {
        pthread_mutex_lock(&team->lock);
        while (team->running > 0)
            pthread_cond_wait(&team->done, &team->lock);
        pthread_mutex_unlock(&team->lock);
    }
}

static void spin(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* A member spins for a time in which the others arrive if they run. After that the system has not
 * scheduled the thread that it waits for, and it yields its CPU. If that happened lately, as it
 * does if the members are more than the free CPUs, it yields after the first burst. The clock is
 * read between bursts: a pause takes from 5 to 70 ns, by the processor. */
static void wait_for_barrier(struct pool *team, unsigned barrier) {
    enum { BURST = 100, LATELY = 8 };
    static const double SPIN_SECONDS = 50e-6;
    const unsigned late = atomic_load(&team->late);
    double now, end = INFINITY;
    do {
        for (int i = 0; i < BURST; i++, spin())
            if (atomic_load(&team->barriers) != barrier)
                return;
        now = clock_seconds();
        if (end == INFINITY)
            end = now + SPIN_SECONDS;
    } while (now < end && !late);
    while (atomic_load(&team->barriers) == barrier)
        sched_yield();
    const double waited = clock_seconds() - end;
    atomic_store(&team->late, waited >= 0 ? LATELY : late - 1);
    if (waited > 0)
        atomic_fetch_add(&team->waited, (unsigned long long)(waited * 1e9));
}

void pool_barrier(struct pool *team, uint32_t n) {
    const unsigned barrier = atomic_load(&team->barriers);
    if (atomic_fetch_add(&team->arrived, 1) + 1 == n) {
        atomic_store(&team->arrived, 0);
        atomic_fetch_add(&team->barriers, 1);
        return;
    }
    wait_for_barrier(team, barrier);
}

double pool_waited(const struct pool *team) {
    return (double)atomic_load(&team->waited) * 1e-9;
}
