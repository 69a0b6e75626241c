/* SPDX-License-Identifier: Apache-2.0
 * Watches full attention: which steps each key-value head gives its weight to, and how far from
 * its output it would be if it looked at some of them only. */
#ifndef WISP_CALIBRATE_ATTENTION_WATCH_H
#define WISP_CALIBRATE_ATTENTION_WATCH_H

#include "attention/learned.h"
#include "base/arena.h"

enum { WATCH_MASKS = 18 };

/* Measurements of a key-value head in a layer. Arrays have room for `steps` steps. */
struct watched_head {
    /* The share of the weight, on average over the watched queries of a part, and of all parts that
     * were watched the largest: by distance, by step, and by block (ATTENTION_KEEPS_BLOCKS). */
    double *slash, *vertical, *blocks;
    double *sums[3]; /* the same of this part, added up */
    /* Masks that are tried: the error of the outputs as a share of their size (root mean squares),
     * of all parts the largest, and the steps that the mask has kept. */
    struct attention_mask_of_head mask[WATCH_MASKS];
    size_t masks;
    double error[WATCH_MASKS], kept[WATCH_MASKS];
    double wrong[WATCH_MASKS], all; /* of this part: sums of squares */
    double queries, visible;        /* of this part; steps that could have been kept, of all */
};

struct watch {
    struct attention_masks shape; /* its numbers; the masks are in `heads` */
    struct watched_head *heads;   /* [layers, kv_heads] */
    bool measures;                /* the masks; otherwise weights are added up */
    size_t from;                  /* positions before it are not watched */
};

/* Opens a watch on so many layers and heads, in the arena. */
wisp_status watch_open(struct watch *watch, struct arena *arena, wisp_error *error);

/* Ends a part: a text that has been read. */
void watch_end_part(struct watch *watch);

/* Marks a choice that uses the policy below instead of masks. */
struct watched_masks {
    struct attention_masks masks;
    struct watch *watch;
};

/* Full attention, which is watched. The members of a team watch different heads, so that what is
 * found does not depend on their number. */
extern const struct attention_policy attention_watched;

#endif
