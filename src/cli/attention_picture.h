/* SPDX-License-Identifier: Apache-2.0
 * A picture (SVG) of the blocks of keys that each layer and key-value head has looked at. */
#ifndef WISP_CLI_ATTENTION_PICTURE_H
#define WISP_CLI_ATTENTION_PICTURE_H

#include "cli/cli.h"

/* Writes the picture of a session that watches its attention. Returns an exit code, after
 * complaining if it is not EXIT_GOOD. */
int attention_picture_write(const wisp_session *session, const char *path);

#endif
