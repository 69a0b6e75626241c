/* SPDX-License-Identifier: Apache-2.0
 * A team of one member, the caller, for WebAssembly, which has no threads here. */
#include "base/pool.h"

struct pool {
    uint32_t size;
};

static struct pool only_the_caller = {1};

wisp_status pool_open(uint32_t threads, struct pool **team, wisp_error *error) {
    (void)threads;
    (void)error;
    *team = &only_the_caller;
    return WISP_OK;
}

void pool_renew(struct pool *team) {
    (void)team;
}

void pool_close(struct pool *team) {
    (void)team;
}

uint32_t pool_size(const struct pool *team) {
    return team->size;
}

void pool_run(struct pool *team, uint32_t n, void (*function)(void *context, uint32_t member),
              void *context) {
    (void)team;
    (void)n;
    function(context, 0);
}

void pool_barrier(struct pool *team, uint32_t n) {
    (void)team;
    (void)n;
}

double pool_waited(const struct pool *team) {
    (void)team;
    return 0;
}
