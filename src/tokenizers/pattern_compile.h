/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_TOKENIZERS_PATTERN_COMPILE_H
#define WISP_TOKENIZERS_PATTERN_COMPILE_H

#include "base/arena.h"
#include "tokenizers/pattern_parts.h"

/* Compiles a regular expression into the arena. Returns NULL if it is malformed or uses what is not
 * supported, and then sets *refused to where; or to NULL if memory is short. */
const struct pattern *pattern_compile(struct arena *arena, const char *regex, const char **refused);

#endif
