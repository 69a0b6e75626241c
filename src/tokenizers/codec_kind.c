/* SPDX-License-Identifier: Apache-2.0
 * Codecs as tokenizers.
 * Compiled for size in WebAssembly. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/product.h"
#include "tokenizers/tokenizer.h"

static wisp_status open(const struct directory *dir, void **state, wisp_error *error) {
    struct codec *codec;
    TRY(codec_open(dir, &codec, error));
    *state = codec;
    return WISP_OK;
}

static void close(void *state) {
    codec_close(state);
}

static size_t vocabulary_size(const void *state) {
    return codec_vocabulary_size(state);
}

static size_t resident_bytes(const void *state) {
    return codec_resident_bytes(state);
}

/* Fills a text up. */
static void fill(const struct codec *codec, size_t max_tokens, int32_t *ids, size_t *count) {
    int32_t padding;
    const size_t wanted = smaller(codec_fills(codec, &padding), max_tokens);
    for (size_t i = *count; ids && i < wanted; i++)
        ids[i] = padding;
    *count = larger(*count, wanted);
}

static wisp_status encode(const void *codec, wisp_text text, size_t max_tokens, int32_t *ids,
                          size_t *count, bool *truncated, wisp_error *error) {
    struct token_list list = {0};
    const int32_t last = codec_last_token(codec);
    const size_t most = max_tokens - (last >= 0);
    const wisp_status status = codec_encode(codec, text, true, &list, error);
    if (status == WISP_OK) {
        const size_t kept = smaller(list.count, most);
        if (ids && kept > 0)
            memcpy(ids, list.ids, kept * sizeof *ids);
        if (ids && last >= 0)
            ids[kept] = last;
        *count = kept + (last >= 0);
        if (READS_CLIP)
            fill(codec, max_tokens, ids, count);
        if (truncated)
            *truncated = list.count > most;
    }
    free(list.ids);
    return status;
}

static struct tokenizer_piece piece(const void *codec, int32_t id) {
    const wisp_text text = codec_decode(codec, id);
    return (struct tokenizer_piece){.text = text, .special = text.length == 0};
}

const struct tokenizer_kind tokenizer_codecs = {.is_codec = true,
                                                .open = open,
                                                .close = close,
                                                .vocabulary_size = vocabulary_size,
                                                .resident_bytes = resident_bytes,
                                                .encode = encode,
                                                .piece = piece};
