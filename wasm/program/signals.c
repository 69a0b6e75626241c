/* SPDX-License-Identifier: Apache-2.0
 * src/cli/signals.c for the module: JavaScript takes the signals, and says when one came. */
#include "cli/cli.h"

#define IMPORT(name) __attribute__((import_module("wisp"), import_name(name)))

IMPORT("interrupted") int host_interrupted(void);
/* Forgets Ctrl-C, and returns whether it was one. */
IMPORT("go_on") int host_go_on(void);

static wisp_session *watched;

void watch_signals(wisp_session *session) {
    watched = session;
}

/* JavaScript calls this when the session asks it for the time, which is in every stage, after a
 * signal came. */
__attribute__((export_name("cancel"))) void program_cancel(void) {
    if (watched)
        wisp_session_cancel(watched);
}

bool go_on_after_interrupt(void) {
    return host_go_on() != 0;
}

bool was_interrupted(void) {
    return host_interrupted() != 0;
}

bool wait_readable(int descriptor) {
    (void)descriptor;
    return !was_interrupted();
}
