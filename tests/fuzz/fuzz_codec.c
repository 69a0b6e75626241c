/* SPDX-License-Identifier: Apache-2.0
 * Encodes and decodes a text with a vocabulary as a GGUF file of a model that generates has it. The
 * input is a byte that chooses the codec and its settings; a byte of ids; tokens, one on each line,
 * of which the first character is the type, up to an empty line; merges, likewise; and the text.
 * The tokens of bytes come first, unless the settings leave them out. */
#include <stdio.h>

#include "base/utf8.h"
#include "fuzz.h"
#include "text/reader.h"
#include "tokenizers/codec.h"
#include "tokenizers/codec_parts.h"

enum { MAX_TOKENS = 512, MAX_MERGES = 128, CONTROL = 3 };

struct input {
    const uint8_t *data;
    size_t size;
    wisp_text tokens[MAX_TOKENS], merges[MAX_MERGES];
    int32_t types[MAX_TOKENS];
    float scores[MAX_TOKENS];
    size_t count, n_merges;
    char spelled[256][8];
    bool byte_level, composes;
    uint32_t bos;
    int32_t unknown; /* -1: not said */
};

static wisp_text take_line(struct input *in) {
    const uint8_t *end = in->size > 0 ? memchr(in->data, '\n', in->size) : NULL;
    const size_t length = end ? (size_t)(end - in->data) : in->size;
    const wisp_text line = {(const char *)in->data, length};
    in->data += length + (end != NULL);
    in->size -= length + (end != NULL);
    return line;
}

static void add(struct input *in, wisp_text token, int32_t type) {
    in->types[in->count] = type;
    in->scores[in->count] = (float)(in->count * 7 % 32) - 16;
    in->tokens[in->count++] = token;
}

static void take_tokens(struct input *in, bool bytes) {
    uint32_t others = 0x100;
    for (uint32_t b = 0; b < 256 && bytes; b++) {
        const bool printable = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
        if (in->byte_level)
            in->spelled[b][utf8_encode(printable ? b : others++, in->spelled[b])] = 0;
        else
            snprintf(in->spelled[b], sizeof in->spelled[b], "<0x%02X>", (unsigned)b);
        add(in, wisp_text_of(in->spelled[b]), in->byte_level ? 1 : 6);
    }
    for (wisp_text line; in->count < MAX_TOKENS && (line = take_line(in)).length > 0;)
        add(in, (wisp_text){line.bytes + 1, line.length - 1}, line.bytes[0] - '0');
    for (wisp_text line; in->n_merges < MAX_MERGES && (line = take_line(in)).length > 0;)
        in->merges[in->n_merges++] = line;
}

static wisp_status fill(struct directory *dir, struct input *in, uint8_t settings, uint8_t ids,
                        wisp_error *error) {
    static const char *const pre[] = {"gpt-2", "llama-bpe", "qwen2", "none"};
    const char *model = in->byte_level ? "gpt2" : settings & 2 ? "t5" : "llama";
    in->composes = settings / 2 % 4 == 2;
    in->bos = (uint32_t)ids * 2;
    TRY(directory_put_text(dir, "tokenizer.ggml.model", wisp_text_of(model), error));
    TRY(directory_put_text(dir, "tokenizer.ggml.pre", wisp_text_of(pre[settings / 2 % 4]), error));
    TRY(directory_put_texts(dir, "tokenizer.ggml.tokens", in->tokens, in->count, error));
    TRY(directory_put_numbers(dir, "tokenizer.ggml.token_type", VALUE_I32, in->types, in->count,
                              error));
    TRY(directory_put_numbers(dir, "tokenizer.ggml.scores", VALUE_F32, in->scores, in->count,
                              error));
    if (in->byte_level || in->n_merges > 0)
        TRY(directory_put_texts(dir, "tokenizer.ggml.merges", in->merges, in->n_merges, error));
    if (ids > 0)
        TRY(directory_put_u32(dir, "tokenizer.ggml.bos_token_id", in->bos, error));
    in->unknown = settings & 16 ? ids : -1;
    if (settings & 16)
        TRY(directory_put_u32(dir, "tokenizer.ggml.unknown_token_id", ids, error));
    if (settings & 32 && !in->byte_level)
        TRY(directory_put_bool(dir, "tokenizer.ggml.add_space_prefix", settings & 64, error));
    return directory_finish(dir, error);
}

/* Returns whether each byte has a token. Bytes without one are dropped. */
static bool has_all_bytes(const struct codec *codec) {
    for (size_t b = 0; b < sizeof codec->byte_ids / sizeof *codec->byte_ids; b++)
        if (codec->byte_ids[b] < 0)
            return false;
    return true;
}

/* Ids are those of tokens that texts are made of, or the unknown token, which may be of any type.
 * Byte-level ones decode to the text, whose ill-formed parts are U+FFFD. */
static void use(const struct codec *codec, const struct input *in) {
    const wisp_text text = {(const char *)in->data, in->size};
    struct reader reader = reader_of(text);
    for (int begins = 0; begins < 2; begins++) {
        /* The token that begins a text may be any, and decode to anything. */
        const bool decodes = in->byte_level && !in->composes && !begins && has_all_bytes(codec);
        struct token_list list = {0};
        char expected[4];
        size_t done = 0, left = 0;
        if (codec_encode(codec, text, begins, &list, NULL) != WISP_OK)
            abort();
        reader = reader_of(text);
        for (size_t i = 0; i < list.count; i++) {
            const int32_t id = list.ids[i];
            if (id < 0 || (size_t)id >= in->count || codec_vocabulary_size(codec) != in->count)
                abort();
            if (in->types[id] == CONTROL && id != in->unknown &&
                !(i == 0 && begins && (uint32_t)id == in->bos))
                abort();
            const wisp_text bytes = codec_decode(codec, id);
            for (size_t b = 0; b < bytes.length && decodes; b++) {
                if (done == left) {
                    if (reader_at_end(&reader))
                        abort();
                    left = utf8_encode(reader_next(&reader), expected);
                    done = 0;
                }
                if (bytes.bytes[b] != expected[done++])
                    abort();
            }
        }
        if (decodes && (!reader_at_end(&reader) || done != left))
            abort();
        free(list.ids);
    }
    for (size_t id = 0; id < in->count; id++) {
        (void)codec_is_end(codec, (int32_t)id);
        if (codec_decode(codec, (int32_t)id).length > in->tokens[id].length)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct directory dir = {.file = "fuzz"};
    static struct input in;
    struct codec *codec = NULL;
    wisp_error error;
    if (size < 2)
        return 0;
    in = (struct input){.data = data + 2, .size = size - 2, .byte_level = data[0] & 1};
    take_tokens(&in, !(data[0] & 128));
    wisp_status status = fill(&dir, &in, data[0], data[1], &error);
    if (status == WISP_OK)
        status = codec_open(&dir, &codec, &error);
    fuzz_check(status, &error);
    if (codec)
        use(codec, &in);
    codec_close(codec);
    directory_release(&dir);
    return 0;
}
