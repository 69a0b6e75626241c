/* SPDX-License-Identifier: Apache-2.0
 * A team whose helpers are workers of the host, which share this module's memory: each is another
 * instance of the module, and stays in thread_run. The host starts helpers before it opens a
 * session, and ends them when it needs them no more: there is one team. */
#include <stdatomic.h>

#include "base/pool.h"

#define EXPORT(name) __attribute__((export_name(name)))

enum {
    MOST_HELPERS = 7,
    STACK_BYTES = 256 * 1024,
    TLS_BYTES = 256,
    /* A thread spins for some tenths of a millisecond, in which the others arrive as a rule: to
     * wake one that sleeps takes V8 as long as a stage of a short text. With a tenth of these, a
     * text of 64 tokens gained a factor of 1.3 from two threads instead of 1.8. */
    MOST_SPINS = 200000,
    /* Then it sleeps until it is woken, but looks whether a helper has failed every so often. */
    SLEEP_NANOSECONDS = 5000000,
    /* A helper without a job sleeps for longer, so that an idle page does next to nothing. */
    IDLE_NANOSECONDS = 1000000000,
    MOST_WAITS = 1000, /* of SLEEP_NANOSECONDS, for helpers that start */
    /* A job is a count and, in its low bits, the number of members that take part. */
    PARTICIPANT_BITS = 8
};

struct pool {
    uint32_t size;
    void (*function)(void *context, uint32_t member);
    void *context;
    _Atomic(int) job;      /* a count of jobs and the members of the last one */
    _Atomic(int) running;  /* helpers that have not finished the job */
    _Atomic(int) arrived;  /* members that wait in pool_barrier */
    _Atomic(int) barriers; /* counts the barriers at which all members have arrived */
    _Atomic(int) ready;    /* helpers that take jobs */
    _Atomic(int) failed;   /* a helper has ended: its part will never be done */
};

/* The job and the count of barriers, or of running helpers, that this member knows. They are in
 * memory, and are read again for each comparison: if functions change from V8's first compiler
 * to its second one while they run (Node 20), a helper whose local variable had the job ran it
 * twice, and the team waited for ever. With either compiler alone that never happened. */
static _Thread_local volatile int known_job, known_count;

static struct pool team = {.size = 1};
static _Alignas(16) char stacks[MOST_HELPERS][STACK_BYTES];
static _Alignas(16) char thread_locals[1 + MOST_HELPERS][TLS_BYTES];

/* The linker makes this function, which sets if an instance has its thread-local variables. */
void __wasm_init_tls(void *memory);

/* Waits while *value is *known, and wakes up at least every so many nanoseconds. Ends the instance
 * if a helper has failed. */
static void wait_while(_Atomic(int) *value, const volatile int *known, int64_t nanoseconds) {
    for (int spins = 0; atomic_load(value) == *known; spins++) {
        if (spins < MOST_SPINS)
            continue;
        __builtin_wasm_memory_atomic_wait32((int *)value, *known, nanoseconds);
        if (atomic_load(&team.failed))
            __builtin_trap();
    }
}

static void wake(_Atomic(int) *value) {
    __builtin_wasm_memory_atomic_notify((int *)value, MOST_HELPERS + 1);
}

/* Returns the end of the stack of helper `index`, from 1. The host sets the stack pointer of the
 * helper's instance to it before it calls thread_run. Returns NULL if there are no more. */
EXPORT("thread_stack") char *thread_stack(uint32_t index) {
    return index >= 1 && index <= MOST_HELPERS ? stacks[index - 1] + STACK_BYTES : NULL;
}

/* The life of helper `index`: it takes part in jobs until the host ends its worker. */
EXPORT("thread_run") void thread_run(uint32_t index) {
    __wasm_init_tls(thread_locals[index]);
    atomic_fetch_add(&team.ready, 1);
    wake(&team.ready);
    for (;;) {
        wait_while(&team.job, &known_job, IDLE_NANOSECONDS);
        known_job = atomic_load(&team.job);
        if (index >= (uint32_t)(known_job & ((1 << PARTICIPANT_BITS) - 1)))
            continue;
        team.function(team.context, index);
        if (atomic_fetch_sub(&team.running, 1) == 1)
            wake(&team.running);
    }
}

/* Returns how many members the team has. */
EXPORT("thread_count") uint32_t thread_count(void) {
    return team.size;
}

/* Returns the address of the number that the host sets to 1 if a helper has ended. */
EXPORT("thread_failure") _Atomic(int) *thread_failure(void) {
    return &team.failed;
}

wisp_status pool_open(uint32_t threads, struct pool **opened, wisp_error *error) {
    (void)error;
    __wasm_init_tls(thread_locals[0]);
    /* The host asks for helpers that are about to call thread_run. */
    for (int ready, waits = 0;
         (ready = atomic_load(&team.ready)) + 1 < (int)threads && waits < MOST_WAITS; waits++)
        __builtin_wasm_memory_atomic_wait32((int *)&team.ready, ready, SLEEP_NANOSECONDS);
    const uint32_t most = 1 + (uint32_t)atomic_load(&team.ready);
    team.size = threads < most ? threads : most;
    *opened = &team;
    return WISP_OK;
}

void pool_renew(struct pool *pool) {
    (void)pool;
}

void pool_close(struct pool *pool) {
    (void)pool;
}

uint32_t pool_size(const struct pool *pool) {
    return pool->size;
}

void pool_run(struct pool *pool, uint32_t n, void (*function)(void *context, uint32_t member),
              void *context) {
    if (n > 1) {
        const unsigned count = ((unsigned)atomic_load(&pool->job) >> PARTICIPANT_BITS) + 1;
        pool->function = function;
        pool->context = context;
        atomic_store(&pool->running, (int)n - 1);
        atomic_store(&pool->job, (int)(count << PARTICIPANT_BITS | n));
        wake(&pool->job);
    }
    function(context, 0);
    while (n > 1 && (known_count = atomic_load(&pool->running)) > 0)
        wait_while(&pool->running, &known_count, SLEEP_NANOSECONDS);
}

void pool_barrier(struct pool *pool, uint32_t n) {
    known_count = atomic_load(&pool->barriers);
    if (atomic_fetch_add(&pool->arrived, 1) + 1 == (int)n) {
        atomic_store(&pool->arrived, 0);
        atomic_fetch_add(&pool->barriers, 1);
        wake(&pool->barriers);
        return;
    }
    wait_while(&pool->barriers, &known_count, SLEEP_NANOSECONDS);
}

double pool_waited(const struct pool *pool) {
    (void)pool;
    return 0;
}
