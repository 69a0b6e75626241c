/* SPDX-License-Identifier: Apache-2.0
 * An architecture: how one family of transformers is read, loaded and run. Each is a page in this
 * folder and a line in the table of architectures.c; docs/extending.md shows how to add one.
 *
 * Entries are coarse on purpose: another implementation of the same family, on another device, can
 * stand behind them with its own weights and working memory. */
#ifndef WISP_MODELS_ARCHITECTURE_H
#define WISP_MODELS_ARCHITECTURE_H

#include "base/workspace.h"
#include "formats/directory.h"
#include "models/model_config.h"

struct network; /* network.h */
struct pass;    /* pass.h */

/* How much one pass computes at most. */
struct pass_size {
    size_t texts, tokens;
    size_t longest;   /* tokens of a text */
    uint32_t members; /* threads that share the tokens */
};

/* The parts that a pass consists of, in this order; the middle two once for each layer. */
enum block { BLOCK_EMBED, BLOCK_ATTENTION, BLOCK_FEED_FORWARD, BLOCK_POOL, BLOCK_END };

struct cursor {
    uint32_t layer; /* 0 at BLOCK_EMBED, the number of layers at BLOCK_POOL and BLOCK_END */
    enum block block;
};

struct architecture {
    const char *name; /* a file is of this architecture if its general.architecture says so */
    bool embeds;      /* texts become embeddings */
    bool generates;   /* texts are continued; no code asks for it yet */

    /* Reads and checks the hyper-parameters. Writes all of *config, defaults included. */
    wisp_status (*read_config)(const struct directory *dir, struct model_config *config,
                               wisp_error *error);

    /* Reads weights into network->weights and adds their bytes to network->resident_bytes: `load`
     * those of no layer, then `load_layer` those of one layer, but for the token embedding and the
     * feed-forward layers, which are the same in all architectures. */
    wisp_status (*load)(struct network *network, wisp_error *error);
    wisp_status (*load_layer)(struct network *network, uint32_t layer, wisp_error *error);

    /* Frees network->weights, which may be NULL or loaded in part. */
    void (*release)(struct network *network);

    /* Takes a pass's working memory from `space`, or measures it (base/workspace.h). Measuring
     * comes without a pass. With a pass, sets pass->x [tokens, hidden_size], which every block
     * starts from, and keeps all places in pass->state. */
    void (*take)(const struct network *network, const struct pass_size *size,
                 struct workspace *space, struct pass *pass);

    /* Runs one block of the pass for the tokens of `member`. All members run the same blocks in the
     * same order, with a barrier before each, and call the same barriers within a block: a member
     * that fails goes on to them before it returns. A step that fails leaves the hidden states and
     * pass->x as they were, so that the block can be run again. */
    wisp_status (*step)(struct pass *pass, uint32_t member, struct cursor at, wisp_error *error);
};

#endif
