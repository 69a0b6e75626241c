/* SPDX-License-Identifier: Apache-2.0
 * src/cli/signals.c for the module: JavaScript takes the signals, and says when one came. */
#include "cli/cli.h"

#define IMPORT(name) __attribute__((import_module("wisp"), import_name(name)))

IMPORT("interrupted") int host_interrupted(void);

void watch_signals(wisp_session *session) {
    (void)session;
}

bool was_interrupted(void) {
    return host_interrupted() != 0;
}

bool wait_readable(int descriptor) {
    (void)descriptor;
    return !was_interrupted();
}
