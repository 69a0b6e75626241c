/* SPDX-License-Identifier: Apache-2.0
 * The tokens that a grammar lets come next. */
#ifndef WISP_ENGINE_TOKEN_MASK_H
#define WISP_ENGINE_TOKEN_MASK_H

#include "grammar/grammar_state.h"
#include "tokenizers/codec.h"

/* A tree of texts: a node adds a byte to the one that it hangs on, and comes after it and before
 * the nodes that hang on itself. */
struct token_node {
    uint32_t end;   /* the first node that does not hang on this one */
    int32_t token;  /* that ends here; -1: none. Others of the same text: token_order.same */
    uint16_t depth; /* bytes before this one */
    uint8_t byte;
};

struct token_tree {
    struct token_node *nodes; /* [n] */
    uint32_t n;
};

/* The tokens of a vocabulary by their bytes, so that what tokens begin with is tried once. Plain
 * tokens have only plain characters (plain_byte), at most PLAIN_RUN; strings of JSON mostly allow
 * all of them, or the grammar's state says that it does (grammar_state_run). */
struct token_order {
    struct token_tree all, others; /* all tokens that stand for text; those that are not plain */
    uint8_t *plain;                /* a mask: the plain tokens */
    int32_t *same;                 /* [vocabulary_size]: another token of the same text; -1: none */
    size_t longest, vocabulary_size;
};

wisp_status token_order_open(struct token_order *order, const struct codec *codec,
                             wisp_error *error);
void token_order_release(struct token_order *order);
size_t token_order_bytes(const struct token_order *order);

/* Masks of the states that a text came through lately: most texts come back to few of them. */
enum { MASKS_KEPT = 64 };

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
    size_t next;  /* the mask to replace */
    uint32_t age; /* of the state, when they were made */
    /* A mask that is being computed: the next node of its tree. */
    struct kept_mask *unfinished; /* NULL: none */
    const struct token_tree *tree;
    uint32_t node;
};

/* Begins a text, which the codec's tokens for it and those of stop_id [stop_ids] end. Grammar,
 * codec and order must outlive the mask. The caller releases it with token_mask_release, also after
 * an error. */
wisp_status token_mask_open(struct token_mask *mask, const struct wisp_grammar *grammar,
                            const struct codec *codec, const struct token_order *order,
                            const int32_t *stop_id, size_t stop_ids, wisp_error *error);

/* Is asked often while a mask is computed. Sets *paused to let it wait for the next call, or fails.
 */
typedef wisp_status mask_check(void *context, bool *paused, wisp_error *error);

/* Computes the mask of the text so far, or goes on with that, so that token_mask_allowed has it.
 * Sets *paused if it waits. */
wisp_status token_mask_prepare(struct token_mask *mask, mask_check *check, void *context,
                               bool *paused, wisp_error *error);

/* Points *allowed to the tokens that may come next. Those that end a text are among them if it
 * is complete. The mask lives until the next call. */
wisp_status token_mask_allowed(struct token_mask *mask, const uint8_t **allowed, wisp_error *error);

/* Reads a token, which is allowed. */
wisp_status token_mask_read(struct token_mask *mask, int32_t id, wisp_error *error);

void token_mask_release(struct token_mask *mask);

#endif
