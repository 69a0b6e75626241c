/* SPDX-License-Identifier: Apache-2.0
 * Makes prompts of conversations. The input is a byte for the type that the vocabulary gives the
 * control tokens; a chat template up to a byte 0; and two contents, each up to a byte 0. Whatever
 * the template does, contents make no control token: a prompt without any text of the template's
 * own that spells one has none. */
#include "base/utf8.h"
#include "chat/chat.h"
#include "fuzz.h"

static const char *const marks[] = {"<|a|>", "<|ab|>", "<|x", "</s>", "<|user|>"};
enum { MARKS = sizeof marks / sizeof *marks, TOKENS = 256 + MARKS };

struct vocabulary {
    wisp_text tokens[TOKENS];
    int32_t types[TOKENS];
    char spelled[256][8];
};

/* The tokens of bytes, and the marks. */
static void make_vocabulary(struct vocabulary *v, int32_t type) {
    uint32_t others = 0x100;
    for (uint32_t b = 0; b < 256; b++) {
        const bool printable = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
        v->spelled[b][utf8_encode(printable ? b : others++, v->spelled[b])] = 0;
        v->tokens[b] = wisp_text_of(v->spelled[b]);
        v->types[b] = 1;
    }
    for (size_t i = 0; i < MARKS; i++) {
        v->tokens[256 + i] = wisp_text_of(marks[i]);
        v->types[256 + i] = type;
    }
}

static wisp_status fill(struct directory *dir, const struct vocabulary *v, wisp_error *error) {
    TRY(directory_put_text(dir, "tokenizer.ggml.model", wisp_text_of("gpt2"), error));
    TRY(directory_put_text(dir, "tokenizer.ggml.pre", wisp_text_of("gpt-2"), error));
    TRY(directory_put_texts(dir, "tokenizer.ggml.tokens", v->tokens, TOKENS, error));
    TRY(directory_put_numbers(dir, "tokenizer.ggml.token_type", VALUE_I32, v->types, TOKENS,
                              error));
    TRY(directory_put_texts(dir, "tokenizer.ggml.merges", v->tokens, 0, error));
    return directory_finish(dir, error);
}

static wisp_text take_text(const uint8_t **data, size_t *size) {
    const uint8_t *end = *size > 0 ? memchr(*data, 0, *size) : NULL;
    const wisp_text text = {(const char *)*data, end ? (size_t)(end - *data) : *size};
    *data += text.length + (end != NULL);
    *size -= text.length + (end != NULL);
    return text;
}

/* Returns whether a template could write a mark without a content: it has all of its characters but
 * letters, which names of roles and values have too. */
static bool may_write(wisp_text template, const char *mark) {
    for (; *mark; mark++)
        if (strchr("<|/>", *mark) && !memchr(template.bytes, *mark, template.length))
            return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct directory dir = {.file = "fuzz"};
    struct codec *codec = NULL;
    static struct vocabulary v;
    struct token_list list = {0};
    wisp_error error;
    int32_t end;
    if (size < 1)
        return 0;
    const int32_t type = *data % 2 ? 3 : 4;
    const bool no_thinking = *data & 2;
    make_vocabulary(&v, type);
    data++;
    size--;
    fuzz_check(fill(&dir, &v, &error), &error);
    if (codec_open(&dir, &codec, &error) != WISP_OK)
        abort();
    const wisp_text template = take_text(&data, &size);
    const wisp_message messages[] = {{WISP_ROLE_USER, take_text(&data, &size)},
                                     {WISP_ROLE_ASSISTANT, take_text(&data, &size)},
                                     {WISP_ROLE_USER, {"", 0}}};
    const wisp_conversation conversation = {.messages = messages,
                                            .n = 3,
                                            .chat_template = template,
                                            .date = no_thinking ? NULL : "2026-11-26",
                                            .no_thinking = no_thinking};
    const wisp_status status = chat_encode(&dir, codec, &conversation, &list, &end, &error);
    if (status != WISP_OK && (status != WISP_ERROR_ARGUMENT || !*error.field))
        fuzz_check(status, &error);
    for (size_t i = 0; i < list.count; i++) {
        const int32_t id = list.ids[i];
        if (id < 0 || id >= TOKENS)
            abort();
        const bool is_control = id >= 256 && (type == 3 || id == 256 || id == 257 || id == 260);
        if (is_control && !may_write(template, marks[id - 256]))
            abort();
    }
    free(list.ids);
    codec_close(codec);
    directory_release(&dir);
    return 0;
}
