/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "base/pool.h"

struct shared_work {
    const struct pool_work *work;
    atomic_size_t next; /* the first item that no member has taken */
    atomic_bool failed;
    wisp_error error; /* the first failure */
};

/* Takes the next group, items [*first, *end). Returns false where none is left. */
static bool take_group(struct shared_work *s, size_t *first, size_t *end) {
    const struct pool_work *work = s->work;
    *first = atomic_load(&s->next);
    do {
        if (*first >= work->items)
            return false;
        *end = work->group_end ? work->group_end(work->context, *first) : *first + 1;
    } while (!atomic_compare_exchange_weak(&s->next, first, *end));
    return true;
}

static void run_member(void *context, uint32_t member) {
    struct shared_work *s = context;
    size_t first, end;
    while (!atomic_load(&s->failed) && take_group(s, &first, &end)) {
        wisp_error error;
        if (s->work->run(s->work->context, member, first, end, &error) != WISP_OK &&
            !atomic_exchange(&s->failed, true))
            s->error = error;
    }
}

wisp_status pool_each(struct pool *team, uint32_t members, const struct pool_work *work,
                      wisp_error *error) {
    struct shared_work s = {.work = work};
    pool_run(team, members, run_member, &s);
    if (!atomic_load(&s.failed))
        return WISP_OK;
    if (error)
        *error = s.error;
    return s.error.status;
}
