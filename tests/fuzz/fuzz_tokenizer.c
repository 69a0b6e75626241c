/* SPDX-License-Identifier: Apache-2.0
 * Encodes a text with a vocabulary. The input is a byte of settings; a byte that gives how many of
 * the first tokens are added ones, and their flags; tokens, one on each line, up to an empty line;
 * and the text. */
#include "fuzz.h"
#include "tokenizers/bert_tokenizer.h"

enum { MAX_TOKENS = 256, MAX_IDS = 512, SPECIAL = 3 };

struct input {
    const uint8_t *data;
    size_t size;
    wisp_text tokens[MAX_TOKENS];
    size_t count;
    int32_t added[MAX_TOKENS];
    uint8_t flags[MAX_TOKENS];
};

static void take_tokens(struct input *in) {
    static const char *const special[SPECIAL] = {"[UNK]", "[CLS]", "[SEP]"};
    for (in->count = 0; in->count < SPECIAL; in->count++)
        in->tokens[in->count] = wisp_text_of(special[in->count]);
    while (in->size > 0 && in->count < MAX_TOKENS) {
        const uint8_t *end = memchr(in->data, '\n', in->size);
        const size_t length = end ? (size_t)(end - in->data) : in->size;
        if (length > 0)
            in->tokens[in->count++] = (wisp_text){(const char *)in->data, length};
        in->data += length + (end != NULL);
        in->size -= length + (end != NULL);
        if (length == 0)
            break;
    }
}

static wisp_status fill(struct directory *dir, struct input *in, uint8_t settings, uint8_t added,
                        wisp_error *error) {
    size_t n = added % 16 < in->count ? added % 16 : in->count;
    for (size_t i = 0; i < n; i++) {
        in->added[i] = (int32_t)i;
        in->flags[i] = (uint8_t)((added >> 4) * (i + 1) % 16);
    }
    TRY(directory_put_text(dir, "tokenizer.ggml.model", wisp_text_of("bert"), error));
    TRY(directory_put_texts(dir, "tokenizer.ggml.tokens", in->tokens, in->count, error));
    TRY(directory_put_u32(dir, "tokenizer.ggml.unknown_token_id", 0, error));
    TRY(directory_put_u32(dir, "tokenizer.ggml.cls_token_id", 1, error));
    TRY(directory_put_u32(dir, "tokenizer.ggml.seperator_token_id", 2, error));
    TRY(directory_put_bool(dir, "wisp.tokenizer.clean_text", settings & 1, error));
    TRY(directory_put_bool(dir, "wisp.tokenizer.handle_chinese_chars", settings & 2, error));
    TRY(directory_put_bool(dir, "wisp.tokenizer.lowercase", settings & 4, error));
    TRY(directory_put_bool(dir, "wisp.tokenizer.strip_accents", settings & 8, error));
    TRY(directory_put_u32(dir, "wisp.tokenizer.max_input_chars_per_word", settings & 16 ? 5 : 100,
                          error));
    TRY(directory_put_numbers(dir, "wisp.tokenizer.added_tokens", VALUE_I32, in->added, n, error));
    TRY(directory_put_numbers(dir, "wisp.tokenizer.added_flags", VALUE_U8, in->flags, n, error));
    return directory_finish(dir, error);
}

/* Ids are in the vocabulary. A smaller limit gives the same ids except for the last. */
static void encode(const struct bert_tokenizer *tokenizer, const struct input *in) {
    const wisp_text text = {(const char *)in->data, in->size};
    int32_t ids[MAX_IDS], few[MAX_IDS];
    bool truncated;
    const size_t count = bert_tokenizer_encode(tokenizer, text, MAX_IDS, ids, &truncated);
    if (count < 2 || count > MAX_IDS || ids[0] != 1 || ids[count - 1] != 2)
        abort();
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= in->count)
            abort();
    const size_t limit = 2 + in->size % 7;
    const size_t fewer = bert_tokenizer_encode(tokenizer, text, limit, few, &truncated);
    if (fewer != (count < limit ? count : limit) || truncated != (count > limit) ||
        memcmp(ids, few, (fewer - 1) * sizeof *ids) != 0 || few[fewer - 1] != 2)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct directory dir = {.file = "fuzz"};
    struct input in = {.data = data + 2, .size = size - 2};
    struct bert_tokenizer *tokenizer = NULL;
    wisp_error error;
    if (size < 2)
        return 0;
    take_tokens(&in);
    wisp_status status = fill(&dir, &in, data[0], data[1], &error);
    if (status == WISP_OK)
        status = bert_tokenizer_open(&dir, &tokenizer, &error);
    fuzz_check(status, &error);
    if (tokenizer)
        encode(tokenizer, &in);
    bert_tokenizer_close(tokenizer);
    directory_release(&dir);
    return 0;
}
