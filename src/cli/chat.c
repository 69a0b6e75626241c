/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/input.h"
#include "cli/line_editor.h"
#include "cli/messages.h"
#include "cli/whole_file.h"

static const char commands_help[] =
    "Each line is a message, and the model replies to it.\n"
    "\n"
    "  /help       print this text\n"
    "  /clear      forget the conversation\n"
    "  /save FILE  write the conversation as JSON\n"
    "  /load FILE  continue such a conversation\n"
    "  //TEXT      send a message that begins with /\n"
    "\n"
    "The arrows move in the line, and to the lines before. Ctrl-C ends a reply. At the prompt,\n"
    "Ctrl-C and Ctrl-D end the program.\n";

#define ARGUMENTS struct chat_arguments

const struct command_option chat_options[] = {
    OPTION(NONE, interactive, "chat", 0, NULL,
           "reply to each line of standard input, in one conversation; Ctrl-C ends\n"
           "a reply; /help lists the commands"),
    OPTION(TEXT, messages, "messages", 0, "FILE",
           "reply to conversations: FILE has one, or one on each line. It is a\n"
           "JSON array of messages, each with a \"role\", \"content\" and whatever\n"
           "else the model's template uses, or an object with \"messages\" and\n"
           "\"tools\". Writes each reply as a message on a line, with \"end\" and\n"
           "the other members of the conversation, such as an \"id\""),
    OPTION(TEXT, path, "chat-template", 0, "FILE",
           "a template in Jinja that turns messages into a prompt (default: that\n"
           "of the model's file)"),
    OPTION(TEXT, format, "chat-format", 0, "NAME",
           "for models without a template: chatml, or plain, in which messages\n"
           "are plain text"),
    OPTION(TEXT, tools, "tools", 0, "FILE",
           "functions that the model may call: a JSON array for the template's\n"
           "\"tools\""),
    OPTION(TEXT, variables, "variables", 0, "JSON",
           "other variables of the template, as an object"),
    OPTION(TEXT, date, "date", 0, "DATE",
           "the date that the template tells the model, such as 2026-11-26 or\n"
           "2026-11-26T05:47:20 (default: now)"),
    OPTION(TEXT, system, "system", 0, "TEXT", "the system message before the conversation"),
    OPTION(NONE, no_thinking, "no-thinking", 0, NULL,
           "reply without thinking first, if the template has such a switch"),
    LAST_OPTION,
};

bool chat_check_usage(const struct chat_arguments *a, const char *other) {
    const char *only = a->format        ? "chat-format"
                       : a->path        ? "chat-template"
                       : a->tools       ? "tools"
                       : a->variables   ? "variables"
                       : a->date        ? "date"
                       : a->system      ? "system"
                       : a->no_thinking ? "no-thinking"
                                        : NULL;
    if (a->interactive && a->messages)
        complain("--chat and --messages: give only one of them (/load FILE continues a "
                 "conversation)");
    else if (a->format && a->path)
        complain("--chat-format and --chat-template exclude each other");
    else if (chat_is_asked_for(a) && other)
        complain("--%s and %s exclude each other", a->interactive ? "chat" : "messages", other);
    else if (!chat_is_asked_for(a) && only)
        complain("--%s requires --chat or --messages", only);
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
    char *template, *tools; /* of --chat-template, and an object of --tools; NULL: none */
    size_t template_length;
    char *variables; /* of a conversation of a file; NULL: none */
    char date[32];
    FILE *reply;  /* collects the text of a reply */
    int32_t *ids; /* [n_ids]: its tokens */
    size_t n_ids, ids_capacity;
    wisp_end end; /* why the last reply ended */
    int written;  /* the exit code of writing it */
};

static bool take_piece(void *context, const wisp_piece *piece) {
    struct chat *chat = context;
    if (piece->id >= 0 && chat->n_ids == chat->ids_capacity) {
        const size_t capacity = 2 * chat->ids_capacity + 256;
        int32_t *ids = realloc(chat->ids, capacity * sizeof *ids);
        if (!ids) {
            chat->written = complain_of_memory();
            return false;
        }
        chat->ids = ids;
        chat->ids_capacity = capacity;
    }
    if (piece->id >= 0)
        chat->ids[chat->n_ids++] = piece->id;
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

/* ---- a conversation ------------------------------------------------------------------------- */

/* Memory of a conversation for the library. */
struct written {
    char *json, *variables;
    bool has_tools;
    wisp_conversation conversation;
};

static void release_written(struct written *written) {
    free(written->json);
    free(written->variables);
}

/* Makes a conversation of the messages and the options. Returns an exit code, after complaining
 * if it is not EXIT_GOOD; the caller releases it in either case. */
static int write_conversation(const struct chat *chat, struct written *written) {
    const struct chat_arguments *a = chat->arguments;
    const char *const objects[] = {chat->variables, chat->tools, a->variables}, *const names[] = {
                                                                                    "messages",
                                                                                    "--tools",
                                                                                    "--variables"};
    size_t length = 0;
    *written = (struct written){0};
    FILE *stream = open_memstream(&written->json, &length);
    if (!stream)
        return complain_of_memory();
    messages_print(stream, &chat->messages);
    if (!close_memstream(stream, &written->json))
        return complain_of_memory();
    written->variables = join_objects(objects, names, 3, "tools", &written->has_tools);
    if (!written->variables)
        return EXIT_USAGE;
    written->conversation =
        (wisp_conversation){.json = {written->json, length},
                            .format = a->format,
                            .chat_template = {chat->template, chat->template_length},
                            .variables = wisp_text_of(written->variables),
                            .date = chat->date,
                            .no_thinking = a->no_thinking};
    return EXIT_GOOD;
}

/* Reads the files of the options, and the clock. */
static int read_arguments(struct chat *chat) {
    const struct chat_arguments *a = chat->arguments;
    char *tools = NULL;
    size_t length = 0;
    int code = EXIT_GOOD;
    if (a->path)
        code = read_whole_file(a->path, &chat->template, &chat->template_length);
    if (code == EXIT_GOOD && a->tools) {
        code = read_whole_file(a->tools, &tools, &length);
        if (code == EXIT_GOOD &&
            asprintf(&chat->tools, "{\"tools\": %.*s}", (int)length, tools) < 0) {
            chat->tools = NULL;
            code = complain_of_memory();
        }
        free(tools);
    }
    if (a->date) {
        snprintf(chat->date, sizeof chat->date, "%s", a->date);
    } else {
        const time_t now = time(NULL);
        struct tm local;
        if (localtime_r(&now, &local))
            strftime(chat->date, sizeof chat->date, "%Y-%m-%dT%H:%M:%S", &local);
    }
    return code;
}

/* Adds the reply to the messages: with the calls in it, if the conversation has tools and the
 * reply is whole. */
static int add_reply(struct chat *chat, wisp_text text, bool may_call) {
    size_t length = 0;
    char *json = NULL;
    wisp_error error;
    if (may_call && wisp_chat_tool_calls(chat->model, chat->ids, chat->n_ids, NULL, 0, &length,
                                         &error) != WISP_OK)
        return complain_of(&error);
    if (length == 0)
        return messages_add(&chat->messages, "assistant", text) ? EXIT_GOOD : EXIT_FAILED;
    json = malloc(length + 1);
    if (json) {
        json[length] = '\0';
        if (wisp_chat_tool_calls(chat->model, chat->ids, chat->n_ids, json, length, &length,
                                 &error) != WISP_OK) {
            free(json);
            return complain_of(&error);
        }
    }
    return messages_take(&chat->messages, json) ? EXIT_GOOD : EXIT_FAILED;
}

/* Replies to the messages, and adds the reply to them, or after Ctrl-C the part of it that there
 * is. Returns an exit code; if it is that of Ctrl-C, the program may go on. `name` and `line`
 * are as in complain_of_conversation. */
static int reply(struct chat *chat, const char *name, size_t line) {
    char *text = NULL;
    size_t length = 0;
    struct written written;
    wisp_generation result;
    wisp_error error;
    wisp_status status;
    int code = write_conversation(chat, &written);
    chat->reply = code == EXIT_GOOD ? open_memstream(&text, &length) : NULL;
    chat->written = EXIT_GOOD;
    chat->n_ids = 0;
    if (!chat->reply) {
        release_written(&written);
        return code != EXIT_GOOD ? code : complain_of_memory();
    }
    chat->options.piece = take_piece;
    chat->options.context = chat;
    /* A Ctrl-C that came when the last reply had just ended cancels this one: it begins again. */
    do {
        status = wisp_chat(chat->session, &written.conversation, &chat->options, &result, &error);
    } while (status == WISP_ERROR_CANCELLED && !was_interrupted());
    const bool may_call = status == WISP_OK && written.has_tools;
    release_written(&written);
    code = status == WISP_OK ? EXIT_GOOD : complain_of_conversation(&error, name, line);
    if (!close_memstream(chat->reply, &text))
        code = complain_of_memory();
    if (code == EXIT_GOOD || code == EXIT_INTERRUPTED) {
        const int added = add_reply(chat, (wisp_text){text, length}, may_call);
        code = added == EXIT_GOOD ? code : added;
    }
    free(text);
    if (chat->arguments->interactive && (code == EXIT_GOOD || code == EXIT_INTERRUPTED)) {
        fputc('\n', program_output);
        chat->written = finish_output();
    }
    if (code == EXIT_GOOD)
        chat->end = result.end;
    if (code == EXIT_GOOD && chat->stats)
        chat->stats(chat->session, &result, chat->threads);
    return chat->written == EXIT_GOOD ? code : chat->written;
}

/* ---- talking -------------------------------------------------------------------------------- */

static const char prompt[] = "> ";

/* Removes all messages but that of --system. */
static int clear(struct chat *chat) {
    const char *system = chat->arguments->system;
    messages_cut(&chat->messages, 0);
    return !system || messages_add(&chat->messages, "system", wisp_text_of(system)) ? EXIT_GOOD
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
    complain("%.40s: unknown command (/help lists the commands; // begins a message that begins "
             "with /)",
             line);
    return EXIT_USAGE;
}

/* Takes a line: a command, or a message. */
static int take_line(struct chat *chat, wisp_text text) {
    const size_t before = chat->messages.n;
    if (text.length == 0)
        return EXIT_GOOD;
    if (text.bytes[0] == '/' && (text.length == 1 || text.bytes[1] != '/'))
        return obey(chat, text.bytes);
    if (text.bytes[0] == '/')
        text = (wisp_text){text.bytes + 1, text.length - 1};
    if (!messages_add(&chat->messages, "user", text))
        return EXIT_FAILED;
    int code = reply(chat, NULL, 0);
    if (code != EXIT_GOOD && code != EXIT_INTERRUPTED)
        messages_cut(&chat->messages, before); /* as if the message had not been written */
    /* Ctrl-C may also have come when the reply had just ended. */
    if (was_interrupted() && (code == EXIT_GOOD || code == EXIT_INTERRUPTED))
        code = go_on_after_interrupt() ? EXIT_GOOD : EXIT_INTERRUPTED;
    return code;
}

/* Replies to a line that was typed. Errors do not end the conversation. */
static int take_typed(struct chat *chat, wisp_text line) {
    const int taken = take_line(chat, line);
    return taken == EXIT_CLOSED_PIPE || taken == EXIT_INTERRUPTED ? taken : EXIT_GOOD;
}

/* Talks at a terminal on which lines can be edited. */
static int talk_with_editor(struct chat *chat) {
    struct line_editor editor = {0};
    wisp_text line = {0};
    int code = clear(chat);
    do {
        if (code == EXIT_GOOD)
            code = line_editor_read(&editor, prompt, &line);
        if (code == EXIT_GOOD && line.bytes)
            code = take_typed(chat, line);
    } while (code == EXIT_GOOD && line.bytes);
    line_editor_release(&editor);
    return code;
}

/* Reads lines and replies to them. */
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
            fputs(prompt, stderr);
        code = input_next(&input, batch);
        int taken = EXIT_GOOD;
        for (size_t i = 0; i < batch->n && taken == EXIT_GOOD; i++)
            taken = (terminal ? take_typed : take_line)(chat, batch->records[i].text);
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

/* Writes the members of a conversation's object that are not messages, then the reply or the error
 * that is in its place. */
static int print_answer(const struct chat *chat, wisp_text text, bool failed) {
    static const char *const own[] = {"messages", "tools", "documents", "role",
                                      "content",  "end",   "error"};
    struct arena arena = {0};
    const struct json *root = NULL, *member = NULL;
    if (json_parse(&arena, text.bytes, text.length, NULL, &root, NULL) == WISP_OK &&
        json_is(root, JSON_OBJECT))
        member = root->first;
    fputc('{', program_output);
    for (; member; member = member->next) {
        bool is_own = false;
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
            is_own = is_own || strcmp(member->key, own[i]) == 0;
        if (is_own)
            continue;
        print_member(program_output, member);
        fputs(", ", program_output);
    }
    arena_release(&arena);
    if (failed) {
        fputs("\"error\": ", program_output);
        print_json_string(program_output, last_complaint());
    } else {
        /* Add a member to the message, an object. */
        const char *message = chat->messages.list[chat->messages.n - 1];
        fwrite(message + 1, 1, strlen(message) - 2, program_output);
        fprintf(program_output, ", \"end\": \"%s\"", wisp_end_name(chat->end));
    }
    fputs("}\n", program_output);
    return finish_output();
}

/* Replies to one conversation. One of many lines that is wrong costs only its own reply: then the
 * result is EXIT_INPUT, and an object with the error has been written. */
static int answer(struct chat *chat, wisp_text text, size_t line) {
    const char *name = chat->arguments->messages, *system = chat->arguments->system;
    messages_cut(&chat->messages, 0);
    int code = EXIT_GOOD;
    if (system && !messages_add(&chat->messages, "system", wisp_text_of(system)))
        code = EXIT_FAILED;
    if (code == EXIT_GOOD)
        code = messages_parse(&chat->messages, text, name, line, &chat->variables);
    if (code == EXIT_GOOD)
        code = reply(chat, name, line);
    free(chat->variables);
    chat->variables = NULL;
    if (code != EXIT_GOOD && (code != EXIT_INPUT || line == 0))
        return code;
    const int printed = print_answer(chat, text, code != EXIT_GOOD);
    return printed == EXIT_GOOD ? code : printed;
}

/* Replies to the conversation in the file, or to one on each line if the first line is a JSON
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
    bool failed = false;
    for (size_t line = 1, at = 0; code == EXIT_GOOD && at < length; line++) {
        const char *end = by_line ? memchr(text + at, '\n', length - at) : NULL;
        const size_t n = end ? (size_t)(end - text) - at : length - at;
        if (!by_line || n > 0)
            code = answer(chat, (wisp_text){text + at, n}, by_line ? line : 0);
        if (by_line && code == EXIT_INPUT) {
            failed = true;
            code = EXIT_GOOD;
        }
        at += n + 1;
    }
    free(text);
    return failed && code == EXIT_GOOD ? EXIT_INPUT : code;
}

/* Refuses a model without a chat template, and options that it does not take, before anyone has
 * typed a message. A template may refuse this conversation and take others. */
static int try_conversation(const struct chat *chat) {
    struct written trial;
    wisp_error error;
    size_t count;
    int code = write_conversation(chat, &trial);
    if (code == EXIT_GOOD &&
        wisp_chat_tokenize(chat->model, &trial.conversation, NULL, 0, &count, &error) != WISP_OK &&
        !(error.status == WISP_ERROR_ARGUMENT &&
          strcmp(error.field, "tokenizer.chat_template") == 0))
        code = complain_of(&error);
    release_written(&trial);
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
    int code = read_arguments(&chat);
    if (code == EXIT_GOOD && !messages_add(&chat.messages, "user", (wisp_text){0}))
        code = EXIT_FAILED;
    if (code == EXIT_GOOD)
        code = try_conversation(&chat);
    messages_cut(&chat.messages, 0);
    if (code == EXIT_GOOD)
        code = !arguments->interactive ? answer_file(&chat)
               : line_editor_works()   ? talk_with_editor(&chat)
                                       : talk(&chat);
    free(chat.template);
    free(chat.tools);
    free(chat.ids);
    messages_release(&chat.messages);
    return code;
}
