/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/index_build.h"
#include "cli/indexes.h"
#include "cli/model_options.h"
#include "cli/output_file.h"
#include "host/lock.h"

static const char usage[] =
    "usage: wisp index build INDEX [OPTION]... [FILE | -]...\n"
    "       wisp index add INDEX [OPTION]... [FILE | -]...\n"
    "       wisp index build INDEX --images [OPTION]... [FILE | FOLDER | -]...\n"
    "       wisp index remove INDEX [ID | -]...\n"
    "       wisp index list INDEX [--format FORMAT]\n"
    "       wisp index info INDEX [--format FORMAT]\n"
    "\n"
    "build embeds each line of the files, or of standard input, and writes a new index for\n"
    "wisp search. add adds lines to an index; a line whose id the index has replaces the old\n"
    "one. remove removes the entries with the given ids, or with the ids in the lines of\n"
    "standard input (-). list prints ids and texts, info describes the index. A changed index\n"
    "is written to a new file, which then replaces the old one.\n"
    "\n"
    "A line has the id FILE:NUMBER, or stdin:NUMBER; blank lines are skipped. With --input\n"
    "ndjson each line is a JSON string or an object. The \"text\" of an object is embedded, its\n"
    "\"id\" is a string or a number and may be missing, and the object is kept as metadata. Rows "
    "of\n"
    "csv and tsv are such objects, with the names in the header.\n"
    "\n";

enum action { BUILD, ADD, REMOVE, LIST, INFO };

struct arguments {
    struct index_build build;
    enum action action;
    enum listing_format format;
    bool vectors, force;
};

/* ---- arguments ------------------------------------------------------------------------------ */

static int take_kind(void *field, const char *value) {
    return wisp_index_kind_find(value, field)
               ? EXIT_GOOD
               : complain_of_name("kind", value, wisp_index_kind_name);
}

static int take_format(void *arguments, const char *value) {
    struct arguments *a = arguments;
    return find_listing_format(value, a->action == LIST, &a->format);
}

/* Takes an argument that is not an option: first the index, then the files or ids. */
static int take_operand(void *arguments, const char *value) {
    struct arguments *a = arguments;
    if (!a->build.path) {
        a->build.path = value;
        return EXIT_GOOD;
    }
    if (a->action == LIST || a->action == INFO) {
        complain("index: %s: expected one index (see --help)", value);
        return EXIT_USAGE;
    }
    const bool is_id = a->action == REMOVE && strcmp(value, "-") != 0;
    input_add(&a->build.input, is_id ? NULL : value, is_id ? value : NULL);
    return EXIT_GOOD;
}

#define ARGUMENTS struct arguments

static const struct command_option options[] = {
    GROUP(build.input, input_options),
    TAKEN(take_kind, build.kind, "kind", 0, "KIND",
          "int8 (default): a byte for each value; f32: four times as large"),
    COUNT(build.dimensions, 1, 65536, "dimensions", 0, "N",
          "keep the first N values of each embedding, normalised again"),
    OPTION(NONE, build.images, "images", 0, NULL,
           "build, add: the files, those of folders, or the lines of standard input\n"
           "name images, as with wisp embed; the path is the id and the text"),
    OPTION(NONE, build.chunk, "chunk", 0, NULL,
           "divide a line that is too long for the model into pieces, with the\n"
           "ids ID#1, ID#2 and so on; without it the rest is cut off"),
    OPTION(NONE, build.resume, "resume", 0, NULL,
           "build: save the index now and then. If it is there, skip the texts that\n"
           "it has, so that the same command goes on after an interruption. With\n"
           "--no-text only ids and metadata are compared"),
    OPTION(NONE, build.input.keep_malformed, "keep-going", 0, NULL,
           "build, add: do not end at a malformed line, but leave it out and name\n"
           "it; the exit code is 4"),
    OPTION(NONE, build.no_text, "no-text", 0, NULL, "do not keep texts in the index"),
    OPTION(TEXT, build.prompt.name, "prompt", 0, "NAME",
           "put this prompt of the model before each text (default: the model's\n"
           "default prompt)"),
    OPTION(TEXT, build.prompt.text, "prompt-text", 0, "TEXT", "put TEXT before each text"),
    TAKEN_BY_ALL(take_format, TEXT, "format", 0, "FORMAT",
                 "of what is printed: text (default), json, or of list also ndjson"),
    OPTION(NONE, vectors, "vectors", 0, NULL,
           "list: write the embedding of each text, too, as json or ndjson"),
    GROUP(build.model, model_options),
    OPTION(NONE, force, "force", 'f', NULL, "replace an existing file of another kind"),
    LAST_OPTION,
};

static const struct command_line this_command = {
    usage, options, 25,
    "\n"
    "Examples:\n"
    "  wisp index build notes.index notes.txt\n"
    "  wisp index add notes.index more.txt\n"
    "  wisp index build photos.index --model hf:openai/clip-vit-base-patch32 --images photos/\n"
    "  wisp index info notes.index\n"
    "\nExit codes: see wisp embed --help; 3 if the index cannot be used, too.\n",
    take_operand};

static bool parse(struct arguments *a, int argc, char **argv, int *code) {
    static const char *const actions[] = {"build", "add", "remove", "list", "info"};
    enum { ACTIONS = sizeof actions / sizeof *actions };
    size_t action = 0;
    while (argc > 1 && action < ACTIONS && strcmp(argv[1], actions[action]) != 0)
        action++;
    if (argc > 1 && asks_for_help(argv[1]))
        return take_options(&this_command, a, argc, argv, code);
    *code = EXIT_USAGE;
    if (argc < 2 || action == ACTIONS) {
        complain("index: expected one of build, add, remove, list and info (see --help)");
        return false;
    }
    a->action = (enum action)action;
    if (!take_options(&this_command, a, argc - 1, argv + 1, code))
        return false;
    *code = EXIT_USAGE;
    if (!a->build.path) {
        complain("index %s: no index is given (see --help)", actions[action]);
        return false;
    }
    if (a->vectors && (a->action != LIST || a->format == LISTING_TEXT)) {
        complain("index %s: --vectors belongs to index list --format ndjson or json",
                 actions[action]);
        return false;
    }
    if (a->build.resume && a->action != BUILD) {
        complain("index %s: --resume belongs to index build", actions[action]);
        return false;
    }
    if (a->build.input.keep_malformed && a->action != BUILD && a->action != ADD) {
        complain("index %s: --keep-going belongs to index build and add", actions[action]);
        return false;
    }
    if (a->build.images && (a->build.chunk || a->build.prompt.name || a->build.prompt.text ||
                            (a->action != BUILD && a->action != ADD))) {
        complain("index %s: --images belongs to index build and add, and goes without --chunk and "
                 "prompts",
                 actions[action]);
        return false;
    }
    if (a->build.input.n_items == 0 && a->action == REMOVE) {
        complain("index remove: no ids are given (see --help)");
        return false;
    }
    if (a->build.input.n_items == 0)
        input_add(&a->build.input, "-", NULL);
    *code = a->build.images ? images_take_files(&a->build.input) : EXIT_GOOD;
    return *code == EXIT_GOOD;
}

/* ---- removing ------------------------------------------------------------------------------- */

static int remove_batches(struct input *input, struct batch *batch, wisp_index *index, size_t *n) {
    int code;
    wisp_error error;
    do {
        size_t removed = 0;
        code = input_next(input, batch);
        if (code == EXIT_GOOD &&
            wisp_index_remove(index, batch->texts, batch->n, &removed, &error) != WISP_OK)
            code = complain_of(&error);
        *n += removed;
    } while (code == EXIT_GOOD && batch->n > 0);
    return code;
}

static int remove_all(struct arguments *a, wisp_index *index, size_t *n) {
    struct batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return complain_of_memory();
    watch_signals(NULL);
    const int code = remove_batches(&a->build.input, batch, index, n);
    batch_close(batch);
    return code;
}

/* ---- all ------------------------------------------------------------------------------------ */

/* Waits until no other program changes the index. */
static int lock_index(const char *path, struct file_lock *lock) {
    wisp_error error;
    watch_signals(NULL);
    return file_lock_take(lock, path, was_interrupted, &error) == WISP_OK ? EXIT_GOOD
                                                                          : complain_of(&error);
}

/* Opens the index that is to be changed, or that an interrupted build has left. */
static int open_old(const struct arguments *a, wisp_index **index) {
    wisp_index_info info;
    if (a->action == BUILD && (!a->build.resume || access(a->build.path, F_OK) != 0))
        return EXIT_GOOD;
    const int code = open_index(a->build.path, index);
    if (code != EXIT_GOOD || a->action != BUILD)
        return code;
    wisp_index_get_info(*index, &info);
    if (info.kind == a->build.kind &&
        (a->build.dimensions == 0 || info.dimensions == a->build.dimensions))
        return EXIT_GOOD;
    complain("%s: has the kind %s and %" PRIu64 " dimensions; --resume changes neither",
             a->build.path, wisp_index_kind_name(info.kind), (uint64_t)info.dimensions);
    return EXIT_MODEL;
}

static void print_count(const struct arguments *a, size_t n) {
    const char *what = a->action == REMOVE ? "removed" : "added";
    if (a->format == LISTING_JSON)
        fprintf(program_output, "{\"%s\": %zu}\n", what, n);
    else
        fprintf(program_output, "%zu %s\n", n, what);
}

/* Changes the index and writes it. */
static int change(struct arguments *a, wisp_index **index) {
    size_t n = 0, faults = 0;
    int code = a->action == REMOVE ? remove_all(a, *index, &n)
                                   : index_build(&a->build, index, &n, &faults);
    if (code == EXIT_GOOD)
        code = save_index(*index, a->build.path);
    if (code != EXIT_GOOD)
        return code;
    print_count(a, n);
    if (faults > 0)
        complain("%zu %s malformed, and not in the index", faults,
                 a->build.images ? "images are" : "lines are");
    return faults > 0 ? EXIT_INPUT : EXIT_GOOD;
}

static int act(struct arguments *a, wisp_index **index) {
    if (a->action == LIST)
        return index_list(*index, a->build.path, a->format, a->vectors);
    if (a->action == INFO)
        return index_info(*index, a->format == LISTING_JSON);
    return change(a, index);
}

static int run_index(struct arguments *a) {
    struct file_lock lock = {.descriptor = -1};
    const bool changes = a->action == BUILD || a->action == ADD || a->action == REMOVE;
    wisp_index *index = NULL;
    int code = EXIT_GOOD;
    if (changes)
        code = check_output("index", a->build.path, OUTPUT_INDEX, a->force && a->action == BUILD);
    if (code == EXIT_GOOD && changes && (a->action != BUILD || a->build.resume))
        code = lock_index(a->build.path, &lock);
    if (code == EXIT_GOOD)
        code = open_old(a, &index);
    a->build.is_new = a->action == BUILD;
    a->build.input.skip_blank = a->action != REMOVE;
    if (code == EXIT_GOOD)
        code = act(a, &index);
    wisp_index_close(index);
    file_lock_release(&lock);
    return code;
}

int command_index(int argc, char **argv) {
    struct arguments a = {.build.prompt.option = "prompt"};
    if (!input_open(&a.build.input, (size_t)argc))
        return EXIT_FAILED;
    int code;
    if (parse(&a, argc, argv, &code))
        code = run_index(&a);
    input_close(&a.build.input);
    return code;
}
