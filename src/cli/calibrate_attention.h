/* SPDX-License-Identifier: Apache-2.0
 * wisp calibrate --attention. */
#ifndef WISP_CLI_CALIBRATE_ATTENTION_H
#define WISP_CLI_CALIBRATE_ATTENTION_H

#include "cli/cli.h"

/* Calibrates attention and prints what was found. Sets the functions of `options`. Returns an exit
 * code, after complaining if it is not EXIT_GOOD. */
int calibrate_attention(const char *model, const char *output, const wisp_text *texts, size_t n,
                        const wisp_calibrate_attention_options *options);

#endif
