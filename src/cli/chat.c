/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/input.h"
#include "cli/messages.h"
#include "cli/whole_file.h"

static const char commands_help[] =
    "Each line is a message, and the model replies to it.\n"
    "\n"
    "  /help       this text\n"
    "  /clear      forget what was said\n"
    "  /save FILE  write the conversation as JSON\n"
    "  /load FILE  go on with such a conversation\n"
    "  //TEXT      a message that begins with /\n"
    "\n"
    "Ctrl-C ends a reply. At the prompt, Ctrl-C and Ctrl-D end the program.\n";

bool take_chat_option(struct chat_arguments *a, int option, const char *value) {
    switch (option) {
    case OPTION_CHAT:
        a->interactive = true;
        return true;
    case OPTION_MESSAGES:
        a->messages = value;
        return true;
    case OPTION_CHAT_FORMAT:
        a->format = value;
        return true;
    case OPTION_SYSTEM:
        a->system = value;
        return true;
    case OPTION_NO_THINKING:
        a->no_thinking = true;
        return true;
    default:
        return false;
    }
}

bool chat_check_usage(const struct chat_arguments *a, const char *other) {
    const char *only = a->format        ? "chat-format"
                       : a->system      ? "system"
                       : a->no_thinking ? "no-thinking"
                                        : NULL;
    if (a->interactive && a->messages)
        complain("--chat and --messages: give one of them (/load FILE goes on with a "
                 "conversation)");
    else if (chat_is_asked_for(a) && other)
        complain("--%s: %s does not go with it", a->interactive ? "chat" : "messages", other);
    else if (!chat_is_asked_for(a) && only)
        complain("--%s belongs to --chat and --messages", only);
    else
        return true;
    return false;
}

/* ---- replies -------------------------------------------------------------------------------- */

struct chat {
    const struct chat_arguments *arguments;
    const wisp_model *model;
    wisp_session *session;
    wisp_generate_options options;
    chat_stats *stats;
    uint32_t threads; /* for the figures */
    struct messages messages;
    FILE *reply; /* collects the text of a reply */
    int written; /* the exit code of writing it */
};

static bool take_piece(void *context, const wisp_piece *piece) {
    struct chat *chat = context;
    if (piece->text.length == 0)
        return true;
    fwrite(piece->text.bytes, 1, piece->text.length, chat->reply);
    if (chat->arguments->interactive) {
        fwrite(piece->text.bytes, 1, piece->text.length, program_output);
        chat->written = finish_output();
    }
    return chat->written == EXIT_GOOD;
}

/* Complains of a conversation from line `line` (0: all) of the file `name` (NULL: none). */
static int complain_of_conversation(const wisp_error *error, const char *name, size_t line) {
    if (!name || error->status != WISP_ERROR_ARGUMENT)
        return complain_of(error);
    if (line > 0)
        complain("%s: line %zu: %s", name, line, error->message);
    else
        complain("%s: %s", name, error->message);
    return EXIT_INPUT;
}

/* Replies to the messages, and adds the reply to them, or after Ctrl-C the part of it that there
 * is. Returns an exit code; where it is that of Ctrl-C, the program may go on. `name` and `line`
 * are as in complain_of_conversation. */
static int reply(struct chat *chat, const char *name, size_t line) {
    const wisp_conversation conversation = {.messages = chat->messages.list,
                                            .n = chat->messages.n,
                                            .format = chat->arguments->format,
                                            .no_thinking = chat->arguments->no_thinking};
    char *text = NULL;
    size_t length = 0;
    wisp_generation result;
    wisp_error error;
    wisp_status status;
    chat->reply = open_memstream(&text, &length);
    chat->written = EXIT_GOOD;
    if (!chat->reply)
        return complain_of_memory();
    chat->options.piece = take_piece;
    chat->options.context = chat;
    /* A Ctrl-C that came when the last reply had just ended cancels this one: it begins again. */
    do {
        status = wisp_chat(chat->session, &conversation, &chat->options, &result, &error);
    } while (status == WISP_ERROR_CANCELLED && !was_interrupted());
    int code = status == WISP_OK ? EXIT_GOOD : complain_of_conversation(&error, name, line);
    if (!close_memstream(chat->reply, &text))
        code = complain_of_memory();
    if ((code == EXIT_GOOD || code == EXIT_INTERRUPTED) &&
        !messages_add(&chat->messages, WISP_ROLE_ASSISTANT, (wisp_text){text, length}))
        code = EXIT_FAILED;
    free(text);
    if (chat->arguments->interactive && (code == EXIT_GOOD || code == EXIT_INTERRUPTED)) {
        fputc('\n', program_output);
        chat->written = finish_output();
    }
    if (code == EXIT_GOOD && chat->stats)
        chat->stats(chat->session, &result, chat->threads);
    return chat->written == EXIT_GOOD ? code : chat->written;
}

/* ---- talking -------------------------------------------------------------------------------- */

/* Removes all messages but that of --system. */
static int clear(struct chat *chat) {
    const char *system = chat->arguments->system;
    messages_cut(&chat->messages, 0);
    return !system || messages_add(&chat->messages, WISP_ROLE_SYSTEM, wisp_text_of(system))
               ? EXIT_GOOD
               : EXIT_FAILED;
}

/* Obeys a command, which is a line that begins with /. */
static int obey(struct chat *chat, const char *line) {
    static const char save[] = "/save ", load[] = "/load ";
    struct messages loaded = {0};
    if (strcmp(line, "/help") == 0) {
        fputs(commands_help, stderr);
        return EXIT_GOOD;
    }
    if (strcmp(line, "/clear") == 0)
        return clear(chat);
    if (strncmp(line, save, strlen(save)) == 0)
        return messages_save(&chat->messages, line + strlen(save));
    if (strncmp(line, load, strlen(load)) == 0) {
        const int code = messages_load(&loaded, line + strlen(load));
        if (code != EXIT_GOOD)
            return code;
        messages_release(&chat->messages);
        chat->messages = loaded;
        return EXIT_GOOD;
    }
    complain("%.40s: there is no such command (/help lists them; a message that begins with / is "
             "written with //)",
             line);
    return EXIT_USAGE;
}

/* Takes a line: a command, or a message. */
static int take_line(struct chat *chat, const struct record *record) {
    wisp_text text = record->text;
    const size_t before = chat->messages.n;
    if (text.length == 0)
        return EXIT_GOOD;
    if (text.bytes[0] == '/' && (text.length == 1 || text.bytes[1] != '/'))
        return obey(chat, text.bytes);
    if (text.bytes[0] == '/')
        text = (wisp_text){text.bytes + 1, text.length - 1};
    if (!messages_add(&chat->messages, WISP_ROLE_USER, text))
        return EXIT_FAILED;
    int code = reply(chat, NULL, 0);
    if (code != EXIT_GOOD && code != EXIT_INTERRUPTED)
        messages_cut(&chat->messages, before); /* as if the message had not been written */
    /* Ctrl-C may also have come when the reply had just ended. */
    if (was_interrupted() && (code == EXIT_GOOD || code == EXIT_INTERRUPTED))
        code = go_on_after_interrupt() ? EXIT_GOOD : EXIT_INTERRUPTED;
    return code;
}

/* Reads lines and replies to them. On a terminal errors do not end the conversation. */
static int talk(struct chat *chat) {
    const bool terminal = isatty(STDIN_FILENO) == 1;
    const bool prompts = terminal && isatty(STDERR_FILENO) == 1;
    struct batch *batch = calloc(1, sizeof *batch);
    struct input input;
    if (!batch || !input_open(&input, 1)) {
        if (!batch)
            complain("out of memory");
        free(batch);
        return EXIT_FAILED;
    }
    input_add(&input, "-", NULL);
    int code = clear(chat);
    while (code == EXIT_GOOD) {
        if (prompts)
            fputs("> ", stderr);
        code = input_next(&input, batch);
        int taken = EXIT_GOOD;
        for (size_t i = 0; i < batch->n && taken == EXIT_GOOD; i++) {
            taken = take_line(chat, &batch->records[i]);
            if (terminal && taken != EXIT_CLOSED_PIPE && taken != EXIT_INTERRUPTED)
                taken = EXIT_GOOD;
        }
        code = taken == EXIT_GOOD ? code : taken;
        if (batch->n == 0)
            break;
    }
    if (prompts)
        fputc('\n', stderr);
    arena_release(&batch->arena);
    free(batch);
    input_close(&input);
    return code;
}

/* ---- conversations of a file ---------------------------------------------------------------- */

static int answer(struct chat *chat, wisp_text text, size_t line) {
    const char *name = chat->arguments->messages, *system = chat->arguments->system;
    messages_cut(&chat->messages, 0);
    int code = EXIT_GOOD;
    if (system && !messages_add(&chat->messages, WISP_ROLE_SYSTEM, wisp_text_of(system)))
        code = EXIT_FAILED;
    if (code == EXIT_GOOD)
        code = messages_parse(&chat->messages, text, name, line);
    if (code == EXIT_GOOD)
        code = reply(chat, name, line);
    if (code == EXIT_GOOD) {
        message_print(program_output, &chat->messages.list[chat->messages.n - 1]);
        fputc('\n', program_output);
        code = finish_output();
    }
    return code;
}

/* Replies to the conversation in the file, or to one on each line where the first line is a JSON
 * text. */
static int answer_file(struct chat *chat) {
    const char *name = chat->arguments->messages;
    struct arena arena = {0};
    const struct json *root;
    char *text = NULL;
    size_t length;
    int code = read_whole_file(name, &text, &length);
    const char *newline = code == EXIT_GOOD ? memchr(text, '\n', length) : NULL;
    const size_t first = newline ? (size_t)(newline - text) : length;
    if (code != EXIT_GOOD) {
        free(text);
        return code;
    }
    const bool by_line = newline && json_parse(&arena, text, first, name, &root, NULL) == WISP_OK;
    arena_release(&arena);
    for (size_t line = 1, at = 0; code == EXIT_GOOD && at < length; line++) {
        const char *end = by_line ? memchr(text + at, '\n', length - at) : NULL;
        const size_t n = end ? (size_t)(end - text) - at : length - at;
        if (!by_line || n > 0)
            code = answer(chat, (wisp_text){text + at, n}, by_line ? line : 0);
        at += n + 1;
    }
    free(text);
    return code;
}

int chat_run(const struct chat_arguments *arguments, const wisp_model *model, wisp_session *session,
             const wisp_generate_options *options, chat_stats *stats, uint32_t threads) {
    struct chat chat = {.arguments = arguments,
                        .model = model,
                        .session = session,
                        .options = *options,
                        .stats = stats,
                        .threads = threads};
    const wisp_message hello = {.role = WISP_ROLE_USER};
    const wisp_conversation trial = {.messages = &hello,
                                     .n = 1,
                                     .format = arguments->format,
                                     .no_thinking = arguments->no_thinking};
    wisp_error error;
    size_t count;
    int code;
    /* A model without a chat format is refused here, before anyone has typed a message. */
    if (wisp_chat_tokenize(model, &trial, NULL, 0, &count, &error) != WISP_OK)
        code = complain_of(&error);
    else
        code = arguments->interactive ? talk(&chat) : answer_file(&chat);
    messages_release(&chat.messages);
    return code;
}
