/* SPDX-License-Identifier: Apache-2.0
 * Drafts: guesses at the next tokens of a text, which a pass over all of them confirms or not. The
 * tokens that followed the text's last ones earlier in it are guessed to follow again.
 * Source: Saxena, Prompt Lookup Decoding (2023). */
#ifndef WISP_ENGINE_DRAFT_H
#define WISP_ENGINE_DRAFT_H

#include <stddef.h>
#include <stdint.h>

enum { MOST_DRAFTED = 16 };

/* How many tokens are guessed: as many more as guesses were right lately. Zeros begin. */
struct draft {
    size_t most;                   /* 0: the first guess is still to come */
    size_t pause;                  /* tokens to generate before the next guess */
    size_t n;                      /* of the pass under way */
    int32_t ids[MOST_DRAFTED + 1]; /* [1 + n]: the last token of the text, and the guesses */
};

/* Guesses up to `limit` tokens behind ids [n] and `last`, and writes `last` and the guesses to
 * draft->ids. */
void draft_guess(struct draft *draft, const int32_t *ids, size_t n, int32_t last, size_t limit);

/* Learns that the first `right` of the guesses were right. */
void draft_learn(struct draft *draft, size_t right);

#endif
