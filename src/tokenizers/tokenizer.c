/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "tokenizers/tokenizer.h"

#include <stdlib.h>
#include <string.h>

struct tokenizer {
    const struct tokenizer_kind *kind;
    void *state;
};

/* Finds the kind of a file's tokenizer. */
static wisp_status find_kind(const struct directory *dir, const struct tokenizer_kind **kind,
                             wisp_error *error) {
    const char *model;
    TRY(metadata_text(dir, "tokenizer.ggml.model", &model, error));
    for (size_t i = 0; tokenizer_kinds[i]; i++) {
        *kind = tokenizer_kinds[i];
        if (!(*kind)->model || strcmp(model, (*kind)->model) == 0)
            return WISP_OK;
    }
    return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, "tokenizer.ggml.model",
                "this build has no tokenizers of type \"%.40s\"; native code has them", model);
}

wisp_status tokenizer_open(const struct directory *dir, struct tokenizer **opened,
                           wisp_error *error) {
    const struct tokenizer_kind *kind;
    void *state;
    TRY(find_kind(dir, &kind, error));
    struct tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer)
        return fail_memory(error, sizeof *tokenizer);
    const wisp_status status = kind->open(dir, &state, error);
    if (status == WISP_OK) {
        *tokenizer = (struct tokenizer){kind, state};
        *opened = tokenizer;
    } else {
        free(tokenizer);
    }
    return status;
}

void tokenizer_close(struct tokenizer *tokenizer) {
    if (!tokenizer)
        return;
    tokenizer->kind->close(tokenizer->state);
    free(tokenizer);
}

size_t tokenizer_vocabulary_size(const struct tokenizer *tokenizer) {
    return tokenizer->kind->vocabulary_size(tokenizer->state);
}

size_t tokenizer_resident_bytes(const struct tokenizer *tokenizer) {
    return sizeof *tokenizer + tokenizer->kind->resident_bytes(tokenizer->state);
}

wisp_status tokenizer_encode(const struct tokenizer *tokenizer, wisp_text text, size_t max_tokens,
                             int32_t *ids, size_t *count, bool *truncated, wisp_error *error) {
    return tokenizer->kind->encode(tokenizer->state, text, max_tokens, ids, count, truncated,
                                   error);
}

struct tokenizer_piece tokenizer_piece(const struct tokenizer *tokenizer, int32_t id) {
    return tokenizer->kind->piece(tokenizer->state, id);
}

const struct codec *tokenizer_codec(const struct tokenizer *tokenizer) {
    return tokenizer->kind->is_codec ? tokenizer->state : NULL;
}
