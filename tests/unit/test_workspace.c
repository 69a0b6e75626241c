/* SPDX-License-Identifier: Apache-2.0
 * Working memory: one function measures and takes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "base/memory.h"
#include "base/workspace.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

struct parts {
    double *numbers;
    char *text;
    void *nothing;
    struct workspace lent;
};

static void take_parts(struct parts *p, struct workspace *space) {
    p->numbers = workspace_take(space, 3, 5, sizeof *p->numbers);
    p->text = workspace_take(space, 1, 7, 1);
    p->nothing = workspace_take(space, 0, 9, 8);
    p->lent = workspace_part(space, 100);
}

static void measured_is_what_is_taken(void **state) {
    (void)state;
    struct workspace measured = {0}, space = {0};
    struct parts p;
    wisp_error error;
    take_parts(&p, &measured);
    assert_null(p.numbers);
    assert_null(p.lent.base);
    assert_int_equal(workspace_reserve(&space, measured.used, &error), WISP_OK);
    take_parts(&p, &space);
    assert_int_equal(space.used, measured.used);
    assert_int_equal((uintptr_t)p.text % MEMORY_ALIGNMENT, 0);
    memset(p.numbers, 1, 15 * sizeof *p.numbers);
    memset(p.text, 2, 7);
    memset(p.lent.base, 3, 100);
    assert_int_equal(p.text[6], 2);
    assert_int_equal(((unsigned char *)p.numbers)[119], 1);
    /* A smaller need keeps the block. Parts that are taken from a copy are free again in the
     * original. */
    void *block = space.base;
    assert_int_equal(workspace_reserve(&space, 64, &error), WISP_OK);
    assert_ptr_equal(space.base, block);
    struct workspace copy = space;
    workspace_take(&copy, 1, 64, 1);
    assert_int_equal(space.used, 0);
    workspace_release(&space);
}

static void sizes_beyond_the_address_space_are_refused(void **state) {
    (void)state;
    struct workspace measured = {0}, space = {0};
    wisp_error error;
    workspace_take(&measured, SIZE_MAX / 2, 3, 8);
    assert_true(measured.used == SIZE_MAX);
    workspace_take(&measured, 1, 8, 1);
    assert_true(measured.used == SIZE_MAX);
    assert_int_equal(workspace_reserve(&space, measured.used, &error), WISP_ERROR_MEMORY);
    measured.used = SIZE_MAX - 10;
    workspace_take(&measured, 1, 64, 1);
    assert_true(measured.used == SIZE_MAX);
    assert_null(space.base);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_is_what_is_taken),
        cmocka_unit_test(sizes_beyond_the_address_space_are_refused),
    };
    return cmocka_run_group_tests_name("workspace", tests, NULL, NULL);
}
