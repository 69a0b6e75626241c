/* SPDX-License-Identifier: Apache-2.0
 * WordPiece as a tokenizer.
 * Compiled for size in WebAssembly. */
#include "tokenizers/bert_tokenizer.h"
#include "tokenizers/tokenizer.h"

static wisp_status open(const struct directory *dir, void **state, wisp_error *error) {
    struct bert_tokenizer *tokenizer;
    TRY(bert_tokenizer_open(dir, &tokenizer, error));
    *state = tokenizer;
    return WISP_OK;
}

static void close(void *state) {
    bert_tokenizer_close(state);
}

static size_t vocabulary_size(const void *state) {
    return bert_tokenizer_vocabulary_size(state);
}

static size_t resident_bytes(const void *state) {
    return bert_tokenizer_resident_bytes(state);
}

static wisp_status encode(const void *state, wisp_text text, size_t max_tokens, int32_t *ids,
                          size_t *count, bool *truncated, wisp_error *error) {
    (void)error;
    *count = bert_tokenizer_encode(state, text, max_tokens, ids, truncated);
    return WISP_OK;
}

static struct tokenizer_piece piece(const void *state, int32_t id) {
    struct tokenizer_piece piece;
    bool continues;
    piece.text = bert_tokenizer_piece(state, id, &continues, &piece.special);
    piece.begins = !continues;
    return piece;
}

const struct tokenizer_kind tokenizer_words = {.model = "bert",
                                               .open = open,
                                               .close = close,
                                               .vocabulary_size = vocabulary_size,
                                               .resident_bytes = resident_bytes,
                                               .encode = encode,
                                               .piece = piece};
