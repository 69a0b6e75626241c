/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "text/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/chat_parts.h"

static const char TEMPLATE[] = "tokenizer.chat_template";

/* Tells a caller, in messages, how to name a format. */
#define OPTIONS "--chat-format, wisp_conversation.format"

/* ---- choosing a format ---------------------------------------------------------------------- */

const struct chat_format *chat_format_at(size_t index) {
    return index < CHAT_FORMATS ? &chat_formats[index] : NULL;
}

const char *chat_format_name(const struct chat_format *format) {
    return format->name;
}

/* Returns whether a template is that of the format. */
static bool recognises(const struct chat_format *format, const char *template) {
    if (!format->recognised || !strstr(template, format->recognised) ||
        (format->also && !strstr(template, format->also)))
        return false;
    for (size_t i = 0; i < sizeof format->lacks / sizeof *format->lacks && format->lacks[i]; i++)
        if (strstr(template, format->lacks[i]))
            return false;
    return true;
}

/* Writes the names of all formats, with commas between. */
static void list_formats(char *names, size_t capacity) {
    size_t used = 0;
    for (size_t i = 0; i < CHAT_FORMATS && used < capacity; i++)
        used += (size_t)snprintf(names + used, capacity - used, "%s%s", i ? ", " : "",
                                 chat_formats[i].name);
}

wisp_status chat_format_find(const struct directory *dir, const char *name,
                             const struct chat_format **format, wisp_error *error) {
    const struct metadata *entry = directory_find_metadata(dir, TEMPLATE);
    const char *template;
    char names[256];
    list_formats(names, sizeof names);
    for (size_t i = 0; name && i < CHAT_FORMATS; i++)
        if (strcmp(chat_formats[i].name, name) == 0) {
            *format = &chat_formats[i];
            return WISP_OK;
        }
    if (name)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "chat_format",
                    "there is no chat format \"%.40s\", only %s", name, names);
    if (!entry)
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, TEMPLATE,
                    "the file does not say how the model chats. Name a chat format (" OPTIONS
                    "): %s",
                    names);
    TRY(metadata_text(dir, TEMPLATE, &template, error));
    for (size_t i = 0; i < CHAT_FORMATS; i++)
        if (recognises(&chat_formats[i], template)) {
            *format = &chat_formats[i];
            return WISP_OK;
        }
    return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, TEMPLATE,
                "templates are recognised, not run, and this one is unknown. Name the chat format "
                "that is like it (" OPTIONS "): %s",
                names);
}

/* ---- encoding ------------------------------------------------------------------------------- */

/* Returns whether any id of the list, from `first` on, is that of a mark. */
static bool has_mark(const struct chat_writer *w, size_t first) {
    for (size_t k = first; k < w->list->count; k++)
        for (size_t i = 0; i < CHAT_MAX_MARKS && w->format->marks[i]; i++)
            if (w->ids[i] == w->list->ids[k])
                return true;
    return false;
}

/* Returns the number of bytes before the second byte of the first mark that the text spells, or all
 * of them. */
static size_t until_mark(const struct chat_writer *w, wisp_text text) {
    for (size_t at = 0; at < text.length; at++)
        for (size_t i = 0; i < CHAT_MAX_MARKS && w->format->marks[i]; i++) {
            const size_t length = strlen(w->format->marks[i]);
            if (length <= text.length - at &&
                memcmp(text.bytes + at, w->format->marks[i], length) == 0)
                return at + 1;
        }
    return text.length;
}

/* Encodes the text since the last mark. A vocabulary may list a mark among the tokens that texts
 * are made of. A text that spells it is then encoded in parts, so that it does not become one. */
static void flush(struct chat_writer *w) {
    /* After a mark, SentencePiece puts a space as after an added token. */
    const bool begins =
        !w->within || (!w->format->places_spaces && w->codec->prefix != PREFIX_FIRST);
    const struct codec_kind *kind = w->codec->kind;
    const size_t before = w->list->count;
    const wisp_text text = {w->text, w->length};
    if (w->status != WISP_OK || w->length == 0)
        return;
    w->status = kind->encode(w->codec, text, begins, w->list, w->error);
    const bool forges = w->status == WISP_OK && has_mark(w, before);
    if (forges)
        w->list->count = before;
    for (size_t at = 0, part; forges && w->status == WISP_OK && at < text.length; at += part) {
        part = until_mark(w, (wisp_text){text.bytes + at, text.length - at});
        w->status = kind->encode(w->codec, (wisp_text){text.bytes + at, part}, begins && at == 0,
                                 w->list, w->error);
    }
    /* Other characters may become those of a mark where the tokenizer normalises texts. */
    if (forges && w->status == WISP_OK && has_mark(w, before)) {
        w->list->count = before;
        w->status = fail(w->error, WISP_ERROR_UNSUPPORTED, NULL, "messages",
                         "a content becomes a mark of the chat format %s when it is normalised",
                         w->format->name);
    }
    w->length = 0;
    w->within = true;
}

void chat_mark(struct chat_writer *w, const char *mark) {
    flush(w);
    for (size_t i = 0; i < CHAT_MAX_MARKS && w->format->marks[i] && w->status == WISP_OK; i++)
        if (strcmp(w->format->marks[i], mark) == 0)
            w->status = token_list_add(w->list, w->ids[i], w->error);
    w->within = true;
}

void chat_content(struct chat_writer *w, wisp_text content) {
    if (w->status != WISP_OK || content.length == 0)
        return;
    if (content.length > w->capacity - w->length) {
        const size_t most = SIZE_MAX / 2 - w->length;
        const size_t capacity =
            content.length <= most ? 2 * (w->length + content.length) : SIZE_MAX;
        char *text = realloc(w->text, capacity);
        if (!text) {
            w->status = fail_memory(w->error, capacity);
            return;
        }
        w->text = text;
        w->capacity = capacity;
    }
    memcpy(w->text + w->length, content.bytes, content.length);
    w->length += content.length;
}

/* ---- a conversation ------------------------------------------------------------------------- */

static wisp_status check_messages(const struct chat_format *format,
                                  const wisp_conversation *conversation, wisp_error *error) {
    const wisp_message *messages = conversation->messages;
    if (conversation->n == 0)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "messages", "there are none");
    TRY(require(messages, "messages", error));
    for (size_t i = 0; i < conversation->n; i++) {
        char field[48];
        snprintf(field, sizeof field, "messages[%zu].role", i);
        const char *name = wisp_role_name((size_t)messages[i].role);
        const bool systems = messages[0].role == WISP_ROLE_SYSTEM;
        if (!name)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, field, "%d is no wisp_role",
                        (int)messages[i].role);
        if (i > 0 && messages[i].role == WISP_ROLE_SYSTEM)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, field,
                        "system, which only the first message may be");
        if (format->alternates && i >= systems &&
            (messages[i].role == WISP_ROLE_USER) != ((i - systems) % 2 == 0))
            return fail(error, WISP_ERROR_ARGUMENT, NULL, field,
                        "%s: in the chat format %s, user and assistant take turns", name,
                        format->name);
        if (i + 1 == conversation->n && messages[i].role != WISP_ROLE_USER)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, field,
                        "%s: the last message must be the user's, which is replied to", name);
        snprintf(field, sizeof field, "messages[%zu].content", i);
        if (messages[i].content.length > 0)
            TRY(require(messages[i].content.bytes, field, error));
    }
    if (conversation->no_thinking && !format->thinks)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "no_thinking",
                    "the chat format %s has no switch for thinking", format->name);
    return WISP_OK;
}

/* Finds the ids of the format's marks. */
static wisp_status find_marks(struct chat_writer *w, const struct directory *dir,
                              wisp_error *error) {
    const struct metadata *tokens = directory_find_metadata(dir, CODEC_TOKENS);
    for (size_t i = 0; i < CHAT_MAX_MARKS && w->format->marks[i]; i++) {
        const char *mark = w->format->marks[i];
        const size_t length = strlen(mark);
        w->ids[i] = -1;
        for (size_t k = 0; w->ids[i] < 0 && k < tokens->count; k++)
            if (tokens->as.texts[k].length == length &&
                memcmp(tokens->as.texts[k].bytes, mark, length) == 0)
                w->ids[i] = (int32_t)k;
        if (w->ids[i] < 0)
            return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, CODEC_TOKENS,
                        "the chat format %s needs the token %s, which the vocabulary lacks",
                        w->format->name, mark);
    }
    return WISP_OK;
}

wisp_status chat_encode(const struct chat_format *format, const struct directory *dir,
                        const struct codec *codec, const wisp_conversation *conversation,
                        struct token_list *list, int32_t *end, wisp_error *error) {
    struct chat_writer w = {.format = format,
                            .codec = codec,
                            .no_thinking = conversation->no_thinking,
                            .list = list,
                            .error = error};
    const size_t before = list->count;
    *end = -1;
    TRY(check_messages(format, conversation, error));
    TRY(find_marks(&w, dir, error));
    for (size_t i = 0; format->end && i < CHAT_MAX_MARKS && format->marks[i]; i++)
        if (strcmp(format->marks[i], format->end) == 0)
            *end = w.ids[i];
    /* Formats with marks begin with their own token that begins a text, if the model has one. */
    if (!format->marks[0] && codec->add_bos)
        w.status = token_list_add(list, codec->bos, error);
    format->write(&w, conversation->messages, conversation->n);
    flush(&w);
    free(w.text);
    if (w.status != WISP_OK)
        list->count = before;
    return w.status;
}
