/* SPDX-License-Identifier: Apache-2.0
 * The names of a folder's tensors, and those that GGUF has for them. */
#ifndef WISP_HUGGINGFACE_TENSOR_NAMES_H
#define WISP_HUGGINGFACE_TENSOR_NAMES_H

#include "formats/directory.h"

enum { HF_NAME_BYTES = 96 };

/* Tensors whose names start with `hf` in a folder start with `gguf` in a GGUF file, and go on with
 * "weight" or "bias". One whose name is `hf` has the name `gguf`. */
struct hf_name {
    const char *hf, *gguf;
    bool unbiased; /* a tensor that ends with "bias" is unknown */
};

struct hf_names {
    const char *layer; /* before a layer's number in the names of its tensors */
    const struct hf_name *names, *layer_names; /* each list ends with an entry of zeros */
};

/* Returns the part of `text` after `prefix`, or NULL if it does not start with it. */
const char *hf_after(const char *text, const char *prefix);

/* Returns whether `text` ends with `ending`. */
bool hf_ends_with(const char *text, const char *ending);

/* Writes the GGUF name of the tensor `hf`. Returns false if the model has no such tensor. */
bool hf_gguf_name(const struct hf_names *names, const char *hf, char gguf[HF_NAME_BYTES]);

/* Returns whether a tensor belongs to a layer beyond the block_count of the directory's metadata.
 * transformers leaves such layers out. */
bool hf_is_beyond_layers(const struct directory *dir, const struct hf_names *names,
                         const char *architecture, const char *name);

#endif
