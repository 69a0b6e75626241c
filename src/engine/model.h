/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_ENGINE_MODEL_H
#define WISP_ENGINE_MODEL_H

#include "models/network_load.h"
#include "text/tokenizer.h"

struct wisp_model {
    struct directory dir;
    struct network network;
    struct tokenizer *tokenizer;
    const char *default_prompt; /* "" where there is none */
    uint32_t max_tokens;
    bool int8;
    wisp_predictor predictor; /* never AUTO */
    struct sparse_plan plan;
    bool pool_prompt; /* mean pooling counts the prompt's tokens */
    double load_start, load_seconds;
};

/* Whether neurons are chosen by thresholds: lowrank and sentence. */
bool model_has_thresholds(const wisp_model *model);

/* The share of neurons that a calibrated model leaves out unless told otherwise. */
float model_default_sparsity(const wisp_model *model);

/* Loads the model that `dir` describes, taking the directory over in every case. `start` is when
 * opening it began. */
wisp_status model_load(struct directory *dir, const wisp_model_options *options, double start,
                       wisp_model **model, wisp_error *error);

#endif
