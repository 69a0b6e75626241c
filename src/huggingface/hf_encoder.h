/* SPDX-License-Identifier: Apache-2.0
 * How Hugging Face's encoders name things, in GGUF's terms (those of llama.cpp's converter). */
#ifndef WISP_HUGGINGFACE_HF_ENCODER_H
#define WISP_HUGGINGFACE_HF_ENCODER_H

#include "base/json.h"
#include "formats/directory.h"

/* A config.json, with its path for errors. */
struct hf_config {
    const struct json *root;
    const char *file;
};

/* Tensors whose names start alike but for the model's or the layer's own start. */
struct hf_name {
    const char *hf, *gguf;
    bool unbiased; /* of these only the weight is known */
};

struct hf_encoder {
    const char *type;         /* config.json's model_type */
    const char *architecture; /* general.architecture, and the prefix of its keys */
    const char *layer;        /* before a layer's number in the names of its tensors */
    const struct hf_name *names, *layer_names; /* each ends with one without names */
    /* The metadata that depends on config.json, of which all is to be checked that could ask for
     * what this project does not compute. */
    wisp_status (*read_config)(struct directory *dir, const struct hf_config *config,
                               wisp_error *error);
};

/* The encoder that config.json is of. */
wisp_status hf_encoder_find(const struct hf_config *config, const struct hf_encoder **encoder,
                            wisp_error *error);

/* Gives every tensor its GGUF name and drops the pooler and the training heads, which an embedding
 * does not use. A tensor that is neither known nor droppable is an error: what it would do to the
 * result is not known. */
wisp_status hf_encoder_rename_tensors(struct directory *dir, const struct hf_encoder *encoder,
                                      wisp_error *error);

/* ---- for read_config ------------------------------------------------------------------------ */

/* A value as errors show it; "(none)" for NULL. */
const char *hf_shown(const struct json *value);

/* Where a field is to be found in config.json, and the key that it goes to: `other` is another
 * spelling of the field, or NULL. */
struct hf_field {
    const char *field, *other, *key;
};

/* The field under the name it has, in *name, or NULL. */
const struct json *hf_field_find(const struct hf_config *config, const struct hf_field *field,
                                 const char **name);

/* A whole number from 1 on that must be there. */
wisp_status hf_put_size(struct directory *dir, const struct hf_config *config,
                        const struct hf_field *field, wisp_error *error);

/* A number; where there is none *fallback, which may be NULL: then it must be there. */
wisp_status hf_put_number(struct directory *dir, const struct hf_config *config,
                          const struct hf_field *field, const double *fallback, wisp_error *error);

#endif
