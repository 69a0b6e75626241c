/* SPDX-License-Identifier: Apache-2.0
 * A model that is evaluated, and its reference: the same model in f32 with all neurons. */
#ifndef WISP_CLI_EMBEDDERS_H
#define WISP_CLI_EMBEDDERS_H

#include "cli/cli.h"

enum { TESTED, REFERENCE, MODELS };

struct embedders {
    struct {
        wisp_model *model;
        wisp_session *session;
    } of[MODELS];
    size_t dimensions;
};

/* Opens both. Returns an exit code, after complaining if it is not EXIT_GOOD. */
int embedders_open(struct embedders *embedders, const struct model_arguments *arguments);

/* Also after a failure. */
void embedders_close(struct embedders *embedders);

#endif
