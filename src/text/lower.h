/* SPDX-License-Identifier: Apache-2.0
 * Lower case. */
#ifndef WISP_TEXT_LOWER_H
#define WISP_TEXT_LOWER_H

#include <stdbool.h>

#include "base/status.h"

/* Writes a text of well-formed UTF-8 to *copy in lower case, and sets *lowered to it. Each
 * character is changed by itself, but with `by_words` a sigma at the end of a word has its other
 * form. The caller frees *copy. Fails if memory is short. */
wisp_status text_lower(wisp_text text, bool by_words, char **copy, wisp_text *lowered,
                       wisp_error *error);

#endif
