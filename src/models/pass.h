/* SPDX-License-Identifier: Apache-2.0
 * A forward pass: a batch of texts on its way through a network. It runs block by block, can stop
 * before any block, and goes on where it stopped. */
#ifndef WISP_MODELS_PASS_H
#define WISP_MODELS_PASS_H

#include <stdatomic.h>

#include "base/pool.h"
#include "base/trace.h"
#include "models/network.h"
#include "models/stages.h"
#include "sparse/ffn.h"

enum {
    PASS_MOST_MEMBERS = 16,
    /* A member computes at most so many tokens of a block before it asks the hook again: of a model
     * of BERT-base's size that takes about 20 ms. Ordinary batches are smaller. */
    PASS_PART_TOKENS = 504
};

/* Texts packed one after the other, without padding. */
struct batch {
    size_t texts;
    const int32_t *ids;    /* [tokens], each below vocabulary_size */
    const size_t *starts;  /* [texts + 1]: text i is ids[starts[i] .. starts[i + 1]) */
    const size_t *skipped; /* [texts]: leading tokens that mean pooling leaves out; NULL for none */
};

/* A thread that runs a part of the pass, and where it notes what it did. */
struct pass_member {
    struct trace *trace;          /* may be NULL */
    struct sparse_counts *counts; /* [layers], to be added to; may be NULL */
};

struct pass {
    const struct network *network;
    struct batch batch;
    float *rows;             /* [texts, hidden_size]: the result */
    const float *thresholds; /* [layers, intermediate_size]; NULL where no predictor chooses */
    struct pass_member member[PASS_MOST_MEMBERS];
    uint32_t members;  /* 0 counts as 1 */
    struct pool *team; /* of the members; NULL where there is but one */

    /* Called by member 0 before each block, and may be NULL. Any status but WISP_OK stops the pass
     * there. Where the pass has one member, x [tokens, hidden_size] is pass->x as the block finds
     * it: at BLOCK_EMBED anything, at BLOCK_ATTENTION and BLOCK_FEED_FORWARD the inputs of that
     * block of layer `at.layer`, at BLOCK_POOL the rows to be pooled. Within the blocks of long
     * texts every member calls it now and then, with an x of NULL. */
    wisp_status (*hook)(void *context, struct cursor at, const float *x, wisp_error *error);
    void *hook_context;

    /* The rest is the pass's own. */
    size_t tokens;
    float *x;                /* [tokens, hidden_size]: what the next block reads. Where norms follow
                                blocks, the hidden states; where they stand before blocks, the norm
                                of the hidden states */
    void *state;             /* what the architecture has taken of the working memory */
    uint32_t position;       /* of the next block: 0 embeds, 1 + 2 l and 2 + 2 l are layer l's */
    atomic_uint stop_before; /* the position that no member goes beyond */
    atomic_uint failed_at;   /* the first position at which a step failed */
    atomic_bool has_error;   /* somebody has written `error` */
    wisp_error error;
};

/* Working memory for a pass of at most this size; SIZE_MAX where it cannot be addressed. */
size_t pass_workspace_bytes(const struct network *network, const struct pass_size *size);

/* Prepares a pass whose fields up to hook_context are set. `space` has pass_workspace_bytes left,
 * which stay in use until the pass has ended or is given up; giving it up needs no call. */
void pass_begin(struct pass *pass, struct workspace *space);

/* Runs the pass to its end, or until the hook or a step returns an error, which is returned. It may
 * be called again after that, and continues at the block where it stopped. However often it stops
 * and however many members share it, the result has the same bits. */
wisp_status pass_run(struct pass *pass, wisp_error *error);

/* Where a pass is that stopped. */
struct cursor pass_cursor(const struct pass *pass);

/* ---- for the pages of architectures --------------------------------------------------------- */

/* A barrier of all members: what one wrote before it, all read after it. */
void pass_barrier(const struct pass *pass, uint32_t member, struct cursor at);

/* Within a block, before a member's part that begins `done` tokens after its first: what the hook
 * says. Only texts longer than one part are asked for. */
wisp_status pass_ask(const struct pass *pass, struct cursor at, size_t done, wisp_error *error);

/* Whether all members have computed their parts of the block: called by all of them with their
 * status before they change hidden states, and a barrier where the pass is longer than one part.
 * Returns the member's own status, or that of another which has failed. */
wisp_status pass_agree(struct pass *pass, uint32_t member, struct cursor at, wisp_status status,
                       wisp_error *error);

/* The time since the member's last mark went into `stage` of the layer. */
void pass_mark(const struct pass *pass, uint32_t member, struct cursor at, enum stage stage);

/* The member's tokens, [first, first + n) of the batch. */
struct pass_tokens {
    size_t first, n;
};
struct pass_tokens pass_tokens(const struct pass *pass, uint32_t member);

/* Tokens of each member but the last, who may have fewer. */
size_t pass_tokens_each(size_t tokens, uint32_t members);

#endif
