/* SPDX-License-Identifier: Apache-2.0
 * How encoders in Hugging Face folders name their settings and tensors, and what GGUF calls these
 * (as llama.cpp's converter does). */
#ifndef WISP_HUGGINGFACE_ENCODER_H
#define WISP_HUGGINGFACE_ENCODER_H

#include "huggingface/config.h"
#include "huggingface/tensor_names.h"

struct hf_encoder {
    const char *type; /* config.json's model_type */
    /* Of encoders that share the type of another, which comes later: whether config.json's is this
     * one. Else NULL. */
    bool (*is_meant)(const struct hf_config *config);
    bool has_adapters;        /* tensors may have changes of several tasks (adapters.h) */
    const char *architecture; /* general.architecture, and the prefix of its keys */
    const char *prefixes[2];  /* before all names of tensors if the model has a training head */
    struct hf_names tensors;
    /* Adds the metadata that depends on config.json, and refuses every setting that would need what
     * wisp does not compute. */
    wisp_status (*read_config)(struct directory *dir, const struct hf_config *config,
                               wisp_error *error);
    /* Changes a tensor, which has its GGUF name, if GGUF has it otherwise. May be NULL. */
    wisp_status (*adapt)(struct directory *dir, struct tensor *tensor,
                         const struct hf_config *config, wisp_error *error);
    /* Returns whether the model computes without a tensor, which has its GGUF name, although its
     * names have it. May be NULL. */
    bool (*drops)(const struct hf_config *config, const struct tensor *tensor);
    /* Divides tensors that hold several of GGUF's, when all have their names. May be NULL. */
    wisp_status (*divide)(struct directory *dir, wisp_error *error);
};

/* Gives every tensor its GGUF name and drops the pooler and the training heads, which an embedding
 * does not use, unless `head` (may be NULL) names them. A tensor that is neither known nor
 * droppable is an error: what it would do to the result is not known. */
wisp_status hf_encoder_rename_tensors(struct directory *dir, const struct hf_encoder *encoder,
                                      const struct hf_name *head, const struct hf_config *config,
                                      wisp_error *error);

/* ---- for read_config and adapt -------------------------------------------------------------- */

/* Adds max_position_embeddings less the first `skipped` under `key`: embeddings of positions that
 * no token has. */
wisp_status hf_put_positions(struct directory *dir, const struct hf_config *config,
                             uint32_t skipped, const char *key, wisp_error *error);

/* Leaves out the first `skipped` rows of the embeddings of positions. Other tensors stay. */
wisp_status hf_skip_positions(struct directory *dir, struct tensor *tensor, uint32_t skipped,
                              wisp_error *error);

/* Adds the settings of a BERT but its token types, under the keys of `architecture`. The first
 * `skipped` positions are left out. `positions` is the position_embedding_type that is supported,
 * which may be absent if it is "absolute". */
wisp_status hf_put_bert(struct directory *dir, const struct hf_config *config,
                        const char *architecture, const char *positions, uint32_t skipped,
                        wisp_error *error);

/* Adds the number of token types. */
wisp_status hf_put_token_types(struct directory *dir, const struct hf_config *config,
                               wisp_error *error);

/* Adds the activation that the field names. */
wisp_status hf_put_bert_activation(struct directory *dir, const struct hf_config *config,
                                   const char *field, wisp_error *error);

extern const struct hf_name hf_bert_names[], hf_bert_layer_names[];

#endif
