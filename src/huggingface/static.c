/* SPDX-License-Identifier: Apache-2.0
 * Sources: StaticModel of model2vec 0.10, which reads tokenizer.json and asks it for no special
 * tokens. */
#include "huggingface/static.h"

#include <string.h>

#include "formats/schema.h"
#include "huggingface/json_file.h"
#include "huggingface/tokenizer.h"
#include "huggingface/weights.h"

/* Tokens of a text: those that model2vec takes unless config.json says how many, those of a folder
 * that says there is no limit, and the two that are in place of [CLS] and [SEP]. */
enum { USUAL_TOKENS = 512, MOST_TOKENS = 1 << 16, AROUND = 2 };

static wisp_status put_settings(struct directory *dir, const struct json *config, const char *file,
                                wisp_error *error) {
    const struct json *normalize = json_get(config, "normalize");
    const struct json *limit = json_get(config, "max_length");
    uint64_t tokens = json_is(limit, JSON_NULL) ? MOST_TOKENS : USUAL_TOKENS;
    bool normalizes = false;
    if (normalize && !json_to_bool(normalize, &normalizes))
        return fail(error, WISP_ERROR_FORMAT, file, "normalize", "expected true or false");
    if (!json_is_absent(limit) &&
        (!json_to_u64(limit, &tokens) || tokens == 0 || tokens > MOST_TOKENS))
        return fail(error, WISP_ERROR_UNSUPPORTED, file, "max_length",
                    "%.32s is not supported, only whole numbers up to %d", hf_shown(limit),
                    MOST_TOKENS);
    TRY(directory_put_text(dir, "general.architecture", wisp_text_of("static"), error));
    TRY(directory_put_u32(dir, "static.context_length", (uint32_t)tokens + AROUND, error));
    TRY(directory_put_u32(dir, "static.pooling_type", 1, error));
    return directory_put_bool(dir, KEY_NORMALIZE, normalizes, error);
}

/* Gives the tensors their GGUF names. */
static wisp_status rename_tensors(struct directory *dir, wisp_error *error) {
    static const char *const names[][2] = {{"embeddings", TENSOR_TOKENS},
                                           {"weights", "token_weights.weight"}};
    for (size_t i = 0; i < dir->n_tensors; i++) {
        struct tensor *tensor = &dir->tensors[i];
        const char *file = dir->sources[tensor->source].name, *renamed = NULL;
        for (size_t n = 0; n < sizeof names / sizeof *names; n++)
            if (strcmp(tensor->name, names[n][0]) == 0)
                renamed = names[n][1];
        if (!renamed)
            return fail(error, WISP_ERROR_UNSUPPORTED, file, tensor->name,
                        "a tensor that static embeddings do not have, such as a mapping of tokens "
                        "to fewer vectors, is not supported");
        tensor->name = renamed;
        if (renamed == names[0][1]) {
            if (tensor->n_dims != 2 || tensor->dims[0] > UINT32_MAX)
                return fail(error, WISP_ERROR_FORMAT, file, names[0][0],
                            "expected a vector for each token");
            TRY(directory_put_u32(dir, "static.embedding_length", (uint32_t)tensor->dims[0],
                                  error));
        }
    }
    return WISP_OK;
}

wisp_status hf_read_static(struct directory *dir, const char *folder, bool *is_static,
                           wisp_error *error) {
    static const char config_file[] = "config.json";
    const struct json *config;
    char path[HF_PATH_BYTES];
    TRY(hf_read_json(dir, folder, config_file, false, JSON_OBJECT, &config, error));
    *is_static = config && json_equals(json_get(config, "model_type"), "model2vec");
    if (!*is_static)
        return WISP_OK;
    TRY(put_settings(dir, config, hf_path_of(path, folder, config_file), error));
    TRY(hf_read_plain_tokenizer(dir, folder, error));
    TRY(hf_read_weights(dir, folder, error));
    return rename_tensors(dir, error);
}
