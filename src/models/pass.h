/* SPDX-License-Identifier: Apache-2.0
 * A pass: one batch of texts on its way through a network. It runs block by block (architecture.h
 * lists the blocks), can stop before any block, and continues from there.
 *
 *     struct pass pass = {.network = &network, .batch = batch, .rows = rows, .hook = hook};
 *     pass_begin(&pass, &space);            // takes working memory; computes nothing yet
 *     status = pass_run(&pass, &error);     // runs blocks until the end or a failure
 *     if (status != WISP_OK)                // the hook stopped it before pass_cursor(&pass)
 *         status = pass_run(&pass, &error); // runs that block and the ones after it
 */
#ifndef WISP_MODELS_PASS_H
#define WISP_MODELS_PASS_H

#include <stdatomic.h>

#include "attention/kv_cache.h"
#include "base/pool.h"
#include "base/trace.h"
#include "layers/conv_state.h"
#include "models/rest.h"
#include "models/stages.h"
#include "sparse/ffn.h"
#include "sparse/gathered.h"
#include "sparse/neuron_cold.h"

enum {
    PASS_MAX_MEMBERS = 16,
    /* A member computes at most this many tokens of a block before it asks the hook again. A model
     * of the size of BERT-base computes them in about 20 ms. Ordinary batches are smaller. */
    PASS_TILE_TOKENS = 504
};

/* A batch holds the token ids of its texts one text after the other, without padding. */
struct batch {
    size_t texts;
    const int32_t *ids;   /* [tokens], each below vocabulary_size */
    const size_t *starts; /* [texts + 1]: text i is ids[starts[i] .. starts[i + 1]) */
    /* [tokens, hidden_size]: in place of ids, of architectures that take it; else NULL. */
    const float *hidden;
    const size_t *skipped; /* [texts]: leading tokens that pooling leaves out; may be NULL */
    /* [texts]: of an encoder, how many leading tokens of each text its tokens see; NULL: all. */
    const size_t *keys;
    const size_t *seconds; /* [texts]: the first token of each pair's second text; NULL: no pairs */
    /* [texts], for architectures that generate: the keys and values of the tokens before the ids,
     * which take the positions from cache->length on. There is room for them. A pass writes their
     * keys and values; whoever runs it sets cache->length when the pass has ended. */
    struct kv_cache *const *caches;
    /* [texts], for architectures with short convolutions: their states, which the pass reads and
     * writes in the same way. */
    struct conv_state *const *states;
    /* [texts]: which texts' tokens are those of a prompt, of which layers that choose neurons by
     * their gates compute all. NULL: none. */
    const bool *prompts;
    bool all_logits; /* compute logits for every token rather than the last of each text */
};

/* The places where one member of the team records its work, and rows that it keeps. */
struct pass_member {
    struct trace *trace;                /* receives the time of each stage; may be NULL */
    struct sparse_counts *counts;       /* [layers]: the pass adds neurons and times; may be NULL */
    struct attention_counts *attention; /* [layers]: the pass adds keys; may be NULL */
    struct token_rows *tokens;          /* for token_embedding_row; may be NULL */
};

struct pass {
    /* The caller sets these fields before pass_begin. */
    const struct network *network;
    struct batch batch;
    /* The last block writes here: pooled rows [texts, hidden_size] or, in an architecture that
     * generates, logits [texts, vocabulary_size]; with batch.all_logits they are [tokens,
     * vocabulary_size]. */
    float *rows;
    const float *thresholds;           /* [layers, intermediate_size]; NULL if no predictor runs */
    const struct gate_limit *gates;    /* [layers]; NULL if no layer chooses by its gates */
    struct attention_choice attention; /* the policies that compute attention; NULL: full */
    struct pass_member member[PASS_MAX_MEMBERS];
    uint32_t members; /* threads that split the tokens; 0 counts as 1 */
    /* The members split the outputs of each layer and the heads of attention instead, because there
     * are few tokens. Only for architectures that say so (architecture.h). */
    bool by_outputs;
    struct pool *team; /* runs the members; NULL if there is only one */

    /* Member 0 calls the hook before each block; the hook may be NULL. Any status but WISP_OK stops
     * the pass before that block. If the pass has one member, x [tokens, hidden_size] is
     * pass->x as the block finds it: at PASS_EMBED anything, at PASS_ATTENTION and
     * PASS_FEED_FORWARD the inputs of that block of layer `at.layer`, at PASS_OUTPUT those that
     * are pooled or become logits. In a batch of more than PASS_TILE_TOKENS tokens, every member
     * also calls the hook within blocks, with x NULL. */
    wisp_status (*hook)(void *context, struct cursor at, const float *x, wisp_error *error);
    void *hook_context;

    /* If cold neurons may be absent (sparse/neuron_cold.h), a feed-forward block that needs some
     * stops the pass with WISP_NEED_RANGES when its neurons are chosen. The pass holds them until
     * it has computed the block. A further run goes on with the choice that was made. */
    bool skip_absent; /* compute without absent neurons instead */
    uint64_t
        *skipped; /* [texts]: adds the neurons that were left out so, over all tokens and layers */

    /* The pass itself sets these fields. */
    size_t looked_up;        /* tokens whose embeddings have been looked up */
    struct neuron_hold hold; /* the cold neurons of the next feed-forward block, or of the last */
    size_t tokens;           /* in the batch */
    float *x;                /* [tokens, hidden_size]: the next block's inputs. If norms follow
                                blocks these are the hidden states, if they are before blocks
                                the norm of the hidden states */
    float *hidden;           /* [tokens, hidden_size]: the hidden states, to which blocks add */
    void *state;             /* the architecture's working memory */
    uint32_t position;       /* next block: 0 embeds; 1 + 2 l and 2 + 2 l belong to layer l */
    atomic_uint stop_before; /* the hook stopped the pass before this position */
    atomic_uint failed_at;   /* a step failed at this position */
    atomic_bool has_error;   /* a member has written `error` */
    bool awake;              /* the part of the weights that was asked for last could be read */
    wisp_error error;        /* the first failure of this run */
};

/* Returns the bytes of working memory that a pass of at most this size needs; SIZE_MAX if they
 * cannot be addressed. */
size_t pass_workspace_bytes(const struct network *network, const struct pass_size *size);

/* Fails if a policy of the choice cannot compute the attention of some layer. */
wisp_status pass_check_attention(const struct network *network,
                                 const struct attention_choice *choice, wisp_error *error);

/* Prepares a pass, of which the caller has set the fields above. Takes pass_workspace_bytes from
 * `space`; the memory stays in use until the pass has ended. A stopped pass may simply be dropped,
 * unless pass_run returned WISP_NEED_RANGES: then pass_give_up must be called. */
void pass_begin(struct pass *pass, struct workspace *space);

/* Runs the pass to its end. Stops early if the hook or a block fails, and returns that status
 * with its error. A further call continues with the block at which the pass stopped. The rows have
 * the same bits however often the pass stops and however many members it has. */
wisp_status pass_run(struct pass *pass, wisp_error *error);

/* Returns how many tokens, behind those that have been looked up, are looked up at a time: all
 * that are left, or as many as can be held. */
static inline size_t pass_tokens_to_look_up(const struct pass *pass) {
    const size_t left = pass->tokens - pass->looked_up;
    const size_t room = token_embedding_room(&pass->network->tokens);
    return left < room ? left : room;
}

/* Ends what a stopped pass holds, so that it may be dropped. */
void pass_give_up(struct pass *pass);

/* Returns the next block to run, which is PASS_END after the last. */
struct cursor pass_cursor(const struct pass *pass);

/* ---- functions for architectures ------------------------------------------------------------ */

/* Waits until all members have called it. Every member then reads what each wrote before. The time
 * counts as STAGE_WAIT of the block `at`. */
void pass_barrier(const struct pass *pass, uint32_t member, struct cursor at);

/* Asks the hook within a block whether the member goes on, and returns the hook's status. `done`
 * counts the tokens of this block that the member has computed. The hook is called only if
 * `done` is above 0 and the batch has more than PASS_TILE_TOKENS tokens. */
wisp_status pass_ask_hook(const struct pass *pass, struct cursor at, size_t done,
                          wisp_error *error);

/* Reads a part of the layer's weights that rests, for all members, which call it together; returns
 * the same status to all. If that is WISP_OK, all call pass_sleep after they have used it. */
wisp_status pass_wake_part(struct pass *pass, uint32_t member, struct cursor at,
                           enum rest_part part, wisp_error *error);
static inline wisp_status pass_wake(struct pass *pass, uint32_t member, struct cursor at,
                                    enum rest_part part, wisp_error *error) {
    return WEIGHTS_MAY_REST && pass->network->rest ? pass_wake_part(pass, member, at, part, error)
                                                   : WISP_OK;
}

void pass_sleep_part(const struct pass *pass, uint32_t member, struct cursor at,
                     enum rest_part part);
static inline void pass_sleep(const struct pass *pass, uint32_t member, struct cursor at,
                              enum rest_part part) {
    if (WEIGHTS_MAY_REST && pass->network->rest)
        pass_sleep_part(pass, member, at, part);
}

/* Tells the other members how this one's part of the block ended. All members call it once in a
 * block, before any of them changes hidden states, so that a block either changes them all or none.
 * Returns the member's own status if it failed, otherwise the failure of another member. It is a
 * barrier if the batch has more than PASS_TILE_TOKENS tokens; in a smaller batch the hook stops
 * nobody within a block, and the function only returns `status`. */
wisp_status pass_join_status(struct pass *pass, uint32_t member, struct cursor at,
                             wisp_status status, wisp_error *error);

/* Does so for a batch of any size: it always is a barrier. */
wisp_status pass_agree(struct pass *pass, uint32_t member, struct cursor at, wisp_status status,
                       wisp_error *error);

/* Adds the time since the member's last mark to `stage` of the block's layer. */
void pass_mark(const struct pass *pass, uint32_t member, struct cursor at, enum stage stage);

/* Tokens [first, first + n) of the batch. */
struct pass_tokens {
    size_t first, n;
};

/* Returns the tokens that the member computes, which are all if members split outputs. */
struct pass_tokens pass_tokens(const struct pass *pass, uint32_t member);

/* The tokens of one text that one member computes. */
struct text_slice {
    size_t start, tokens; /* the text begins at token `start` of the batch */
    size_t first, end;    /* the member computes [first, end), counted from `start`; none if
                             first >= end */
};

/* Returns the tokens of text i that are among a member's tokens `own`. */
struct text_slice pass_text_slice(const struct pass *pass, size_t i, struct pass_tokens own);

/* Returns the working memory that attention of any layer needs in a pass of this size. */
size_t pass_attention_bytes(const struct network *network, const struct pass_size *size);

/* Computes y [n, outputs] = layer(x [n, inputs]) for n tokens of a member, and asks the hook before
 * every PASS_TILE_TOKENS of them. `scratch` has linear_workspace_bytes left for as many tokens. */
wisp_status pass_apply_linear(const struct pass *pass, struct cursor at, const struct linear *layer,
                              const float *x, size_t n, float *y, struct workspace scratch,
                              wisp_error *error);

/* Computes the member's share of the outputs y [tokens, outputs] = layer(x), if members split
 * outputs. Returns the share. A barrier must follow before any member reads y. `scratch` has
 * linear_workspace_bytes left for the tokens of the pass. */
struct pass_outputs {
    size_t first, n;
};
struct pass_outputs pass_apply_outputs(const struct pass *pass, uint32_t member,
                                       const struct linear *layer, const float *x, size_t tokens,
                                       float *y, struct workspace scratch);

/* Returns the share of `items` that a member computes, in whole multiples of `step`. */
struct pass_outputs pass_share(const struct pass *pass, uint32_t member, size_t items, size_t step);

/* Returns how many of the `queries` that are left a member computes, for sequences of `keys` keys,
 * before it asks the hook again. */
size_t pass_queries_at_once(const struct pass *pass, size_t keys, size_t queries);

/* Returns how many of `tokens` each of the first members computes; the last ones may have fewer. */
size_t pass_tokens_each(size_t tokens, uint32_t members);

#endif
