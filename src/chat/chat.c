/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "chat/chat.h"

#include <stdio.h>
#include <string.h>

#include "chat/marks.h"
#include "prompt/prompt.h"
#include "tokenizers/codec_parts.h"

static const char TEMPLATE[] = "tokenizer.chat_template",
                  TOOLS_TEMPLATE[] = "tokenizer.chat_template.tool_use";

/* Tells a caller how to say how messages are written: by options, which JavaScript and Python name
 * alike, or of the program. */
#define OPTIONS                                                                                    \
    "template, or by format: chatml or plain (of the program: --chat-template, or --chat-format)"

/* ---- templates ------------------------------------------------------------------------------ */

/* For models whose files have no template. */
static const struct format {
    const char *name;
    const char *needs; /* a token without which models cannot know it; NULL: none */
    const char *source;
} formats[] = {
    {"chatml", "<|im_start|>",
     "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + "
     "'<|im_end|>\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    /* Messages of the user begin lines, and the model continues the line. What is not text cannot
     * be added to a text, and is refused. */
    {"plain", NULL,
     "{% for message in messages %}{% if not loop.first and message.role != 'assistant' %}"
     "{{ '\\n' }}{% endif %}{{ '' + message.content }}{% endfor %}"},
};

enum { FORMATS = sizeof formats / sizeof *formats };

const char *chat_format_name(size_t index) {
    return index < FORMATS ? formats[index].name : NULL;
}

wisp_status chat_template_of(const struct directory *dir, bool tools, wisp_text *source,
                             wisp_error *error) {
    const bool special = tools && directory_find_metadata(dir, TOOLS_TEMPLATE);
    const char *key = special ? TOOLS_TEMPLATE : TEMPLATE, *text;
    if (!directory_find_metadata(dir, key))
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, TEMPLATE,
                    "the file does not say how the model chats. Say it by the option " OPTIONS);
    TRY(metadata_text(dir, key, &text, error));
    *source = wisp_text_of(text);
    return WISP_OK;
}

static wisp_status find_format(const struct directory *dir, const char *name, wisp_text *source,
                               wisp_error *error) {
    for (size_t i = 0; i < FORMATS; i++) {
        if (strcmp(formats[i].name, name) != 0)
            continue;
        if (formats[i].needs && codec_spelled(dir, formats[i].needs) < 0)
            return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, CODEC_TOKENS,
                        "the chat format %s needs the token %s, which the vocabulary lacks", name,
                        formats[i].needs);
        *source = wisp_text_of(formats[i].source);
        return WISP_OK;
    }
    return fail(error, WISP_ERROR_ARGUMENT, NULL, "chat_format",
                "there is no chat format \"%.40s\", only chatml and plain, and templates", name);
}

/* Finds the templates, without tools and with them. */
static wisp_status find_sources(const struct directory *dir, const wisp_conversation *conversation,
                                struct prompt_call *call, wisp_error *error) {
    if (conversation->format && conversation->chat_template.length > 0)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "chat_format",
                    "a chat template is also given; a conversation takes only one");
    if (conversation->format) {
        TRY(find_format(dir, conversation->format, &call->source, error));
    } else if (conversation->chat_template.length > 0) {
        call->source = conversation->chat_template;
        TRY(require(call->source.bytes, "chat_template", error));
    } else {
        TRY(chat_template_of(dir, true, &call->source_with_tools, error));
        return directory_find_metadata(dir, TEMPLATE)
                   ? chat_template_of(dir, false, &call->source, error)
                   : WISP_OK;
    }
    call->source_with_tools = call->source;
    return WISP_OK;
}

/* Finds the spellings of the file's special tokens. */
static wisp_status find_tokens(const struct directory *dir, struct prompt_call *call,
                               wisp_error *error) {
    static const char *const keys[] = {[PROMPT_BOS] = "tokenizer.ggml.bos_token_id",
                                       [PROMPT_EOS] = "tokenizer.ggml.eos_token_id",
                                       [PROMPT_UNKNOWN] = "tokenizer.ggml.unknown_token_id",
                                       [PROMPT_PADDING] = "tokenizer.ggml.padding_token_id"};
    const struct metadata *spellings = directory_find_metadata(dir, CODEC_TOKENS);
    for (size_t i = 0; i < PROMPT_TOKENS; i++) {
        uint32_t id = UINT32_MAX;
        TRY(metadata_u32_or(dir, keys[i], &id, error));
        if (id < spellings->count)
            call->tokens[i] = spellings->as.texts[id];
    }
    return WISP_OK;
}

/* ---- encoding ------------------------------------------------------------------------------- */

static wisp_status encode(const struct directory *dir, const struct codec *codec,
                          const wisp_conversation *conversation, struct arena *arena,
                          struct token_list *list, int32_t *end, wisp_error *error) {
    struct prompt_call call = {.conversation = conversation,
                               .file = conversation->chat_template.length > 0 ? NULL : dir->file};
    struct chat_marks marks;
    struct prompt prompt;
    TRY(find_sources(dir, conversation, &call, error));
    TRY(find_tokens(dir, &call, error));
    TRY(prompt_make(arena, &call, &prompt, error));
    TRY(chat_marks_of(dir, codec, arena, &marks, error));
    /* A template that refuses the trial has no mark after replies that is known. */
    *end =
        prompt.trial.type == JINJA_TEXT ? chat_marks_after(&marks, prompt.trial, PROMPT_PROBE) : -1;
    /* For formats that are not the model's own, the vocabulary decides how a text begins. */
    if (conversation->format && codec->add_bos)
        TRY(token_list_add(list, codec->bos, error));
    return chat_marks_encode(&marks, codec, prompt.text, list, error);
}

/* Sets *beginning to the first messages of a conversation that is far longer than what a list
 * takes. Returns false if it is not, or if none of its first messages is that short. */
static bool begin_conversation(const wisp_conversation *conversation, size_t most,
                               struct arena *arena, wisp_conversation *beginning) {
    enum { TOKEN_BYTES = 32 }; /* more than tokens have on average, with what is around a message */
    const wisp_text json = conversation->json;
    size_t bytes = 0;
    *beginning = *conversation;
    if (most == 0 || most > SIZE_MAX / TOKEN_BYTES)
        return false;
    most *= TOKEN_BYTES;
    beginning->n = 0;
    while (beginning->n < conversation->n && bytes <= most)
        bytes += conversation->messages[beginning->n++].content.length + TOKEN_BYTES;
    if (json.length <= most)
        return bytes > most && beginning->n < conversation->n;
    return json_begin_array(arena, json, most, &beginning->json);
}

wisp_status chat_encode(const struct directory *dir, const struct codec *codec,
                        const wisp_conversation *conversation, struct token_list *list,
                        int32_t *end, wisp_error *error) {
    const size_t before = list->count;
    struct arena arena = {0};
    wisp_conversation beginning;
    wisp_status status = WISP_OK;
    if (begin_conversation(conversation, list->most, &arena, &beginning)) {
        /* Mostly this has too many ids. What else is wrong is found in the whole. */
        status = encode(dir, codec, &beginning, &arena, list, end, error);
        list->count = before;
        arena_release(&arena);
    }
    if (!list->is_full)
        status = encode(dir, codec, conversation, &arena, list, end, error);
    arena_release(&arena);
    if (status != WISP_OK)
        list->count = before;
    return status;
}
