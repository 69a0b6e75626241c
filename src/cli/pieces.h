/* SPDX-License-Identifier: Apache-2.0
 * Divides a text that is too long for a model into pieces that fit. */
#ifndef WISP_CLI_PIECES_H
#define WISP_CLI_PIECES_H

#include "wisp.h"

/* Sets *length to the bytes of the first piece of a text that is not empty: all of it if it has at
 * most the model's max_tokens tokens behind the prompt (may be NULL), and else as much as fits, up
 * to the end of a sentence, of a word, or of a character. Fails with WISP_ERROR_ARGUMENT if the
 * prompt leaves no room for a character, and with WISP_ERROR_MEMORY. */
wisp_status piece_length(const wisp_model *model, const char *prompt, wisp_text text,
                         size_t *length, wisp_error *error);

#endif
