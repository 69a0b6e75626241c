/* SPDX-License-Identifier: Apache-2.0
 * Masks of steps for each layer and key-value head, which calibration has found in texts and
 * written into the model's file (formats/schema.h). */
#ifndef WISP_ATTENTION_LEARNED_H
#define WISP_ATTENTION_LEARNED_H

#include "attention/attention.h"
#include "formats/directory.h"

/* The steps that a key-value head attends to besides the first positions and a window of the last
 * ones. A mask was learned from texts of `steps` steps; what is further away than these is looked
 * at, but by local heads, since nothing says that it could be left out. */
enum attention_kind {
    ATTENTION_KEEPS_ALL,
    ATTENTION_KEEPS_LOCAL,  /* nothing */
    ATTENTION_KEEPS_LINES,  /* bit d: steps at distance d from a query's own; bit steps + s: step s
                             */
    ATTENTION_KEEPS_BLOCKS, /* bit q (q + 1) / 2 + k: the block k of MASK_STEPS steps is looked at
                               by the queries of block q >= k */
    ATTENTION_KINDS
};

enum { MASK_STEPS = 4 };

struct attention_mask_of_head {
    enum attention_kind kind;
    size_t window;             /* positions */
    const unsigned char *bits; /* attention_mask_bytes; of lines and blocks */
};

struct attention_masks {
    size_t layers, kv_heads;
    size_t steps, sinks;
    const unsigned char *kinds; /* [layers, kv_heads] */
    const int32_t *windows;     /* likewise */
    const unsigned char *bits;  /* [layers, kv_heads, attention_mask_bytes(steps)] */
};

enum { MASK_MOST_STEPS = 1 << 14 };

/* Returns the bytes of the bits of a head. */
size_t attention_mask_bytes(size_t steps);

/* Returns whether queries of a step look at a step that is not later. */
bool attention_mask_keeps(const struct attention_masks *masks,
                          const struct attention_mask_of_head *mask, size_t query_step,
                          size_t key_step);

enum { MASK_MODEL_BYTES = 32 };

/* Digests the model's norms, which are the same however its matrices are stored. */
wisp_status attention_masks_model(const struct directory *dir, unsigned char *digest,
                                  wisp_error *error);

#endif
