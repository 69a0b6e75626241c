/* SPDX-License-Identifier: Apache-2.0
 * Makes prompts of conversations. The input is a byte for the format, one for the type that the
 * vocabulary gives the formats' marks, and one for the number of messages; a chat template up to a
 * byte 0, which is recognised or not; and messages, each a byte for the role and a content up to a
 * byte 0. Contents must change nothing but text: a prompt has the marks that it has with other
 * contents. */
#include "base/utf8.h"
#include "fuzz.h"
#include "text/chat.h"
#include "text/chat_parts.h"

enum { MAX_MESSAGES = 8, MAX_TOKENS = 256 + 64 };

struct vocabulary {
    wisp_text tokens[MAX_TOKENS];
    int32_t types[MAX_TOKENS];
    size_t count;
    char spelled[256][8];
};

/* The tokens of bytes, and all formats' marks. */
static void make_vocabulary(struct vocabulary *v, int32_t type) {
    uint32_t others = 0x100;
    for (v->count = 0; v->count < 256; v->count++) {
        const uint32_t b = (uint32_t)v->count;
        const bool printable = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
        v->spelled[b][utf8_encode(printable ? b : others++, v->spelled[b])] = 0;
        v->tokens[b] = wisp_text_of(v->spelled[b]);
        v->types[b] = 1;
    }
    for (size_t f = 0; f < CHAT_FORMATS; f++)
        for (size_t i = 0; i < CHAT_MAX_MARKS && chat_formats[f].marks[i]; i++) {
            size_t k = 256;
            while (k < v->count && strcmp(v->tokens[k].bytes, chat_formats[f].marks[i]) != 0)
                k++;
            if (k < v->count)
                continue;
            v->tokens[v->count] = wisp_text_of(chat_formats[f].marks[i]);
            v->types[v->count++] = type;
        }
}

static wisp_status fill(struct directory *dir, const struct vocabulary *v, wisp_text template,
                        wisp_error *error) {
    TRY(directory_put_text(dir, "tokenizer.ggml.model", wisp_text_of("gpt2"), error));
    TRY(directory_put_text(dir, "tokenizer.ggml.pre", wisp_text_of("gpt-2"), error));
    TRY(directory_put_texts(dir, "tokenizer.ggml.tokens", v->tokens, v->count, error));
    TRY(directory_put_numbers(dir, "tokenizer.ggml.token_type", VALUE_I32, v->types, v->count,
                              error));
    TRY(directory_put_texts(dir, "tokenizer.ggml.merges", v->tokens, 0, error));
    TRY(directory_put_text(dir, "tokenizer.chat_template", template, error));
    return directory_finish(dir, error);
}

static wisp_text take_text(const uint8_t **data, size_t *size) {
    const uint8_t *end = *size > 0 ? memchr(*data, 0, *size) : NULL;
    const wisp_text text = {(const char *)*data, end ? (size_t)(end - *data) : *size};
    *data += text.length + (end != NULL);
    *size -= text.length + (end != NULL);
    return text;
}

/* Counts the format's marks in the ids of a conversation. */
static size_t count_marks(const struct chat_format *format, const struct directory *dir,
                          const struct codec *codec, const struct vocabulary *v,
                          const wisp_conversation *conversation, wisp_status *status) {
    struct token_list list = {0};
    wisp_error error;
    size_t marks = 0;
    int32_t end;
    *status = chat_encode(format, dir, codec, conversation, &list, &end, &error);
    if (*status != WISP_OK && (*status != WISP_ERROR_ARGUMENT || !*error.field))
        abort();
    for (size_t i = 0; i < list.count; i++) {
        if (list.ids[i] < 0 || (size_t)list.ids[i] >= v->count)
            abort();
        for (size_t k = 0; k < CHAT_MAX_MARKS && format->marks[k]; k++)
            marks += strcmp(v->tokens[list.ids[i]].bytes, format->marks[k]) == 0;
    }
    free(list.ids);
    return marks;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct directory dir = {.file = "fuzz"};
    struct codec *codec = NULL;
    const struct chat_format *format;
    static struct vocabulary v;
    wisp_message messages[MAX_MESSAGES], plain[MAX_MESSAGES];
    wisp_error error;
    if (size < 3)
        return 0;
    const char *name = chat_formats[data[0] % CHAT_FORMATS].name;
    const bool no_thinking = data[0] & 128;
    const size_t n = data[2] % (MAX_MESSAGES + 1);
    make_vocabulary(&v, data[1] % 2 ? 3 : 4);
    data += 3;
    size -= 3;
    fuzz_check(fill(&dir, &v, take_text(&data, &size), &error), &error);
    if (codec_open(&dir, &codec, &error) != WISP_OK)
        abort();
    fuzz_check(chat_format_find(&dir, NULL, &format, &error), &error);
    if (chat_format_find(&dir, name, &format, &error) != WISP_OK)
        abort();
    for (size_t i = 0; i < n; i++) {
        const unsigned role = size > 0 ? *data % 4 : 0;
        data += size > 0;
        size -= size > 0;
        messages[i] = (wisp_message){(wisp_role)role, take_text(&data, &size)};
        /* lfm2 leaves an empty message of the system out. */
        plain[i] = messages[i];
        if (plain[i].content.length > 0)
            plain[i].content = wisp_text_of("x");
    }
    wisp_conversation conversation = {messages, n, NULL, no_thinking};
    wisp_status status, expected;
    const size_t marks = count_marks(format, &dir, codec, &v, &conversation, &status);
    conversation.messages = plain;
    if (count_marks(format, &dir, codec, &v, &conversation, &expected) != marks ||
        status != expected)
        abort();
    codec_close(codec);
    directory_release(&dir);
    return 0;
}
