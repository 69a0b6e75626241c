/* SPDX-License-Identifier: Apache-2.0
 * Feed-forward layers, and the kinds of them. A kind is one struct in one file (ffn_dense.c,
 * ffn_sparse.c, ffn_gate.c, ffn_experts.c, ffn_shared.c) and a row in the lists of src/products. */
#ifndef WISP_MODELS_FEED_FORWARD_H
#define WISP_MODELS_FEED_FORWARD_H

#include "layers/linear.h"
#include "models/architecture.h"
#include "models/weight_parts.h"
#include "sparse/ffn.h"
#include "sparse/gathered.h"

struct feed_forward_work; /* feed_forward_block.h */

/* A feed-forward layer, which has the weights of its kind; those of others are empty. */
struct feed_forward {
    const struct ffn_kind *kind;
    /* ffn_dense: W_gate [intermediate_size, hidden_size], empty in ungated layers; W_up, which has
     * W_gate's shape; W_down [hidden_size, intermediate_size]. */
    struct linear gate, up, down;
    struct sparse_ffn sparse;     /* ffn_sparse, whose neurons are in network->neurons; of ffn_gate
                                     the predictor, which may be empty */
    struct gathered_ffn gathered; /* ffn_gate, which has those of ffn_dense, too; if neurons may be
                                     absent, up and down rest in the file */
    struct linear router;         /* ffn_experts [experts, hidden_size], in floats; its experts are
                                     in network->experts */
    float *router_choice;         /* [experts]: added for the choice; NULL: nothing is */
    float *experts_bias;          /* [hidden_size]: added to their sum; NULL: nothing is */
};

/* The tokens of a batch that one member computes with a layer at a time. */
struct ffn_rows {
    size_t first, n; /* counted from the first token of the batch */
    const float *x;  /* [n, hidden_size] */
    float *y;        /* [n, hidden_size] */
    float *inner;    /* [feed_forward_inner_size, n] */
};

struct ffn_kind {
    const char *name;

    /* Returns whether layer `layer` is of this kind. `plan` is NULL if no neurons are skipped. */
    bool (*takes)(const struct network *network, const struct sparse_plan *plan, uint32_t layer);

    /* Reads the weights of a layer and adds their bytes to the network. Layers are read in order,
     * and the cache serves one after the other. Fails if a tensor is missing, has another shape
     * or an unsupported type, or cannot be read. */
    wisp_status (*load)(struct network *network, const struct sparse_plan *plan, uint32_t layer,
                        struct tensor_cache *cache, wisp_error *error);

    /* Frees what `load` read and `linears` does not list; it may be there in part. May be NULL. */
    void (*release)(const struct network *network, uint32_t layer);

    /* Lists the dense layers of a layer: see network_linears (linears.h). May be NULL. */
    size_t (*linears)(const struct network *network, uint32_t layer, struct linear_entry *out);

    /* Other weights that may rest in the file; NULL if there are none. `part` describes what is in
     * memory of a part, and leaves *about empty if the layer has no such part, or only dense layers
     * that `linears` lists. `read_part` and `release_part` do nothing then. */
    void (*part)(const struct network *network, uint32_t layer, enum rest_part part,
                 struct weight_part *about);
    wisp_status (*read_part)(const struct network *network, uint32_t layer, enum rest_part part,
                             wisp_error *error);
    void (*release_part)(const struct network *network, uint32_t layer, enum rest_part part);

    /* Returns the bytes of workspace that a member needs for this many tokens. */
    size_t (*workspace_bytes)(const struct network *network, size_t tokens);

    /* Takes working memory that all members use: see feed_forward_take. May be NULL. */
    void (*take)(const struct network *network, const struct pass_size *size,
                 struct workspace *space, struct pass *pass, struct feed_forward_work *work);

    /* Runs before the first rows of a block, for example to choose neurons. All members call it and
     * get the same status. May be NULL. */
    wisp_status (*prepare)(struct pass *pass, uint32_t member, struct cursor at,
                           const struct feed_forward_work *work, struct workspace space,
                           wisp_error *error);

    /* Returns the part of weights that `run` uses, which may rest until then. */
    enum rest_part (*needs)(const struct network *network);

    /* Returns another such part, or REST_PARTS if the pass uses no other. May be NULL. */
    enum rest_part (*needs_too)(const struct pass *pass);

    /* Computes some rows. A failure leaves them incomplete. */
    wisp_status (*run)(struct pass *pass, uint32_t member, struct cursor at,
                       const struct feed_forward_work *work, const struct ffn_rows *rows,
                       struct workspace space, wisp_error *error);

    /* Computes a member's outputs of all tokens: see feed_forward_run_outputs. NULL if members
     * cannot split outputs. */
    wisp_status (*run_outputs)(struct pass *pass, uint32_t member, struct cursor at, float *inner,
                               float *y, struct workspace space, wisp_error *error);

    /* Returns how many of network->resident_bytes a token that is generated does not read in layers
     * of this kind, which compute so many neurons together, and so many to the end; less than 0 if
     * it reads more that is not resident. NULL: it reads all. */
    int64_t (*unread_bytes)(const struct network *network, uint64_t computed,
                            uint64_t contributing);
};

extern const struct ffn_kind ffn_dense, ffn_sparse, ffn_gate, ffn_experts, ffn_shared;

/* The kinds that this product has (src/products); NULL ends them. The first that takes a layer
 * computes it; the last takes all others. */
extern const struct ffn_kind *const ffn_kinds[];

/* Returns the kind of a layer. There always is one. */
const struct ffn_kind *ffn_kind_for(const struct network *network, const struct sparse_plan *plan,
                                    uint32_t layer);

#endif
