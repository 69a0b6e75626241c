/* SPDX-License-Identifier: Apache-2.0
 * Cuts texts by a pre-tokenizer. */
#ifndef WISP_TOKENIZERS_PRETOKENIZE_H
#define WISP_TOKENIZERS_PRETOKENIZE_H

#include "base/arena.h"
#include "formats/pretokenizers.h"

/* A pre-tokenizer that is ready to cut texts. */
struct cutter {
    size_t steps;
    struct cutter_step {
        /* Finds the first match at or after `at`, and sets *to to its end; NULL: there is none. */
        const char *(*find)(const struct cutter_step *step, const char *at, const char *end,
                            const char **to);
        const struct pattern *pattern; /* of find_pattern */
        bool covers;                   /* nothing is between matches */
        bool groups; /* a match is cut into groups of three characters, from its end */
    } step[PRETOKENIZER_STEPS];
};

/* Compiles a pre-tokenizer's regular expressions into the arena. Fails if memory is short. */
wisp_status cutter_open(struct cutter *cutter, struct arena *arena,
                        const struct pretokenizer *pretokenizer, wisp_error *error);

/* Takes a pre-token, which is not empty. */
typedef wisp_status (*cutter_take)(void *context, const char *bytes, size_t length,
                                   wisp_error *error);

/* Calls `take` with each pre-token of a text of well-formed UTF-8, in time linear in the text. */
wisp_status cutter_each(const struct cutter *cutter, wisp_text text, cutter_take take,
                        void *context, wisp_error *error);

#endif
