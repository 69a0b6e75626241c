/* SPDX-License-Identifier: Apache-2.0
 * How decoders in Hugging Face folders name their settings and tensors, and what GGUF calls these
 * (as llama.cpp's converter does). */
#ifndef WISP_HUGGINGFACE_DECODER_H
#define WISP_HUGGINGFACE_DECODER_H

#include "huggingface/config.h"
#include "huggingface/tensor_names.h"

struct hf_decoder {
    const char *type;         /* config.json's model_type */
    const char *class;        /* in config.json's architectures, where it has any */
    const char *architecture; /* general.architecture, and the prefix of its keys */
    struct hf_names tensors;  /* without "model.", which may stand before them */
    /* Adds the metadata that depends on config.json, and refuses every setting that would need what
     * wisp does not compute. */
    wisp_status (*read_config)(struct directory *dir, const struct hf_decoder *decoder,
                               const struct hf_config *config, wisp_error *error);
    /* Changes a tensor, which has its GGUF name, where GGUF has other values. NULL: no tensor. */
    wisp_status (*adapt)(struct directory *dir, struct tensor *tensor, wisp_error *error);
};

/* Reads config.json into metadata, and sets *vocabulary_size. */
wisp_status hf_decoder_read_config(struct directory *dir, const struct hf_decoder *decoder,
                                   const struct hf_config *config, uint32_t *vocabulary_size,
                                   wisp_error *error);

/* Gives every tensor its GGUF name and its GGUF values. A tensor that is not known is an error. */
wisp_status hf_decoder_read_tensors(struct directory *dir, const struct hf_decoder *decoder,
                                    const struct hf_config *config, uint32_t vocabulary_size,
                                    wisp_error *error);

/* ---- for read_config ------------------------------------------------------------------------ */

/* Adds the sizes of a decoder with grouped-query attention, the epsilon of its RMS norms and its
 * rotary positions. `needs_kv_heads`, `needs_head_dim`: the class of transformers has a number of
 * its own where config.json lacks the setting, so it must be given. Else every head has keys and
 * values of its own, and the heads share hidden_size. */
wisp_status hf_put_decoder(struct directory *dir, const struct hf_decoder *decoder,
                           const struct hf_config *config, bool needs_kv_heads, bool needs_head_dim,
                           wisp_error *error);

/* Adds the activation of the gates, unless it is silu. Refuses those that wisp does not compute. */
wisp_status hf_put_activation(struct directory *dir, const struct hf_config *config,
                              wisp_error *error);

#endif
