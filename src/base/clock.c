/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#ifdef __wasm__

/* The host provides this function. It returns performance.now() / 1000. */
__attribute__((import_module("wisp"), import_name("seconds"))) double host_seconds(void);

double clock_seconds(void) {
    return host_seconds();
}

#else

#include <time.h>

double clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#endif
