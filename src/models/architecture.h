/* SPDX-License-Identifier: Apache-2.0
 * An architecture reads, loads and runs one family of transformers. Each has a file in this folder
 * and a row in lists of src/products; docs/extending.md shows how to add one.
 *
 * The table has few, coarse functions on purpose, so that an implementation for another device can
 * be behind them with weights and working memory of its own. */
#ifndef WISP_MODELS_ARCHITECTURE_H
#define WISP_MODELS_ARCHITECTURE_H

#include "attention/attention.h"
#include "base/workspace.h"
#include "formats/directory.h"
#include "models/model_config.h"

struct linear_entry; /* linears.h */
struct network;      /* network.h */
struct pass;         /* pass.h */

/* The size of a pass, or the most that several passes have. */
struct pass_size {
    size_t texts, tokens;
    size_t longest;                    /* tokens of the longest text, with those in its cache */
    uint32_t members;                  /* threads that split the work */
    bool by_outputs;                   /* they split the outputs of layers rather than the tokens */
    struct attention_choice attention; /* NULL: full attention */
};

/* The blocks of a pass, in this order; each layer has an attention and a feed-forward block. The
 * output block pools embeddings or computes logits. */
enum pass_block { PASS_EMBED, PASS_ATTENTION, PASS_FEED_FORWARD, PASS_OUTPUT, PASS_END };

/* A block of a pass. */
struct cursor {
    uint32_t layer; /* 0 at PASS_EMBED, the number of layers at PASS_OUTPUT and PASS_END */
    enum pass_block block;
};

struct architecture {
    const char *name; /* the value of general.architecture in its files */
    bool generates;   /* a decoder: it continues texts, unless config_embeds */
    bool by_outputs;  /* members of a pass can split outputs rather than tokens */
    bool norms_first; /* norms are before blocks: pass->x is not the hidden states */
    /* Outputs that end blocks go through a norm before they are added to the hidden states. */
    bool norms_outputs;
    /* Passes begin with batch.hidden: there are no tokens, and no embeddings of them. */
    bool takes_hidden;
    /* Of an image tower: a probe pools the patches (attention_pool.h), and there is no class. */
    bool has_probe;
    /* src/device has its layers: those of bert.c or, if it generates, of llama.c. */
    bool on_devices;
    /* A decoder that a prompt can ask whether a text answers a query (engine/judge.c). */
    bool judges;

    /* The names of its tensors: those outside of layers, and those within a layer, without
     * "blk.<layer>.". Each list ends with NULL. A name also allows tensors of that name with
     * ".weight" or ".bias" behind it. */
    const char *const *tensors, *const *layer_tensors;

    /* What the names of tensors begin with that are not of this architecture but of another one
     * that shares the file; NULL: the file has no such tensors. */
    const char *others;

    /* The architecture of the image tower in the same file; NULL: there is none. */
    const struct architecture *images;

    /* Reads the hyper-parameters and checks them. Writes all of *config, defaults included. Fails
     * if one is missing, out of range or not supported. */
    wisp_status (*read_config)(const struct directory *dir, struct model_config *config,
                               wisp_error *error);

    /* The bytes of network->weights, a struct that ends with an array of structs, one for each
     * layer. network_load allocates it, with zeros. */
    size_t weights_bytes, layer_bytes;

    /* Lists the dense layers of layer `layer` but those of its feed-forward block, or of those
     * outside of layers if `layer` is config.layers: see network_linears (linears.h). network_load
     * reads them, and network_release releases them. */
    size_t (*linears)(const struct network *network, uint32_t layer, struct linear_entry *out);

    /* Read what else network->weights has, norms for example, and add the bytes to
     * network->resident_bytes. `load` runs first and reads what is outside of layers, `load_layer`
     * what is in one layer. network_load reads the token embedding and the feed-forward layers for
     * all architectures. */
    wisp_status (*load)(struct network *network, wisp_error *error);
    wisp_status (*load_layer)(struct network *network, uint32_t layer, wisp_error *error);

    /* Frees what these two read, which may be there in part. */
    void (*release)(struct network *network);

    /* Describes the attention of a layer, which has some (config_is_conv): its heads, and the keys
     * that a query sees. */
    void (*attention)(const struct network *network, uint32_t layer, struct attention_shape *shape);

    /* Takes the working memory of a pass from `space`, or measures it (base/workspace.h), in which
     * case `pass` is NULL. size->attention is not NULL. With a pass, sets pass->x and pass->hidden
     * [tokens, hidden_size], and keeps all places in pass->state. */
    void (*take)(const struct network *network, const struct pass_size *size,
                 struct workspace *space, struct pass *pass);

    /* Sets *rope to the rotations of positions. Its arrays live as long as the network. NULL if the
     * architecture is not a decoder. */
    void (*rope)(const struct network *network, struct rope *rope);

    /* Runs one block of the pass for the tokens of `member`. All members run the same blocks in the
     * same order, with a barrier before each, and call the same barriers within a block: a member
     * that fails goes on to them before it returns. A step that fails leaves the hidden states and
     * pass->x unchanged, so that the block can run again. */
    wisp_status (*step)(struct pass *pass, uint32_t member, struct cursor at, wisp_error *error);
};

#endif
