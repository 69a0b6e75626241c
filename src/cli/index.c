/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/indexes.h"
#include "cli/input.h"
#include "cli/prompt.h"

static const char help[] =
    "usage: wisp index build INDEX [OPTION]... [FILE | -]...\n"
    "       wisp index add INDEX [OPTION]... [FILE | -]...\n"
    "       wisp index remove INDEX [ID | -]...\n"
    "       wisp index list INDEX [--format FORMAT]\n"
    "       wisp index info INDEX [--format FORMAT]\n"
    "\n"
    "build embeds each line of the files, or of standard input, and writes a new index, which\n"
    "wisp search searches. add adds lines to an index; a line whose id the index has replaces\n"
    "the old one. remove removes those with the ids, or with those in the lines of standard\n"
    "input (-). list prints ids and texts, info what the index is. An index that is changed is\n"
    "written anew beside the old one, and then takes its place.\n"
    "\n"
    "A line has the id FILE:NUMBER, or stdin:NUMBER. With --input ndjson each line is a JSON\n"
    "string, or an object whose \"text\" is embedded, whose \"id\" is a string or a number and "
    "may\n"
    "be missing, and which is kept as metadata.\n"
    "\n"
    "      --input FORMAT     lines (default) or ndjson\n"
    "      --kind KIND        int8 (default): a byte for each value; f32: four times as large\n"
    "      --dimensions N     keep the first N values of each embedding, normalised again\n"
    "      --no-text          do not keep texts in the index\n"
    "      --prompt NAME      put this prompt of the model before each text (default: the model's\n"
    "                         default prompt)\n"
    "      --prompt-text TEXT put TEXT before each text\n"
    "      --format FORMAT    of list: text (default) or ndjson; of info: text or json\n" MODEL_HELP
    "  -h, --help             this text\n"
    "\n"
    "Exit codes: see wisp embed --help; 3 if the index cannot be used, too.\n";

enum {
    OPTION_INPUT = 256,
    OPTION_KIND,
    OPTION_DIMENSIONS,
    OPTION_NO_TEXT,
    OPTION_PROMPT,
    OPTION_PROMPT_TEXT,
    OPTION_FORMAT
};

static const struct option options[] = {
    {"input", required_argument, NULL, OPTION_INPUT},
    {"kind", required_argument, NULL, OPTION_KIND},
    {"dimensions", required_argument, NULL, OPTION_DIMENSIONS},
    {"no-text", no_argument, NULL, OPTION_NO_TEXT},
    {"prompt", required_argument, NULL, OPTION_PROMPT},
    {"prompt-text", required_argument, NULL, OPTION_PROMPT_TEXT},
    {"format", required_argument, NULL, OPTION_FORMAT},
    MODEL_OPTIONS,
    {"help", no_argument, NULL, 'h'},
    {0}};

enum action { BUILD, ADD, REMOVE, LIST, INFO };

struct arguments {
    struct model_arguments model;
    struct input input;
    enum action action;
    const char *path; /* of the index; NULL: not given */
    wisp_index_kind kind;
    unsigned long dimensions; /* 0: the model's */
    struct prompt_choice prompt;
    bool no_text, json, help;
};

/* A batch on its way into the index. Ids and metadata stand one after the other in a stream. */
struct run {
    struct arguments *arguments;
    wisp_session *session;
    wisp_index *index;
    wisp_embed_options options;
    struct batch *batch;
    float *rows;               /* [BATCH_RECORDS, dimensions] */
    wisp_text *ids, *metadata; /* [BATCH_RECORDS] */
    struct progress progress;
    size_t done;
};

/* ---- arguments ------------------------------------------------------------------------------ */

static int take_option(struct arguments *a, int option, const char *value) {
    int code = EXIT_GOOD;
    switch (option) {
    case OPTION_INPUT:
        return input_take_format(&a->input, value);
    case OPTION_KIND:
        return wisp_index_kind_find(value, &a->kind)
                   ? EXIT_GOOD
                   : complain_of_name("kind", value, wisp_index_kind_name);
    case OPTION_DIMENSIONS:
        return parse_count("dimensions", value, 65536, &a->dimensions) ? EXIT_GOOD : EXIT_USAGE;
    case OPTION_NO_TEXT:
        a->no_text = true;
        return EXIT_GOOD;
    case OPTION_PROMPT:
        a->prompt.name = value;
        return EXIT_GOOD;
    case OPTION_PROMPT_TEXT:
        a->prompt.text = value;
        return EXIT_GOOD;
    case OPTION_FORMAT: {
        const char *other = a->action == INFO ? "json" : "ndjson";
        a->json = strcmp(value, other) == 0;
        return a->json || strcmp(value, "text") == 0
                   ? EXIT_GOOD
                   : complain_of_choice("format", value,
                                        a->action == INFO ? "text, json" : "text, ndjson");
    }
    case 'h':
        a->help = true;
        return EXIT_GOOD;
    default:
        return take_model_option(&a->model, option, value, &code) ? EXIT_GOOD : code;
    }
}

/* Takes an argument that is no option: first the index, then the files or ids. */
static int take_operand(struct arguments *a, const char *value) {
    if (!a->path) {
        a->path = value;
        return EXIT_GOOD;
    }
    if (a->action == LIST || a->action == INFO) {
        complain("index: %s: one index belongs here (see --help)", value);
        return EXIT_USAGE;
    }
    const bool is_id = a->action == REMOVE && strcmp(value, "-") != 0;
    input_add(&a->input, is_id ? NULL : value, is_id ? value : NULL);
    return EXIT_GOOD;
}

static int parse(struct arguments *a, int argc, char **argv) {
    static const char *const actions[] = {"build", "add", "remove", "list", "info"};
    enum { ACTIONS = sizeof actions / sizeof *actions };
    int option, code = EXIT_GOOD;
    size_t action = 0;
    while (argc > 1 && action < ACTIONS && strcmp(argv[1], actions[action]) != 0)
        action++;
    a->help = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    if (a->help)
        return EXIT_GOOD;
    if (argc < 2 || action == ACTIONS) {
        complain("index: one of build, add, remove, list and info belongs after it (see --help)");
        return EXIT_USAGE;
    }
    a->action = (enum action)action;
    argc--;
    argv++;
    while (code == EXIT_GOOD && (option = getopt_long(argc, argv, "-m:t:h", options, NULL)) != -1)
        code = option == 1 ? take_operand(a, optarg) : take_option(a, option, optarg);
    for (; code == EXIT_GOOD && optind < argc; optind++)
        code = take_operand(a, argv[optind]);
    if (code != EXIT_GOOD || a->help)
        return code;
    if (!a->path) {
        complain("index %s: no index is given (see --help)", actions[action]);
        return EXIT_USAGE;
    }
    if (a->input.n_items == 0 && a->action == REMOVE) {
        complain("index remove: no ids are given (see --help)");
        return EXIT_USAGE;
    }
    if (a->input.n_items == 0)
        input_add(&a->input, "-", NULL);
    return EXIT_GOOD;
}

/* ---- building and adding -------------------------------------------------------------------- */

/* Writes the id of a record: its own, or FILE:NUMBER. */
static int write_record_id(FILE *stream, const struct record *record) {
    const struct json *id = json_get(record->object, "id");
    if (json_is_absent(id)) {
        /* Standard input gets a name that does not begin with "-": wisp index remove would take
         * such an id for an option. */
        const char *name = strcmp(record->name, "-") == 0 ? "stdin" : record->name;
        print_text(stream, wisp_text_of(name), SIZE_MAX);
        fprintf(stream, ":%zu", record->line);
    } else if ((json_is(id, JSON_STRING) || json_is(id, JSON_NUMBER)) && id->text_length > 0) {
        fwrite(id->text, 1, id->text_length, stream);
    } else {
        complain("%s: line %zu: \"id\" is neither a number nor a string with a character",
                 record->name, record->line);
        return EXIT_INPUT;
    }
    return EXIT_GOOD;
}

/* Writes the metadata of a record: an object with the text of a line, or with all members of a JSON
 * object but its id. With `no_text` the text is left out. */
static void write_kept(FILE *stream, const struct record *record, bool no_text) {
    const struct json *object = record->object;
    bool any = false;
    fputc('{', stream);
    if (!object && !no_text) {
        fputs("\"text\":", stream);
        print_json_string(stream, record->text);
    }
    for (const struct json *member = object ? object->first : NULL; member; member = member->next) {
        if (strcmp(member->key, "id") == 0 || (no_text && strcmp(member->key, "text") == 0))
            continue;
        if (any)
            fputc(',', stream);
        any = true;
        print_member(stream, member);
    }
    fputc('}', stream);
}

/* Sets the ids and metadata of the batch's records, which lie in *bytes; the caller frees it.
 * Stops, after complaining, at a record without a valid id; *n is the number of records before
 * it. */
static int describe(struct run *run, char **bytes, size_t *n) {
    const struct batch *batch = run->batch;
    size_t size, ends[2 * BATCH_RECORDS];
    int code = EXIT_GOOD;
    *bytes = NULL;
    FILE *stream = open_memstream(bytes, &size);
    for (*n = 0; stream && *n < batch->n; ++*n) {
        code = write_record_id(stream, &batch->records[*n]);
        if (code != EXIT_GOOD)
            break;
        ends[2 * *n] = (size_t)ftello(stream);
        write_kept(stream, &batch->records[*n], run->arguments->no_text);
        ends[2 * *n + 1] = (size_t)ftello(stream);
    }
    if (!stream || !close_memstream(stream, bytes)) {
        complain("out of memory");
        *n = 0;
        return EXIT_FAILED;
    }
    for (size_t i = 0, at = 0; i < *n; at = ends[2 * i + 1], i++) {
        run->ids[i] = (wisp_text){*bytes + at, ends[2 * i] - at};
        run->metadata[i] = (wisp_text){*bytes + ends[2 * i], ends[2 * i + 1] - ends[2 * i]};
    }
    return code;
}

static int add_batch(struct run *run) {
    const struct batch *batch = run->batch;
    wisp_error error;
    char *bytes;
    size_t n;
    int code = describe(run, &bytes, &n);
    if (code == EXIT_GOOD &&
        (wisp_embed(run->session, batch->texts, n, &run->options, run->rows, &error) != WISP_OK ||
         wisp_index_add(run->index, run->ids, run->metadata, run->rows, n, &error) != WISP_OK))
        code = complain_of(&error);
    free(bytes);
    run->done += n;
    progress_show(&run->progress, run->done, input_fraction(&run->arguments->input));
    return code;
}

static int add_all(struct run *run) {
    int code;
    progress_start(&run->progress, "texts");
    do {
        code = input_next(&run->arguments->input, run->batch);
        if (code == EXIT_GOOD && run->batch->n > 0)
            code = add_batch(run);
    } while (code == EXIT_GOOD && run->batch->n > 0);
    progress_end(&run->progress);
    return code;
}

static int build_or_add(struct arguments *a, struct run *run) {
    wisp_model *model = NULL;
    wisp_index_info info;
    wisp_error error;
    int code = open_model(&a->model, &model, &run->session);
    if (code == EXIT_GOOD) {
        watch_signals(run->session);
        code = choose_prompt(model, &a->prompt, &run->options.prompt);
    }
    if (code == EXIT_GOOD &&
        (a->action == BUILD
             ? wisp_index_create(run->session, a->dimensions, a->kind, &run->index, &error)
             : wisp_index_check_model(run->index, run->session, &error)) != WISP_OK)
        code = complain_of(&error);
    if (code == EXIT_GOOD) {
        wisp_index_get_info(run->index, &info);
        run->options.dimensions = info.dimensions;
        run->rows = calloc(BATCH_RECORDS, info.dimensions * sizeof *run->rows);
        run->ids = calloc(BATCH_RECORDS, sizeof *run->ids);
        run->metadata = calloc(BATCH_RECORDS, sizeof *run->metadata);
        if (run->rows && run->ids && run->metadata) {
            code = add_all(run);
        } else {
            code = complain_of_memory();
        }
    }
    free(run->rows);
    free(run->ids);
    free(run->metadata);
    watch_signals(NULL);
    wisp_session_close(run->session);
    wisp_model_close(model);
    return code;
}

/* ---- removing ------------------------------------------------------------------------------- */

static int remove_all(struct run *run) {
    int code;
    wisp_error error;
    watch_signals(NULL);
    do {
        size_t removed;
        code = input_next(&run->arguments->input, run->batch);
        if (code == EXIT_GOOD && wisp_index_remove(run->index, run->batch->texts, run->batch->n,
                                                   &removed, &error) != WISP_OK)
            code = complain_of(&error);
        else if (code == EXIT_GOOD)
            run->done += removed;
    } while (code == EXIT_GOOD && run->batch->n > 0);
    return code;
}

/* ---- all ------------------------------------------------------------------------------------ */

/* Drops removed rows where they are more than a quarter of all, and writes the file. */
static int save(struct run *run) {
    wisp_index_info info;
    wisp_error error;
    if (was_interrupted())
        return EXIT_INTERRUPTED;
    wisp_index_get_info(run->index, &info);
    if ((info.rows - info.count > info.rows / 4 &&
         wisp_index_compact(run->index, &error) != WISP_OK) ||
        wisp_index_save(run->index, run->arguments->path, &error) != WISP_OK)
        return complain_of(&error);
    return EXIT_GOOD;
}

static int run_index(struct arguments *a) {
    struct run run = {.arguments = a};
    int code = EXIT_GOOD;
    if (a->action == BUILD || a->action == ADD || a->action == REMOVE)
        code = check_output("index", a->path);
    if (code == EXIT_GOOD && a->action != BUILD)
        code = open_index(a->path, &run.index);
    if (code != EXIT_GOOD)
        return code;
    run.batch = calloc(1, sizeof *run.batch);
    if (!run.batch) {
        code = complain_of_memory();
    } else if (a->action == LIST) {
        code = index_list(run.index, a->path, a->json);
    } else if (a->action == INFO) {
        code = index_info(run.index, a->json);
    } else {
        code = a->action == REMOVE ? remove_all(&run) : build_or_add(a, &run);
        if (code == EXIT_GOOD)
            code = save(&run);
        if (code == EXIT_GOOD)
            fprintf(program_output, "%zu %s\n", run.done,
                    a->action == REMOVE ? "removed" : "added");
    }
    if (run.batch)
        arena_release(&run.batch->arena);
    free(run.batch);
    wisp_index_close(run.index);
    return code;
}

int command_index(int argc, char **argv) {
    struct arguments a = {.prompt.option = "prompt"};
    if (!input_open(&a.input, (size_t)argc))
        return EXIT_FAILED;
    int code = parse(&a, argc, argv);
    if (code == EXIT_GOOD && a.help)
        fputs(help, program_output);
    else if (code == EXIT_GOOD)
        code = run_index(&a);
    input_close(&a.input);
    return code;
}
