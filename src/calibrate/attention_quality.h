/* SPDX-License-Identifier: Apache-2.0
 * The cost of an attention policy for a model: how well texts are predicted, and whether a sentence
 * in them is found again. */
#ifndef WISP_CALIBRATE_ATTENTION_QUALITY_H
#define WISP_CALIBRATE_ATTENTION_QUALITY_H

#include "engine/generation.h"

enum {
    QUALITY_READ = 512, /* tokens of a window that are predicted in calls that read texts, and */
    QUALITY_ADDED = 256 /* those that are predicted one at a time */
};

/* Ids [tokens], of which those from `known` on are to be predicted. */
struct attention_text {
    const int32_t *ids;
    size_t tokens, known;
};

struct attention_prediction {
    double nats;    /* of an id, on average */
    bool likeliest; /* each id was the likeliest one */
};

/* Predicts the end of a text, with the policies and in the sequence of a session that
 * generation_open has opened. With `one_by_one` each id is added by a call of its own. */
wisp_status attention_predict(wisp_session *session, const struct attention_text *text,
                              bool one_by_one, struct attention_prediction *found,
                              wisp_error *error);

/* Writes a text of so many tokens to `ids`: those of `filler`, within which, at a share of it,
 * stands a pass key, and a question at the end whose answer is that key, which is to be predicted.
 * Each number makes another key. Fails with WISP_ERROR_ARGUMENT if the tokens are too few. */
wisp_status attention_hide_needle(const wisp_model *model, const int32_t *filler, size_t tokens,
                                  double depth, uint32_t number, int32_t *ids,
                                  struct attention_text *text, wisp_error *error);

/* The keys that the session has looked at, as a share of those that it could see, and the bytes of
 * keys and values that it has read. */
struct attention_use {
    double seen, bytes;
};

struct attention_use attention_used(const wisp_session *session);

#endif
