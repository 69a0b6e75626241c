/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "base/pool.h"

struct shared_work {
    const struct pool_work *work;
    atomic_size_t next; /* the first item that no member has taken */
    atomic_bool failed, paused;
    wisp_error error;      /* the first failure */
    wisp_error paused_for; /* the first reason to pause */
};

/* Takes the next group, items [*first, *end). Returns false if none is left. */
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
    const struct pool_work *work = s->work;
    wisp_error error;
    size_t first, end;
    wisp_status status = work->resume ? work->resume(work->context, member, &error) : WISP_OK;
    while (status == WISP_OK && !atomic_load(&s->failed) && take_group(s, &first, &end))
        status = work->run(work->context, member, first, end, &error);
    if (status == WISP_NEED_RANGES) {
        if (!atomic_exchange(&s->paused, true))
            s->paused_for = error;
    } else if (status != WISP_OK && !atomic_exchange(&s->failed, true)) {
        s->error = error;
    }
}

wisp_status pool_each(struct pool *team, uint32_t members, struct pool_work *work,
                      wisp_error *error) {
    struct shared_work s = {.work = work, .next = work->next};
    pool_run(team, members, run_member, &s);
    work->next = atomic_load(&s.next);
    const wisp_error *reason = atomic_load(&s.failed)   ? &s.error
                               : atomic_load(&s.paused) ? &s.paused_for
                                                        : NULL;
    if (reason && error)
        *error = *reason;
    return reason ? reason->status : WISP_OK;
}
