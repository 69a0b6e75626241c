/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bandwidth.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/pool.h"

/* The memory that is read is far larger than the caches. Of several readings the fastest counts. */
enum { BYTES = 256 << 20, TIMES = 4, SUMS = 8 };

struct reading {
    const uint64_t *words; /* [BYTES / 8] */
    uint32_t members;
    atomic_uint_fast64_t sum; /* keeps the compiler from leaving the reading out */
};

static void read_share(void *context, uint32_t member) {
    struct reading *r = context;
    const size_t each = BYTES / sizeof *r->words / r->members / SUMS * SUMS;
    const uint64_t *words = r->words + member * each;
    uint64_t sums[SUMS] = {0}, sum = 0;
    for (size_t i = 0; i < each; i += SUMS)
        for (size_t k = 0; k < SUMS; k++)
            sums[k] += words[i + k];
    for (size_t k = 0; k < SUMS; k++)
        sum += sums[k];
    atomic_fetch_add(&r->sum, sum);
}

double measure_bandwidth(uint32_t threads) {
    struct pool *pool = NULL;
    uint64_t *words = malloc(BYTES);
    double best = 0;
    if (words && pool_open(threads, &pool, NULL) == WISP_OK) {
        memset(words, 1, BYTES);
        struct reading reading = {.words = words, .members = pool_size(pool)};
        for (int i = 0; i < TIMES; i++) {
            const double start = clock_seconds();
            pool_run(pool, reading.members, read_share, &reading);
            const double speed = (double)BYTES / (clock_seconds() - start);
            best = speed > best ? speed : best;
        }
    }
    pool_close(pool);
    free(words);
    return best;
}
