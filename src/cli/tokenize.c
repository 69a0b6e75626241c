/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/model_options.h"
#include "cli/output.h"

static const char usage[] =
    "usage: wisp tokenize [OPTION]... [FILE | - | --text TEXT]...\n"
    "\n"
    "Writes the token ids of each text. Special tokens are included. If the model embeds, the ids\n"
    "are truncated to the model's limit. With --decode it writes the text of token ids: each "
    "input\n"
    "is then a JSON array of ids, or an object with an array \"ids\".\n"
    "\n";

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_NDJSON, FORMAT_TABLE };

struct command {
    struct model_arguments model;
    struct input input;
    const char *format_name; /* NULL: the default */
    enum format format;
    bool decodes, special;
};

static int take_file(void *command, const char *path) {
    struct command *c = command;
    input_add(&c->input, path, NULL);
    return EXIT_GOOD;
}

#define ARGUMENTS struct command

static const struct command_option options[] = {
    TAKEN(input_take_text, input, "text", 0, "TEXT",
          "tokenise this text (may be given more than once)"),
    GROUP(input, input_options),
    OPTION(TEXT, format_name, "format", 0, "FORMAT",
           "json (default): the ids as an array on a line; ndjson: an object with\n"
           "\"ids\", \"pieces\" as the vocabulary spells them, and \"starts\" and\n"
           "\"ends\", the bytes of the text that each token covers (null if the\n"
           "text was changed before it was divided); table: a line for each\n"
           "token. With --decode: text (default), json (a string on a line) or\n"
           "ndjson (an object with \"ids\" and \"text\")"),
    OPTION(NONE, decodes, "decode", 0, NULL, "write texts of token ids"),
    OPTION(NONE, special, "special", 0, NULL,
           "with --decode: write the spelling of control tokens"),
    TAKEN(take_model_path, model.path, "model", 'm', "PATH",
          "GGUF file or Hugging Face folder (default: $WISP_MODEL, else the\n"
          "model that comes with wisp)"),
    LAST_OPTION,
};

static const struct command_line this_command = {
    usage, options, 25,
    "\n"
    "Examples:\n"
    "  wisp tokenize --format table --text 'any text'\n"
    "  wisp tokenize notes.txt\n"
    "\nExit codes: see wisp embed --help.\n",
    take_file};

static int check_usage(struct command *c) {
    static const char *const names[] = {"text", "json", "ndjson", "table"};
    c->format = c->decodes ? FORMAT_TEXT : FORMAT_JSON;
    if (c->format_name) {
        size_t i = c->decodes ? 0 : 1, end = c->decodes ? 3 : 4;
        while (i < end && strcmp(names[i], c->format_name) != 0)
            i++;
        if (i == end)
            return complain_of_choice("format", c->format_name,
                                      c->decodes ? "text, json, ndjson" : "json, ndjson, table");
        c->format = (enum format)i;
    }
    if (c->special && !c->decodes) {
        complain("--special requires --decode");
        return EXIT_USAGE;
    }
    if (c->input.ndjson && c->decodes) {
        complain("--input ndjson: with --decode each line is JSON anyway");
        return EXIT_USAGE;
    }
    return EXIT_GOOD;
}

/* Buffers that grow as texts need them. */
struct room {
    int32_t *ids;
    size_t ids_capacity;
    char *text;
    size_t text_capacity;
};

/* Makes room for n items, at least 1, of `size` bytes. */
static bool grow(void **data, size_t *capacity, size_t n, size_t size) {
    if (*data && n <= *capacity)
        return true;
    void *larger = realloc(*data, n * size);
    if (!larger) {
        complain("out of memory");
        return false;
    }
    *data = larger;
    *capacity = n;
    return true;
}

static bool grow_ids(struct room *room, size_t n) {
    void *ids = room->ids;
    const bool grown = grow(&ids, &room->ids_capacity, n, sizeof *room->ids);
    room->ids = ids;
    return grown;
}

static void print_ids(const int32_t *ids, size_t n) {
    fputc('[', program_output);
    for (size_t i = 0; i < n; i++)
        fprintf(program_output, "%s%d", i ? "," : "", ids[i]);
    fputc(']', program_output);
}

/* ---- text to ids ---------------------------------------------------------------------------- */

/* Goes through a text and its tokens side by side. */
struct places {
    const wisp_model *model;
    wisp_text text;
    size_t start, end; /* of the last token */
    bool spaced;       /* the first token has a space that the text does not have */
    bool lost;         /* the text was changed before it was cut: nobody knows where tokens are */
};

static struct places places_of(const wisp_model *model, wisp_text text, const struct room *room,
                               size_t count) {
    size_t length = 0;
    wisp_text bytes;
    for (size_t i = 0; i < count && wisp_token_text(model, room->ids[i], &bytes); i++)
        length += bytes.length;
    return (struct places){.model = model, .text = text, .spaced = length == text.length + 1};
}

/* Returns whether a text begins with these bytes. If it `lowers`, letters A to Z of the text
 * match lower-case ones, too. */
static bool begins_with(const char *text, wisp_text bytes, bool lowers) {
    for (size_t i = 0; i < bytes.length; i++) {
        const char c = text[i], low = c >= 'A' && c <= 'Z' && lowers ? (char)(c + 32) : c;
        if (c != bytes.bytes[i] && low != bytes.bytes[i])
            return false;
    }
    return true;
}

static void find_next(struct places *p, int32_t id) {
    char word[1024];
    wisp_text bytes;
    const bool generates = wisp_token_text(p->model, id, &bytes);
    if (!generates) { /* a word, or a piece of one, in a vocabulary that is often of lower case */
        wisp_decoder decoder = {.more = true};
        size_t length;
        if (wisp_detokenize(p->model, &id, 1, &decoder, word, sizeof word, &length, NULL) !=
                WISP_OK ||
            length > sizeof word)
            length = 0;
        bytes = (wisp_text){word, length};
        while (length > 0 && p->end < p->text.length && p->text.bytes[p->end] != '\0' &&
               strchr(" \t\r\n", p->text.bytes[p->end]))
            p->end++;
    }
    p->start = p->end;
    if (p->spaced && bytes.length > 0) {
        p->spaced = false;
        bytes.bytes++;
        bytes.length--;
    }
    p->lost = p->lost || bytes.length > p->text.length - p->end ||
              !begins_with(p->text.bytes + p->end, bytes, !generates);
    p->end += p->lost ? 0 : bytes.length;
}

/* Writes one end of each token as an array, with null if it is not known. */
static void print_places(struct places places, const struct room *room, size_t count, bool ends) {
    fputc('[', program_output);
    for (size_t i = 0; i < count; i++) {
        find_next(&places, room->ids[i]);
        if (places.lost)
            fputs(i ? ",null" : "null", program_output);
        else
            fprintf(program_output, "%s%zu", i ? "," : "", ends ? places.end : places.start);
    }
    fputc(']', program_output);
}

static void print_object(const wisp_model *model, wisp_text text, const struct room *room,
                         size_t count) {
    const struct places places = places_of(model, text, room, count);
    wisp_text spelling;
    fputs("{\"ids\": ", program_output);
    print_ids(room->ids, count);
    fputs(", \"pieces\": [", program_output);
    for (size_t i = 0; i < count && wisp_token_spelling(model, room->ids[i], &spelling); i++) {
        fputs(i ? ", " : "", program_output);
        print_json_string(program_output, spelling);
    }
    fputs("], \"starts\": ", program_output);
    print_places(places, room, count, false);
    fputs(", \"ends\": ", program_output);
    print_places(places, room, count, true);
    fputs("}\n", program_output);
}

static void print_table(const wisp_model *model, wisp_text text, const struct room *room,
                        size_t count) {
    struct places places = places_of(model, text, room, count);
    wisp_text spelling;
    for (size_t i = 0; i < count && wisp_token_spelling(model, room->ids[i], &spelling); i++) {
        find_next(&places, room->ids[i]);
        char span[64] = "-";
        if (!places.lost)
            snprintf(span, sizeof span, "%zu-%zu", places.start, places.end);
        fprintf(program_output, "%8d  %-11s  ", room->ids[i], span);
        print_text(program_output, spelling, SIZE_MAX);
        fputc('\n', program_output);
    }
    fputc('\n', program_output);
}

static int tokenize(const struct command *c, const wisp_model *model, wisp_text text,
                    struct room *room) {
    size_t count;
    wisp_error error;
    do {
        if (wisp_tokenize(model, text, room->ids, room->ids_capacity, &count, &error) != WISP_OK)
            return complain_of(&error);
        if (count <= room->ids_capacity)
            break;
    } while (grow_ids(room, count));
    if (count > room->ids_capacity)
        return EXIT_FAILED;
    if (c->format == FORMAT_NDJSON) {
        print_object(model, text, room, count);
    } else if (c->format == FORMAT_TABLE) {
        print_table(model, text, room, count);
    } else {
        print_ids(room->ids, count);
        fputc('\n', program_output);
    }
    return EXIT_GOOD;
}

/* ---- ids to text ---------------------------------------------------------------------------- */

static int complain_of_ids(const struct record *record, const char *what) {
    complain("%s: line %zu: %s", record->name, record->line, what);
    return EXIT_INPUT;
}

static int read_ids(const struct record *record, struct arena *arena, struct room *room,
                    size_t *count) {
    const struct json *root;
    wisp_error error;
    if (json_parse(arena, record->text.bytes, record->text.length, NULL, &root, &error) != WISP_OK)
        return complain_of_text(record->name, record->line, &error);
    if (json_is(root, JSON_OBJECT))
        root = json_get(root, "ids");
    if (!json_is(root, JSON_ARRAY))
        return complain_of_ids(record, "neither an array of token ids nor an object with \"ids\"");
    *count = 0;
    if (!grow_ids(room, (size_t)root->count + 1))
        return EXIT_FAILED;
    for (const struct json *item = root->first; item; item = item->next) {
        int64_t id;
        if (!json_to_i64(item, &id) || id < 0 || id > INT32_MAX)
            return complain_of_ids(record, "ids: not an array of token ids");
        room->ids[(*count)++] = (int32_t)id;
    }
    return EXIT_GOOD;
}

static int detokenize(const struct command *c, const wisp_model *model, const struct record *record,
                      struct arena *arena, struct room *room) {
    size_t count = 0, length;
    wisp_error error;
    int code = read_ids(record, arena, room, &count);
    while (code == EXIT_GOOD) {
        wisp_decoder decoder = {.special = c->special};
        const wisp_status status = wisp_detokenize(model, room->ids, count, &decoder, room->text,
                                                   room->text_capacity, &length, &error);
        if (status == WISP_ERROR_ARGUMENT)
            return complain_of_ids(record, error.message);
        if (status != WISP_OK)
            return complain_of(&error);
        if (length <= room->text_capacity)
            break;
        void *text = room->text;
        code = grow(&text, &room->text_capacity, length, 1) ? EXIT_GOOD : EXIT_FAILED;
        room->text = text;
    }
    if (code != EXIT_GOOD)
        return code;
    if (c->format == FORMAT_NDJSON) {
        fputs("{\"ids\": ", program_output);
        print_ids(room->ids, count);
        fputs(", \"text\": ", program_output);
    }
    if (c->format == FORMAT_TEXT)
        fwrite(room->text, 1, length, program_output);
    else
        print_json_string(program_output, (wisp_text){room->text, length});
    fputs(c->format == FORMAT_NDJSON ? "}\n" : "\n", program_output);
    return EXIT_GOOD;
}

/* ---- the command ---------------------------------------------------------------------------- */

static int run(struct command *c, const wisp_model *model) {
    struct batch *batch = calloc(1, sizeof *batch);
    struct room room = {0};
    int code = batch ? EXIT_GOOD : EXIT_FAILED;
    if (code != EXIT_GOOD)
        complain("out of memory");
    while (code == EXIT_GOOD) {
        code = input_next(&c->input, batch);
        int printed = EXIT_GOOD;
        for (size_t i = 0; i < batch->n && printed == EXIT_GOOD; i++)
            printed = c->decodes ? detokenize(c, model, &batch->records[i], &batch->arena, &room)
                                 : tokenize(c, model, batch->texts[i], &room);
        const int written = finish_output();
        printed = printed == EXIT_GOOD ? written : printed;
        code = printed != EXIT_GOOD ? printed : code;
        if (batch->n == 0)
            break;
    }
    batch_close(batch);
    free(room.ids);
    free(room.text);
    return code;
}

int command_tokenize(int argc, char **argv) {
    struct command c = {.model = {.threads = 1}};
    wisp_model *model = NULL;
    wisp_session *session = NULL;
    int code;
    if (!input_open(&c.input, (size_t)argc))
        return EXIT_FAILED;
    if (take_options(&this_command, &c, argc, argv, &code)) {
        if (c.input.n_items == 0)
            input_add(&c.input, "-", NULL);
        code = check_usage(&c);
        if (code == EXIT_GOOD)
            code = open_model(&c.model, &model, &session);
    }
    if (code == EXIT_GOOD && session) {
        watch_signals(NULL);
        code = run(&c, model);
    }
    wisp_session_close(session);
    wisp_model_close(model);
    input_close(&c.input);
    return code;
}
