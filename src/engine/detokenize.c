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

/* Appends a token of a model that generates. Tokens follow each other as they are, but the space is
 * dropped that the codec puts before a text. */
static wisp_status put_generated(const wisp_model *model, int32_t id, wisp_decoder *decoder,
                                 struct bytes *bytes, wisp_error *error) {
    wisp_text text = codec_decode(model->codec, id), spelling;
    if (text.length == 0 && decoder->special && wisp_token_spelling(model, id, &spelling)) {
        decoder->begun = true;
        return put(bytes, spelling, error);
    }
    if (text.length > 0 && !decoder->begun && codec_adds_space(model->codec) &&
        *text.bytes == ' ') {
        text.bytes++;
        text.length--;
    }
    decoder->begun = decoder->begun || codec_decode(model->codec, id).length > 0;
    return put(bytes, text, error);
}

/* Appends a token of a model that embeds. It begins a word, before which a space is put, or
 * continues one. */
static wisp_status put_embedded(const wisp_model *model, int32_t id, wisp_decoder *decoder,
                                struct bytes *bytes, wisp_error *error) {
    bool continues, special;
    const wisp_text piece = tokenizer_piece(model->tokenizer, id, &continues, &special);
    wisp_text spelling;
    if (special && !decoder->special)
        return WISP_OK;
    if (special && !wisp_token_spelling(model, id, &spelling))
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "memory",
                    "a model of limited memory does not keep the spellings of special tokens");
    if (decoder->begun && !continues)
        TRY(put(bytes, wisp_text_of(" "), error));
    decoder->begun = true;
    return put(bytes, special ? spelling : piece, error);
}

/* Writes the characters of n bytes to `out` (NULL: nowhere), and U+FFFD for what is none. Returns
 * their length. Sets *rest to the number of bytes at the end that may begin a character. */
static size_t write_characters(const char *bytes, size_t n, char *out, size_t *rest) {
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t length = 0;
    *rest = 0;
    for (size_t at = 0, taken; at < n; at += taken) {
        uint32_t c;
        taken = utf8_decode(bytes + at, n - at, &c);
        const unsigned char lead = (unsigned char)bytes[at];
        if (c == UTF8_INVALID && at + taken == n && lead >= 0xC2 && lead <= 0xF4 &&
            taken < (lead >= 0xF0   ? 4u
                     : lead >= 0xE0 ? 3u
                                    : 2u)) {
            *rest = taken;
            return length;
        }
        const char *from = c == UTF8_INVALID ? replacement : bytes + at;
        const size_t size = c == UTF8_INVALID ? sizeof replacement - 1 : taken;
        if (out)
            memcpy(out + length, from, size);
        length += size;
    }
    return length;
}

static wisp_status check_id(const wisp_model *model, int32_t id, wisp_error *error) {
    const size_t count = model->codec ? codec_vocabulary_size(model->codec)
                                      : tokenizer_vocabulary_size(model->tokenizer);
    if (id >= 0 && (size_t)id < count)
        return WISP_OK;
    return fail(error, WISP_ERROR_ARGUMENT, NULL, "ids", "id %d, where there are %zu tokens", id,
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
    wisp_status status = put(&bytes, (wisp_text){after.bytes, after.held}, error);
    for (size_t i = 0; i < n && status == WISP_OK; i++) {
        status = check_id(model, ids[i], error);
        if (status == WISP_OK)
            status = model->codec ? put_generated(model, ids[i], &after, &bytes, error)
                                  : put_embedded(model, ids[i], &after, &bytes, error);
    }
    /* Bytes that begin a character become U+FFFD where no more tokens come. */
    if (status == WISP_OK && !after.more) {
        write_characters(bytes.data, bytes.length, NULL, &rest);
        if (rest > 0) {
            bytes.length -= rest;
            status = put(&bytes, wisp_text_of("\xEF\xBF\xBD"), error);
        }
    }
    if (status == WISP_OK) {
        *length = write_characters(bytes.data, bytes.length, NULL, &rest);
        if (*length <= capacity && decoder) {
            after.held = (uint8_t)rest;
            if (rest > 0)
                memcpy(after.bytes, bytes.data + bytes.length - rest, rest);
            *decoder = after;
        }
        if (*length <= capacity && *length > 0)
            write_characters(bytes.data, bytes.length, text, &rest);
    }
    free(bytes.data);
    return status;
}
