/* SPDX-License-Identifier: Apache-2.0
 * Token ids to text. A token may stand for a part of a character, so that text is put together from
 * bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "engine/model.h"
#include "formats/schema.h"

static const char TOKENS[] = KEY_GGML_TOKENS;

bool wisp_token_text(const wisp_model *model, int32_t id, wisp_text *text) {
    if (!model || !text || !model->codec || id < 0 ||
        (size_t)id >= codec_vocabulary_size(model->codec))
        return false;
    *text = codec_decode(model->codec, id);
    return true;
}

bool wisp_token_spelling(const wisp_model *model, int32_t id, wisp_text *spelling) {
    if (!model || !spelling)
        return false;
    const struct metadata *tokens = directory_find_metadata(&model->dir, TOKENS);
    if (id < 0 || (uint64_t)id >= tokens->count)
        return false;
    *spelling = tokens->as.texts[id];
    return true;
}

/* ---- decoding ------------------------------------------------------------------------------- */

/* Bytes that tokens stand for. */
struct bytes {
    char *data;
    size_t length, capacity;
};

static wisp_status put(struct bytes *bytes, wisp_text text, wisp_error *error) {
    if (!bytes->data || text.length > bytes->capacity - bytes->length) {
        const size_t most = SIZE_MAX / 4, more = bytes->length + text.length;
        const size_t capacity = more < most ? 2 * more + 64 : SIZE_MAX;
        char *data = realloc(bytes->data, capacity);
        if (!data)
            return fail_memory(error, capacity);
        bytes->data = data;
        bytes->capacity = capacity;
    }
    if (text.length > 0)
        memcpy(bytes->data + bytes->length, text.bytes, text.length);
    bytes->length += text.length;
    return WISP_OK;
}

/* Appends a token of a codec. Tokens follow each other as they are, but the space is dropped that
 * the codec puts before a text. */
static wisp_status put_piece(const wisp_model *model, const struct codec *codec, int32_t id,
                             wisp_decoder *decoder, struct bytes *bytes, wisp_error *error) {
    wisp_text text = codec_decode(codec, id), spelling;
    if (text.length == 0 && decoder->special && wisp_token_spelling(model, id, &spelling)) {
        decoder->begun = true;
        return put(bytes, spelling, error);
    }
    if (text.length > 0 && !decoder->begun && codec_adds_space(codec) && *text.bytes == ' ') {
        text.bytes++;
        text.length--;
    }
    decoder->begun = decoder->begun || codec_decode(codec, id).length > 0;
    return put(bytes, text, error);
}

/* Appends a token of WordPiece. It begins a word, before which a space is put, or continues one. */
static wisp_status put_word(const wisp_model *model, int32_t id, wisp_decoder *decoder,
                            struct bytes *bytes, wisp_error *error) {
    const struct tokenizer_piece piece = tokenizer_piece(model->tokenizer, id);
    wisp_text spelling;
    if (piece.special && !decoder->special)
        return WISP_OK;
    if (piece.special && !wisp_token_spelling(model, id, &spelling))
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "memory",
                    "a model of limited memory does not keep the spellings of special tokens");
    if (decoder->begun && piece.begins)
        TRY(put(bytes, wisp_text_of(" "), error));
    decoder->begun = true;
    return put(bytes, piece.special ? spelling : piece.text, error);
}

static wisp_status check_id(const wisp_model *model, int32_t id, wisp_error *error) {
    const size_t count = tokenizer_vocabulary_size(model->tokenizer);
    if (id >= 0 && (size_t)id < count)
        return WISP_OK;
    return fail(error, WISP_ERROR_ARGUMENT, NULL, "ids", "id %d, but there are %zu tokens", id,
                count);
}

wisp_status wisp_detokenize(const wisp_model *model, const int32_t *ids, size_t n,
                            wisp_decoder *decoder, char *text, size_t capacity, size_t *length,
                            wisp_error *error) {
    wisp_decoder after = decoder ? *decoder : (wisp_decoder){0};
    struct bytes bytes = {0};
    size_t rest = 0;
    TRY(require(model, "model", error));
    TRY(require(length, "length", error));
    if (n > 0)
        TRY(require(ids, "ids", error));
    if (capacity > 0)
        TRY(require(text, "text", error));
    if (after.held > sizeof after.bytes)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "decoder", "it does not start as zeros");
    const struct codec *codec = tokenizer_codec(model->tokenizer);
    wisp_status status = put(&bytes, (wisp_text){after.bytes, after.held}, error);
    for (size_t i = 0; i < n && status == WISP_OK; i++) {
        status = check_id(model, ids[i], error);
        if (status == WISP_OK)
            status = codec ? put_piece(model, codec, ids[i], &after, &bytes, error)
                           : put_word(model, ids[i], &after, &bytes, error);
    }
    /* Bytes that begin a character become U+FFFD if no more tokens come. */
    if (status == WISP_OK && !after.more) {
        utf8_repair(bytes.data, bytes.length, NULL, &rest);
        if (rest > 0) {
            bytes.length -= rest;
            status = put(&bytes, wisp_text_of("\xEF\xBF\xBD"), error);
        }
    }
    if (status == WISP_OK) {
        *length = utf8_repair(bytes.data, bytes.length, NULL, &rest);
        if (*length <= capacity && decoder) {
            after.held = (uint8_t)rest;
            if (rest > 0)
                memcpy(after.bytes, bytes.data + bytes.length - rest, rest);
            *decoder = after;
        }
        if (*length <= capacity && *length > 0)
            utf8_repair(bytes.data, bytes.length, text, &rest);
    }
    free(bytes.data);
    return status;
}
