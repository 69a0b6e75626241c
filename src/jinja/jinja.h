/* SPDX-License-Identifier: Apache-2.0
 * Runs templates in Jinja, the language of chat templates, as transformers runs them: values never
 * change, and a template reads and writes nothing but what it is given. Steps, depth and memory are
 * limited. What it cannot run is an error that names the line and the construct. */
#ifndef WISP_JINJA_JINJA_H
#define WISP_JINJA_JINJA_H

#include "jinja/value.h"

/* A variable that a template can read. */
struct jinja_variable {
    const char *name;
    struct value value;
    bool was_read; /* set if the template reads it */
};

struct jinja_call {
    wisp_text source;
    struct jinja_variable *variables; /* [n] */
    size_t n;
    const char *date; /* what strftime_now tells: "2026-11-26", and "T05:47:20" after it or not.
                         NULL: the function is not defined */
    const char *file; /* for errors; may be NULL */
};

/* Runs a template. *text is what it writes; its characters have JINJA_GIVEN if the template took
 * them from a value that had it. All memory is the arena's. Errors are WISP_ERROR_UNSUPPORTED if
 * the template cannot be run, and WISP_ERROR_ARGUMENT if it refuses the variables. */
wisp_status jinja_run(struct arena *arena, const struct jinja_call *call, struct value *text,
                      wisp_error *error);

#endif
