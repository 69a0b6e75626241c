/* SPDX-License-Identifier: Apache-2.0
 * modules.json: the modules of sentence-transformers that a text passes through. wisp runs one
 * Transformer, one Pooling, up to two Dense and any number of Normalize after these, or one
 * Transformer and one SpladePooling, or for vectors of tokens one Transformer, up to two Dense, a
 * MultiVectorMask and Normalize. */
#ifndef WISP_HUGGINGFACE_MODULES_H
#define WISP_HUGGINGFACE_MODULES_H

#include "base/json.h"
#include "formats/directory.h"
#include "formats/schema.h"

struct hf_modules {
    const struct json *list; /* NULL if there is no modules.json */
    const char *transformer; /* the folder of the Transformer in the model's folder, or "" */
    bool is_clip;            /* the only module is a CLIPModel, which stands for it; natively */
    const char *dense[DENSE_MODULES]; /* the folders of the Dense modules */
    size_t n_dense;
    bool of_tokens; /* these compute vectors of tokens, not of texts */
};

/* Finds the Transformer, which must come first. Does not look at the modules after it, because a
 * model that is not supported should be reported before its modules are. */
wisp_status hf_find_modules(struct directory *dir, const char *folder, struct hf_modules *modules,
                            wisp_error *error);

/* Refuses a Transformer that is code of jina-embeddings-v3's author, unless the model is one like
 * it, with adapters, and a CLIPModel, unless it is a CLIP. */
wisp_status hf_check_transformer(const char *folder, const struct hf_modules *modules,
                                 bool has_adapters, bool is_clip, wisp_error *error);

/* Reads the other modules and their settings: adds wisp.normalize and wisp.pool_prompt, fills
 * modules->dense, and sets *pooling to the number of the way to pool. Without modules.json
 * the model pools by mean and does not normalise, as in sentence-transformers. */
wisp_status hf_read_modules(struct directory *dir, const char *folder, struct hf_modules *modules,
                            uint32_t *pooling, wisp_error *error);

/* Does so for a ColBERT, whose modules compute vectors of tokens: fills modules->dense, sets *mask
 * to the folder of a MultiVectorMask or NULL, and *normalized to whether there is a Normalize. */
wisp_status hf_read_token_modules(struct directory *dir, const char *folder,
                                  struct hf_modules *modules, const char **mask, bool *normalized,
                                  wisp_error *error);

/* Reads the settings and the weights of the Dense modules. */
wisp_status hf_read_dense_modules(struct directory *dir, const char *folder,
                                  const struct hf_modules *modules, wisp_error *error);

#endif
