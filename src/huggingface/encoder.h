/* SPDX-License-Identifier: Apache-2.0
 * How encoders in Hugging Face folders name their settings and tensors, and what GGUF calls these
 * (as llama.cpp's converter does). */
#ifndef WISP_HUGGINGFACE_ENCODER_H
#define WISP_HUGGINGFACE_ENCODER_H

#include "base/json.h"
#include "formats/directory.h"
#include "huggingface/json_file.h"

/* A config.json, with its path for errors. */
struct hf_config {
    const struct json *root;
    const char *file;
    uint32_t max_seq_length; /* the limit of tokens in sentence_bert_config.json; 0: none */
};

/* Tensors whose names start with `hf` in a folder start with `gguf` in a GGUF file. */
struct hf_name {
    const char *hf, *gguf;
    bool unbiased; /* a tensor that ends with "bias" is unknown */
};

struct hf_encoder {
    const char *type;         /* config.json's model_type */
    const char *architecture; /* general.architecture, and the prefix of its keys */
    const char *prefixes[2];  /* before all names of tensors where the model has a training head */
    const char *layer;        /* before a layer's number in the names of its tensors */
    const struct hf_name *names, *layer_names; /* each list ends with an entry of zeros */
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

/* ---- for read_config ------------------------------------------------------------------------ */

/* A field of config.json, another spelling of it or NULL, and the metadata key that it goes to. */
struct hf_field {
    const char *field, *other, *key;
};

/* Refuses two spellings of a setting, both given, unless they are the same number. */
wisp_status hf_check_spellings(const char *file, const char *name, const struct json *given,
                               const char *other_name, const struct json *other, wisp_error *error);

/* Adds a whole number of at least 1, which must be there. */
wisp_status hf_put_size(struct directory *dir, const struct hf_config *config,
                        const struct hf_field *field, wisp_error *error);

/* Adds a whole number of at least 1, or the fallback where config.json has none. */
wisp_status hf_put_size_or(struct directory *dir, const struct hf_config *config,
                           const struct hf_field *field, uint32_t fallback, wisp_error *error);

/* Adds a number, or *fallback where config.json has none. Without a fallback it must be there. */
wisp_status hf_put_number(struct directory *dir, const struct hf_config *config,
                          const struct hf_field *field, const double *fallback, wisp_error *error);

#endif
