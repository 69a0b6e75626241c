/* SPDX-License-Identifier: Apache-2.0
 * The heap of groups that may be evicted against a search through all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "sparse/group_heap.h"

enum { GROUPS = 61, STEPS = 20000 };

/* Returns the group of the fewest uses that is in the heap, the one used last among equals. */
static size_t search(const struct cold_group *groups, const bool *inside) {
    size_t found = GROUPS;
    for (size_t i = 0; i < GROUPS; i++) {
        const struct cold_group *g = &groups[i], *f = &groups[found % GROUPS];
        if (inside[i] &&
            (found == GROUPS || g->uses < f->uses || (g->uses == f->uses && g->last > f->last)))
            found = i;
    }
    return found;
}

static void the_first_is_what_a_search_finds(void **state) {
    static struct cold_group groups[GROUPS];
    static size_t order[GROUPS];
    struct group_heap heap = {.groups = groups, .order = order};
    bool inside[GROUPS] = {false};
    uint64_t random = 3;
    (void)state;
    for (uint64_t step = 1; step <= STEPS; step++) {
        const size_t group = (size_t)(random_next(&random) % GROUPS);
        const uint64_t what = random_next(&random) % 100;
        if (what < 60) { /* it is used, and may be evicted from then on */
            groups[group].uses += (uint32_t)(random_next(&random) % 3);
            groups[group].last = step / 4; /* several at a time */
            group_heap_put(&heap, group);
            inside[group] = true;
        } else if (what < 99) {
            group_heap_remove(&heap, group);
            inside[group] = false;
        } else {
            group_heap_age(&heap, GROUPS);
        }
        size_t n = 0;
        for (size_t i = 0; i < GROUPS; i++) {
            n += inside[i];
            assert_int_equal(groups[i].place != 0, inside[i]);
            assert_true(!inside[i] || order[groups[i].place - 1] == i);
        }
        assert_int_equal(heap.n, n);
        if (n > 0)
            assert_int_equal(order[0], search(groups, inside));
    }
    while (heap.n > 0) {
        assert_int_equal(order[0], search(groups, inside));
        inside[order[0]] = false;
        group_heap_remove(&heap, order[0]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_first_is_what_a_search_finds)};
    return cmocka_run_group_tests_name("groups that may be evicted", tests, NULL, NULL);
}
