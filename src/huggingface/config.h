/* SPDX-License-Identifier: Apache-2.0
 * Reads config.json: its settings become metadata under GGUF's keys. */
#ifndef WISP_HUGGINGFACE_CONFIG_H
#define WISP_HUGGINGFACE_CONFIG_H

#include "base/json.h"
#include "formats/directory.h"
#include "huggingface/json_file.h"

/* A config.json, with its path for errors. */
struct hf_config {
    const struct json *root;
    const char *file;
    uint32_t max_seq_length; /* the limit of tokens in sentence_bert_config.json; 0: none */
    bool embeds;             /* the folder's decoder makes embeddings */
    bool fills;              /* and its texts are filled up */
};

/* A field of config.json, another spelling of it or NULL, and the metadata key that it goes to. */
struct hf_field {
    const char *field, *other, *key;
};

/* Refuses two spellings of a setting, both given, unless they are the same number. */
wisp_status hf_check_spellings(const char *file, const char *name, const struct json *given,
                               const char *other_name, const struct json *other, wisp_error *error);

/* Adds a whole number from 1 to UINT32_MAX, which must be there. */
wisp_status hf_put_size(struct directory *dir, const struct hf_config *config,
                        const struct hf_field *field, wisp_error *error);

/* Reads a whole number from 1 to UINT32_MAX. If config.json has none, *size is the fallback; a
 * fallback of 0 makes that an error. */
wisp_status hf_read_size_or(const struct hf_config *config, const struct hf_field *field,
                            uint32_t fallback, uint32_t *size, wisp_error *error);

/* Adds a whole number as hf_read_size_or reads it. */
wisp_status hf_put_size_or(struct directory *dir, const struct hf_config *config,
                           const struct hf_field *field, uint32_t fallback, wisp_error *error);

/* Adds a number, or *fallback if config.json has none. Without a fallback it must be there. */
wisp_status hf_put_number(struct directory *dir, const struct hf_config *config,
                          const struct hf_field *field, const double *fallback, wisp_error *error);

/* A setting of which wisp supports one value, which is also what its absence stands for. */
struct hf_setting {
    const char *field;
    enum json_type wanted; /* JSON_NULL, JSON_FALSE or JSON_TRUE */
};

/* Refuses other values than those wanted. The list ends with an entry of zeros. */
wisp_status hf_check_settings(const struct hf_config *config, const struct hf_setting *settings,
                              wisp_error *error);

/* Reports WISP_ERROR_UNSUPPORTED: "`given` is not supported, only `wanted`". */
wisp_status hf_unsupported_setting(const struct hf_config *config, const char *field,
                                   const struct json *given, const char *wanted, wisp_error *error);

#endif
