/* SPDX-License-Identifier: Apache-2.0
 * The texts of a request. */
#ifndef WISP_SERVE_TEXTS_H
#define WISP_SERVE_TEXTS_H

#include "serve/call.h"

struct request_texts {
    wisp_text *texts; /* [n], in the call's arena */
    size_t n;
    uint64_t tokens; /* of all, as far as the model reads them */
};

/* Takes a string, a list of strings, a list of token ids or a list of such lists. Returns false
 * after a reply, as the function below does. */
bool texts_take(struct call *call, const struct json *input, const char *field,
                struct request_texts *texts);

/* Counts tokens, and refuses texts that are too long if they may not be cut. The model reads
 * `before` tokens and `prompt` before each text. */
bool texts_count(struct call *call, struct request_texts *texts, size_t before, const char *prompt,
                 bool may_cut, const char *field);

#endif
