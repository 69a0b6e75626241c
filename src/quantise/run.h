/* SPDX-License-Identifier: Apache-2.0
 * A run of wisp_quantize_for_texts: two copies of the model, the texts, and which tensors get which
 * types. run.c quantises all of them, target.c chooses the types. Native only. */
#ifndef WISP_QUANTISE_RUN_H
#define WISP_QUANTISE_RUN_H

#include "engine/model.h"
#include "models/linears.h"
#include "quant/t158.h"
#include "quantise/choose_types.h"
#include "quantise/correct.h"
#include "quantise/replay.h"

/* Rows that a layer has seen and computed for one batch. */
struct capture {
    float *x, *y; /* [rows, k], [rows, n] */
    size_t n, k, rows;
};

/* Tensors that have one type: the matrices of a product, which is a dense layer of a layer, or one
 * tensor outside of the layers. */
struct item {
    const char *name; /* of the tensor outside of the layers; NULL: a product */
    uint32_t layer;
    size_t index;                      /* of the product among the dense layers of its layer */
    struct linear_entry product;       /* of the original */
    uint64_t elements;                 /* of all tensors */
    const struct block_format *format; /* NULL: that of the file stays, or floats of positions */
    struct type_choice choice;         /* the types that it can have */
};

/* A tensor that was quantised. */
struct told {
    struct tensor *tensor;
    const struct block_format *format;
    const struct item *item;
    double plain, error;
    struct t158_stats ternary;
};

/* A new file: the input's directory, whose tensors are quantised one by one. */
struct quantised {
    struct directory out;
    unsigned char *data; /* [capacity]: a source of `out`, with what was quantised */
    size_t used, capacity;
    uint32_t source;
    struct told *told; /* [n_told] */
    size_t n_told;
};

struct quantise_run {
    const wisp_quantize_options *options;
    const char *input;
    struct directory in;
    /* The second one has the layers of the new file. */
    wisp_model *original, *working;
    struct pool *team;
    struct arena arena;
    struct replay replay;
    struct replay_texts texts, held_out; /* of the latter there are none without a target */
    struct item *items;                  /* in the order in which they are quantised */
    size_t n_items;
    float *x0, *x1; /* states of all texts: of the original, of the working model */
    struct capture first, second;
    float *sum, *after; /* [longest_batch, hidden_size], and a state of the longest batch */
    size_t done, steps; /* batches that went through a product */
};

/* Returns the dense layer of a network that an item's product is. */
struct linear *item_linear(const struct network *network, const struct item *item);

/* Opens the input, with neurons of zeros if the options ask for them. */
wisp_status quantise_open_input(const struct quantise_run *run, struct directory *dir,
                                wisp_error *error);

/* Opens an empty new file with room for this many bytes. The caller closes it, also after
 * a failure. */
wisp_status quantised_open(struct quantised *q, const struct quantise_run *run, size_t capacity,
                           wisp_error *error);

void quantised_close(struct quantised *q);

/* Returns the bytes that quantising all items to their formats needs. */
size_t quantised_capacity(const struct quantise_run *run);

/* Quantises all items to their formats. */
wisp_status quantise_items(struct quantise_run *run, struct quantised *q, wisp_error *error);

/* Counts a step, and fails if the caller cancels. */
wisp_status quantise_advance(struct quantise_run *run, wisp_error *error);

/* Adds up what correct_matrix needs of a product over all texts: its inputs in the working model,
 * and the outputs that it should have. The states of the original move on behind a product that
 * ends a block. `s` has n and k; its arrays are taken from the arena. */
wisp_status sum_product(struct quantise_run *run, const struct item *item, struct layer_sums *s,
                        struct arena *scratch, wisp_error *error);

/* Reads the weights [rows, k] of a product. */
wisp_status load_item(const struct directory *dir, const struct item *item, size_t rows, size_t k,
                      float *weights, wisp_error *error);

/* Returns whether the layers of a product have biases. */
bool item_has_bias(const struct directory *dir, const struct item *item);

/* Rounds a tensor outside of the layers, or copies one that has the format, behind what the file in
 * the making has. `importances`, of the values of a row, may be NULL. */
wisp_status round_item(struct quantised *q, const struct item *item,
                       const struct block_format *format, const float *importances,
                       wisp_error *error);

/* Sets how much an error in each column of the logits' weights counts: the mean square
 * [hidden_size] of its input in these states. */
void logits_importances(const struct quantise_run *run, const float *states, float *importances);

/* Loads what an item's tensors are in a directory into the working model. */
wisp_status use_item(struct quantise_run *run, const struct directory *dir, const struct item *item,
                     wisp_error *error);

/* Lets an item's tensors be of a format: their bytes, one after the other, begin at q->data +
 * offset. */
wisp_status replace_item(struct quantised *q, const struct item *item,
                         const struct block_format *format, size_t offset, wisp_error *error);

/* Returns the names of an item's tensors, up to LINEAR_MAX_PARTS, with `suffix`. */
size_t item_names(const struct item *item, const char *suffix,
                  char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES]);

/* Returns a tensor that the directory has. */
struct tensor *quantised_tensor(struct directory *dir, const char *name);

/* Computes the states of all texts behind the embedding. */
wisp_status embed_texts(struct quantise_run *run, const struct network *network, float *states,
                        wisp_error *error);

/* Reports the tensors that were quantised. */
void quantise_report(const struct quantise_run *run, const struct quantised *q);

/* Chooses the formats of all items for options->target_bytes or target_cosine and quantises them.
 * `q` is the new file. The caller closes it, also after a failure. */
wisp_status quantise_to_target(struct quantise_run *run, struct quantised *q, wisp_error *error);

#endif
