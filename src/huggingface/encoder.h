/* SPDX-License-Identifier: Apache-2.0
 * How encoders in Hugging Face folders name their settings and tensors, and what GGUF calls these
 * (as llama.cpp's converter does). */
#ifndef WISP_HUGGINGFACE_ENCODER_H
#define WISP_HUGGINGFACE_ENCODER_H

#include "huggingface/config.h"
#include "huggingface/tensor_names.h"

struct hf_encoder {
    const char *type;         /* config.json's model_type */
    const char *architecture; /* general.architecture, and the prefix of its keys */
    const char *prefixes[2];  /* before all names of tensors where the model has a training head */
    struct hf_names tensors;
    /* Adds the metadata that depends on config.json, and refuses every setting that would need what
     * wisp does not compute. */
    wisp_status (*read_config)(struct directory *dir, const struct hf_config *config,
                               wisp_error *error);
};

/* Gives every tensor its GGUF name and drops the pooler and the training heads, which an embedding
 * does not use. A tensor that is neither known nor droppable is an error: what it would do to the
 * result is not known. */
wisp_status hf_encoder_rename_tensors(struct directory *dir, const struct hf_encoder *encoder,
                                      const struct hf_config *config, wisp_error *error);

#endif
