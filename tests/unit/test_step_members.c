/* SPDX-License-Identifier: Apache-2.0
 * How many members compute a step of decoding, on a machine whose processors other programs take.
 * The machine is a model of one; no time passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/step_members.h"

enum { CORES = 4 };

struct machine {
    struct step_members choice;
    double now;
    double work;   /* seconds of a step by one member alone */
    unsigned busy; /* processors that other programs take */
};

/* Runs steps until `seconds` have passed. Returns how many a second. A member on a busy processor
 * makes all others wait for twice as long as the step takes without it. */
static double run(struct machine *m, double seconds, size_t tokens) {
    const double end = m->now + seconds;
    unsigned steps = 0;
    for (; m->now < end; steps++) {
        const uint32_t members = step_members_begin(&m->choice, CORES, tokens);
        assert_in_range(members, 1, CORES);
        double took = m->work / members, waited = 0.01 * took;
        if (members > CORES - m->busy) {
            waited = 2 * took * (members - 1);
            took *= 3;
        }
        m->now += took;
        step_members_end(&m->choice, took, waited, m->now);
    }
    return steps / seconds;
}

static void all_compute_on_a_free_machine(void **state) {
    struct machine m = {.work = 0.02};
    (void)state;
    assert_true(run(&m, 10, 1) > 0.99 * (double)CORES / m.work);
    assert_int_equal(m.choice.members, CORES);
}

static void fewer_compute_while_processors_are_busy_and_all_after_that(void **state) {
    (void)state;
    for (unsigned busy = 1; busy < CORES; busy++) {
        struct machine m = {.work = 0.02};
        run(&m, 1, 1);
        m.busy = busy;
        run(&m, 2, 1);
        assert_true(run(&m, 60, 1) > 0.9 * (double)(CORES - busy) / m.work);
        m.busy = 0;
        run(&m, 30, 1); /* each member that comes back waits for its trial */
        assert_true(run(&m, 10, 1) > 0.99 * (double)CORES / m.work);
    }
}

static void members_of_unequal_speed_all_stay(void **state) {
    struct machine m = {.work = 0.02};
    (void)state;
    for (int i = 0; i < 1000; i++) { /* they wait, and yet fewer would be slower */
        const uint32_t members = step_members_begin(&m.choice, CORES, 1);
        const double took = m.work / (members - 0.5);
        m.now += took;
        step_members_end(&m.choice, took, 0.3 * took * members, m.now);
    }
    assert_int_equal(m.choice.members, CORES);
}

static void steps_of_other_sizes_are_not_compared(void **state) {
    struct machine m = {.work = 0.02};
    (void)state;
    for (int i = 0; i < 200; i++) { /* a step of 8 tokens takes longer, and no window ends */
        m.work = i % 2 ? 0.02 : 0.1;
        run(&m, m.work / (double)CORES / 2, i % 2 ? 1 : 8);
    }
    assert_int_equal(m.choice.members, CORES);
}

static void a_smaller_team_begins_anew(void **state) {
    struct step_members s = {0};
    (void)state;
    assert_int_equal(step_members_begin(&s, 8, 1), 8);
    assert_int_equal(step_members_begin(&s, 3, 1), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_compute_on_a_free_machine),
        cmocka_unit_test(fewer_compute_while_processors_are_busy_and_all_after_that),
        cmocka_unit_test(members_of_unequal_speed_all_stay),
        cmocka_unit_test(steps_of_other_sizes_are_not_compared),
        cmocka_unit_test(a_smaller_team_begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
