/* SPDX-License-Identifier: Apache-2.0
 * The texts that a session of a generating model keeps between calls. */
#ifndef WISP_ENGINE_SEQUENCE_H
#define WISP_ENGINE_SEQUENCE_H

#include "attention/kv_cache.h"
#include "base/workspace.h"
#include "device/library.h"
#include "engine/step_members.h"
#include "engine/token_mask.h"
#include "layers/conv_state.h"
#include "tokenizers/codec.h"

/* A text as far as it was computed. */
struct sequence {
    struct kv_cache cache;
    struct conv_state conv; /* the state of short convolutions; empty if the model has none */
    struct token_list past; /* the tokens whose keys and values are in the cache */
    /* Has the keys and values if a device computes; the cache only says how many. Else NULL. */
    struct device_sequence *on_device;
};

/* Neurons of all layers. */
struct neuron_totals {
    uint64_t computed, contributing;
};

struct generation {
    /* [count]: texts that are kept between calls. The first is that of the session's last call;
     * calls with several texts use all. */
    struct sequence *sequences;
    size_t count;
    struct workspace space; /* holds logits and the working memory of the pass */
    struct step_members step_members;
    struct neuron_totals neurons; /* for each token of the last pass; before it ends, those that the
                                     session had computed before */
    uint64_t
        looked_at; /* keys that a key-value head has looked at in all layers, in the same way */
    struct device_step step;  /* of a device, that generation_begin has prepared */
    struct token_order order; /* zeros until a text has had a grammar */
};

/* Returns after how many of the n ids the sequence can go on: as many as it begins with or, in a
 * model with short convolutions, the most of them after which their state is known. `is_long` says
 * of the text that has the ids whether it is long (generation_is_long); a sequence of the other
 * kind can go on after none. */
size_t sequence_shared(const struct sequence *sequence, const int32_t *ids, size_t n, bool is_long);

/* Keeps the first n tokens of the text only, n being 0 or what sequence_shared has returned, and
 * goes on with a text that is long or not. */
void sequence_rewind(struct sequence *sequence, size_t n, bool is_long);

/* Makes the sequence keep the state after n tokens, where texts that begin with the same prompt go
 * on. It has at most n tokens now. */
void sequence_mark(struct sequence *sequence, size_t n);

/* Returns the bytes that a generation holds; 0 for NULL. */
size_t generation_bytes(const struct generation *generation);

/* Releases a generation; NULL is allowed. */
void generation_close(struct generation *generation);

#endif
