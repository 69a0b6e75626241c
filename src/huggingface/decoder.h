/* SPDX-License-Identifier: Apache-2.0
 * How decoders in Hugging Face folders name their settings and tensors, and what GGUF calls these
 * (as llama.cpp's converter does). */
#ifndef WISP_HUGGINGFACE_DECODER_H
#define WISP_HUGGINGFACE_DECODER_H

#include "huggingface/config.h"
#include "huggingface/rope_config.h"
#include "huggingface/tensor_names.h"

/* Says that a size which config.json lacks follows from others. */
#define HF_DERIVED UINT32_MAX

enum { HF_PREFIXES = 4 };

/* The sizes that the class of transformers takes if config.json lacks them. 0: it must have
 * them. */
struct hf_usual_sizes {
    uint32_t heads, positions, vocabulary_size;
    uint32_t kv_heads;  /* HF_DERIVED: as many as heads */
    uint32_t head_size; /* HF_DERIVED: hidden_size / heads */
    double epsilon;     /* 0: 1e-6, as most classes have it */
};

struct hf_images; /* clip_images.h */

struct hf_decoder {
    const char *type;  /* config.json's model_type */
    const char *class; /* in config.json's architectures, if it has any */
    /* The class without an output layer, which folders that make embeddings name too. NULL: wisp
     * makes no embeddings of the family's folders. */
    const char *bare;
    /* Returns whether a config.json of `type` belongs to this family, whose tokens see all others
     * and which only makes embeddings, rather than to the family of that type that generates.
     * NULL: tokens see those before them. */
    bool (*is_bidirectional)(const struct hf_config *config);
    const char *architecture; /* general.architecture, and the prefix of its keys */
    const char *part;         /* config.json's object of the decoder's settings; NULL: all of it */
    const char *prefixes[HF_PREFIXES]; /* of which one may be before the names of tensors */
    const char *const *others; /* names of other parts' tensors begin so; ends with NULL, or NULL */
    struct hf_names tensors;
    /* Without a modules.json a text's embedding is that of its last token, normalised, and folders
     * with one are refused. Else it is a mean. */
    bool pools_last;
    bool fills;                     /* texts are filled up with the tokenizer's padding token */
    const struct hf_images *images; /* clip_images.h; NULL: there is no image tower */
    bool tied;                      /* tie_word_embeddings of a config.json that lacks it */
    const char *tie_before; /* a setting that counts before tie_word_embeddings; NULL: none */
    struct hf_usual_sizes usual;
    struct hf_rope rope;
    /* Adds the metadata that depends on config.json, and refuses every setting that would need what
     * wisp does not compute. The config is that of `part`. */
    wisp_status (*read_config)(struct directory *dir, const struct hf_decoder *decoder,
                               const struct hf_config *config, wisp_error *error);
    /* Replaces tensors, which have the folder's names, by parts of them. NULL: none. */
    wisp_status (*split)(struct directory *dir, const struct hf_config *config, wisp_error *error);
    const char *quantised; /* the method of quantization_config whose tensors `split` makes GGUF's
                              of; NULL: none */
    /* Changes a tensor, which has its GGUF name, if GGUF has other values. NULL: no tensor. */
    wisp_status (*adapt)(struct directory *dir, struct tensor *tensor, wisp_error *error);
};

/* Reads config.json into metadata, and sets *vocabulary_size. */
wisp_status hf_decoder_read_config(struct directory *dir, const struct hf_decoder *decoder,
                                   const struct hf_config *config, uint32_t *vocabulary_size,
                                   wisp_error *error);

/* Gives every tensor its GGUF name and its GGUF values. A tensor that is not known is
 * WISP_ERROR_UNSUPPORTED. Adds the tensors of rotary factors that config.json describes. */
wisp_status hf_decoder_read_tensors(struct directory *dir, const struct hf_decoder *decoder,
                                    const struct hf_config *config, uint32_t vocabulary_size,
                                    wisp_error *error);

/* ---- for read_config and adapt -------------------------------------------------------------- */

enum { HF_KEY_BYTES = 96 };

/* Writes "architecture.name" to `key` and returns it. */
const char *hf_key(const struct hf_decoder *decoder, const char *name, char key[HF_KEY_BYTES]);

/* A size in config.json, which has the name `field` or `other` (NULL: one name only), and its key
 * without the architecture.
 * */
struct hf_size {
    const char *field, *other, *key;
    uint32_t usual; /* if config.json has none; 0: it must have one */
};

/* Adds n sizes. */
wisp_status hf_put_sizes(struct directory *dir, const struct hf_decoder *decoder,
                         const struct hf_config *config, const struct hf_size *sizes, size_t n,
                         wisp_error *error);

/* Adds the numbers of heads, their size, and the rotary positions. `attends` [layers] says which
 * layers have attention; NULL: all have it, and `layers` is not used. */
wisp_status hf_put_heads(struct directory *dir, const struct hf_decoder *decoder,
                         const struct hf_config *config, const bool *attends, uint32_t layers,
                         wisp_error *error);

/* Calls hf_put_heads, and adds the other sizes of a decoder as Llama's class names them, and the
 * epsilon of its RMS norms. */
wisp_status hf_put_decoder(struct directory *dir, const struct hf_decoder *decoder,
                           const struct hf_config *config, wisp_error *error);

/* Reads layer_types, which must have an entry for each layer. Sets listed[i] [layers] to whether
 * entry i is `name`; the only other entry allowed is `other`. */
wisp_status hf_read_layer_types(const struct hf_config *config, const char *name, const char *other,
                                uint32_t layers, bool *listed, wisp_error *error);

/* Adds the activation that the setting `field` names. Refuses all but the n known ones. known[0] is
 * the one of files that name none, so that nothing is added for it. */
wisp_status hf_put_activation(struct directory *dir, const struct hf_config *config,
                              const char *field, const char *const *known, size_t n,
                              wisp_error *error);

/* Finds a tensor also while the directory is not finished; NULL: there is none. */
struct tensor *hf_find_tensor(const struct directory *dir, const char *name);

/* Returns whether a tensor, which has its GGUF name, is one of a list of layers' parts, as
 * "attn_q.weight". The list ends with NULL. */
bool hf_is_part(const struct tensor *tensor, const char *const *parts);

#endif
