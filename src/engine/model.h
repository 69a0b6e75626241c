/* SPDX-License-Identifier: Apache-2.0
 * A model is a loaded network with its tokenizer and its choices. Any number of sessions use it. */
#ifndef WISP_ENGINE_MODEL_H
#define WISP_ENGINE_MODEL_H

#include "device/device.h"
#include "formats/chunks.h"
#include "models/network_load.h"
#include "tokenizers/codec.h"
#include "tokenizers/tokenizer.h"

struct token_settings;
struct class_labels;

struct wisp_model {
    struct directory dir;
    struct chunks chunks; /* by which bytes that come in parts are checked */
    struct network network;
    struct device device; /* computes embeddings instead of the processor; may be empty */
    struct tokenizer *tokenizer;
    const struct codec *codec;     /* the tokenizer's, of models that generate; else NULL */
    const char *default_prompt;    /* "" if there is none */
    uint32_t max_tokens;           /* longer texts are truncated */
    wisp_compute compute;          /* as what dense layers multiply; never AUTO */
    wisp_predictor predictor;      /* the choice that was made; never AUTO */
    struct sparse_plan plan;       /* zeroed if the model is not calibrated */
    struct sparse_plan gate_plan;  /* that of layers that choose by their gates */
    bool pool_prompt;              /* pooling includes the tokens of the prompt */
    uint32_t pair_separators;      /* between the texts of a pair */
    uint32_t dimensions;           /* values of an embedding; at most hidden_size */
    struct token_settings *tokens; /* of POOLING_TOKENS (token_vectors.h); else NULL */
    struct class_labels *labels;   /* of POOLING_RANK, natively (classify.h); else NULL */
    uint64_t least_memory;         /* that wisp_cold_stats has */
    double load_start, load_seconds;
    bool limit_due; /* it was opened with `memory`, and wisp_model_limit_memory has not followed */
    bool cold_limited; /* frames and slots for cold rows are fewer than they: reserve_cold */
};

/* Steps that read the rest of a model, after its network and tokenizer. Each product has a list
 * (src/products), which NULL ends. */
extern wisp_status (*const model_steps[])(wisp_model *model, wisp_error *error);

/* Scores texts by a model that generates, as wisp_judge does. NULL in products that cannot. */
extern wisp_status (*const rank_by_asking)(wisp_session *session, wisp_text query,
                                           const wisp_text *texts, size_t n, float *scores,
                                           wisp_error *error);

/* Returns whether the predictor compares logits with thresholds: lowrank and sentence do. */
bool model_has_thresholds(const wisp_model *model);

/* Returns whether the share of neurons that the predictor leaves out can be set. */
bool model_has_sparsity(const wisp_model *model);

/* Returns the bytes that the model holds besides its network. */
uint64_t model_other_bytes(const wisp_model *model);

/* Returns the sparsity that a calibrated model runs with unless the caller sets another. */
float model_default_sparsity(const wisp_model *model);

/* Loads the model that `dir` describes. Takes the directory over, also on failure. `start` is the
 * time at which opening the directory began. Fails if a choice in `options` is not available for
 * the model or this build, or if a tensor or key is missing, malformed or not supported. */
wisp_status model_load(struct directory *dir, const wisp_model_options *options, double start,
                       wisp_model **model, wisp_error *error);

#endif
