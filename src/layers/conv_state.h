/* SPDX-License-Identifier: Apache-2.0
 * The state of a model's short convolutions for one sequence: the inputs of its last tokens, which
 * the convolutions of the next token need. Unlike keys and values, these cannot be cut back to an
 * earlier token: the state after n tokens is known only if it was kept. It is kept at the end of
 * the text, after every CONV_STATE_EVERY tokens, and at one mark, which may be anywhere.
 *
 * A pass writes the states that it reaches, and whoever runs it calls conv_state_commit if it
 * has ended. Until then the state at the end of the text stays, so that a pass may be dropped. */
#ifndef WISP_LAYERS_CONV_STATE_H
#define WISP_LAYERS_CONV_STATE_H

#include <stdbool.h>

#include "base/status.h"

enum { CONV_STATE_EVERY = 256 }; /* tokens */

struct conv_state {
    size_t layers, values; /* convolutions, and the floats that each keeps */
    size_t length;         /* tokens of the text */
    size_t mark;           /* a state is kept after so many tokens; 0: there is none */
    /* States [layers][values]. One after more than `length` tokens has no meaning. */
    float *end[2]; /* end[now] is the state after `length` tokens; a pass writes the other one */
    unsigned now;
    float *marked; /* after `mark` tokens */
    float **kept;  /* [kept_count]: after 1, 2, ... times CONV_STATE_EVERY tokens */
    size_t kept_count;
};

/* Opens the state of an empty text; with layers 0 all functions do nothing. The caller releases it,
 * also after an error. */
wisp_status conv_state_open(struct conv_state *state, size_t layers, size_t values,
                            wisp_error *error);

void conv_state_release(struct conv_state *state);

/* Makes room for the states of a text of n tokens. */
wisp_status conv_state_reserve(struct conv_state *state, size_t n, wisp_error *error);

/* Returns the most tokens, up to n, after which a state is known. */
size_t conv_state_known(const struct conv_state *state, size_t n);

/* Cuts the text to n tokens, after which a state is known. */
void conv_state_rewind(struct conv_state *state, size_t n);

/* Moves the mark to n tokens: the state after them is kept when a pass reaches it. The text has at
 * most n tokens now. */
void conv_state_mark(struct conv_state *state, size_t n);

/* Makes the first n tokens of a text those of another one, in which the state after n is known.
 * Both have the same first `shared` tokens, and room for n. */
void conv_state_copy(struct conv_state *to, const struct conv_state *from, size_t shared, size_t n);

/* Returns the values that a layer keeps of the tokens before the pass. */
const float *conv_state_values(const struct conv_state *state, size_t layer);

/* Returns place `index` for the values that a layer keeps after n tokens, or NULL past the last
 * place. The state after n tokens can have several places, such as the end of the text and the
 * mark. A pass that adds `added` tokens fills all places for each n that it reaches. */
float *conv_state_place(const struct conv_state *state, size_t layer, size_t n, size_t added,
                        size_t index);

/* Says that a pass has added n tokens. */
void conv_state_commit(struct conv_state *state, size_t n);

/* The states of a text of n tokens that a file holds: at its end, at the mark, and those after
 * every CONV_STATE_EVERY tokens. conv_state_at returns one of them [layers * values]. */
size_t conv_state_count(const struct conv_state *state, size_t n);
float *conv_state_at(const struct conv_state *state, size_t index);

/* Returns the bytes that the state holds. */
size_t conv_state_bytes(const struct conv_state *state);

#endif
