/* SPDX-License-Identifier: Apache-2.0
 * The tokens that a grammar lets come next. */
#ifndef WISP_ENGINE_TOKEN_MASK_H
#define WISP_ENGINE_TOKEN_MASK_H

#include "text/codec.h"
#include "text/grammar_state.h"

/* The tokens of a vocabulary in the order of their bytes, so that tokens which begin alike are
 * beside each other and what they begin with is tried once. */
struct token_order {
    int32_t *ids;     /* [n]: all tokens that stand for text */
    uint32_t *shared; /* [n]: bytes at the start that the token before has too */
    size_t n, longest;
    size_t vocabulary_size;
};

wisp_status token_order_open(struct token_order *order, const struct codec *codec,
                             wisp_error *error);
void token_order_release(struct token_order *order);

/* Masks of the states that a text came through lately: most texts come back to few of them. */
enum { MASKS_KEPT = 16 };

struct kept_mask {
    struct grammar_item *items; /* [n]: the state; NULL: none */
    size_t n;
    uint8_t *allowed; /* [vocabulary_size / 8, rounded up]: bit 0 of byte 0 is token 0 */
};

struct token_mask {
    const struct codec *codec;
    const struct token_order *order;
    int32_t *ends; /* [n_ends]: tokens that end a text */
    size_t n_ends;
    struct grammar_state state;
    struct kept_mask kept[MASKS_KEPT];
    size_t next;     /* the mask to give up */
    uint32_t *nodes; /* [longest + 1]: the state's nodes after so many bytes of a token */
};

/* Begins a text, which the codec's tokens for it and those of stop_id [stop_ids] end. Grammar,
 * codec and order must outlive the mask. The caller releases it with token_mask_release, also after
 * an error. */
wisp_status token_mask_open(struct token_mask *mask, const struct wisp_grammar *grammar,
                            const struct codec *codec, const struct token_order *order,
                            const int32_t *stop_id, size_t stop_ids, wisp_error *error);

/* Points *allowed to the tokens that may come next. Those that end a text are among them where it
 * is complete. The mask lives until the next call. */
wisp_status token_mask_allowed(struct token_mask *mask, const uint8_t **allowed, wisp_error *error);

/* Reads a token, which is allowed. */
wisp_status token_mask_read(struct token_mask *mask, int32_t id, wisp_error *error);

void token_mask_release(struct token_mask *mask);

#endif
