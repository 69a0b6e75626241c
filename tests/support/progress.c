/* SPDX-License-Identifier: Apache-2.0 */
#include "support/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

bool stop_after(void *context, size_t done, size_t total) {
    struct stopping *stopping = context;
    assert_true(done <= total);
    return stopping->calls++ < stopping->most;
}
