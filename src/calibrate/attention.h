/* SPDX-License-Identifier: Apache-2.0
 * Calibrates what attention leaves out. Native only. */
#ifndef WISP_CALIBRATE_ATTENTION_H
#define WISP_CALIBRATE_ATTENTION_H

#include "calibrate/attention_quality.h"
#include "calibrate/attention_watch.h"

enum { MOST_NEEDLES = 16, ATTENTION_TEXT_BYTES = 96 };

struct attention_calibration {
    const wisp_calibrate_attention_options *options;
    wisp_model *model;
    struct arena arena;
    size_t window, windows, needles;
    const int32_t *ids; /* [2 windows, window]: those to learn from, then those to measure on */
    int32_t *hidden;    /* [window]: the text with the sentence that is looked for */
    bool small;         /* of less than 1e9 parameters */
    struct watch watch; /* of the heads */
    size_t *chosen;     /* [layers, kv_heads]: the mask of each; WATCH_MASKS: all keys */
    struct attention_masks masks;      /* the chosen ones */
    char choice[ATTENTION_TEXT_BYTES]; /* that `auto` stands for */
};

/* Calls options->cancelled and options->progress. */
wisp_status attention_progress(const struct attention_calibration *c, const char *stage,
                               size_t done, size_t total, wisp_error *error);

/* Opens a session with a sequence. `policies` may be NULL: full. */
wisp_status attention_session(const struct attention_calibration *c, const char *policies,
                              wisp_session **session, wisp_error *error);

/* Finds c->masks. attention_learn.c */
wisp_status attention_learn(struct attention_calibration *c, wisp_error *error);

/* Finds c->choice. attention_choice.c */
wisp_status attention_find_choice(struct attention_calibration *c, wisp_error *error);

/* Replaces the masks and, if it is known, the choice of a directory. */
wisp_status attention_put(const struct attention_calibration *c, struct directory *dir,
                          wisp_error *error);

/* Writes the model at `input` with the masks and the choice. attention_write.c */
wisp_status attention_write(const struct attention_calibration *c, const char *input,
                            const char *output, wisp_error *error);

#endif
