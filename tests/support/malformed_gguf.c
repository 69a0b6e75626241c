/* SPDX-License-Identifier: Apache-2.0 */
#include "support/malformed_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

static void run_case(void **state) {
    const struct malformed *c = *state;
    struct gguf file;
    struct bytes out = {0};
    gguf_make(&file, &tiny_shape);
    c->alter(&file, c->value);
    gguf_write_bytes(&file, &out);
    expect_opening(&out, c->status, c->field, c->says);
    bytes_release(&out);
    gguf_release(&file);
}

int run_malformed(const char *group, const struct malformed *cases, size_t n) {
    struct CMUnitTest *tests = calloc(n, sizeof *tests);
    if (!tests)
        abort();
    for (size_t i = 0; i < n; i++)
        tests[i] = (struct CMUnitTest){.name = cases[i].name,
                                       .test_func = run_case,
                                       .initial_state = (void *)(uintptr_t)&cases[i]};
    const int failed = _cmocka_run_group_tests(group, tests, n, NULL, tear_down_temporary_folder);
    free(tests);
    return failed;
}
