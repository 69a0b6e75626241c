/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/indexes.h"
#include "cli/input.h"
#include "cli/model_options.h"
#include "cli/output_file.h"
#include "cli/pieces.h"
#include "cli/prompt.h"
#include "host/lock.h"

static const char usage[] =
    "usage: wisp index build INDEX [OPTION]... [FILE | -]...\n"
    "       wisp index add INDEX [OPTION]... [FILE | -]...\n"
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

/* With --resume, the most records between two times when the index may be saved: with a large model
 * BATCH_RECORDS take minutes. */
enum { RESUMED_RECORDS = 64 };

struct arguments {
    struct model_arguments model;
    struct input input;
    enum action action;
    const char *path; /* of the index; NULL: not given */
    wisp_index_kind kind;
    unsigned long dimensions; /* 0: the model's */
    struct prompt_choice prompt;
    enum listing_format format;
    bool no_text, chunk, resume, vectors, force;
};

/* A record on its way into the index, or a part of it. */
struct piece {
    const struct record *record;
    wisp_text text;
    size_t number; /* among the record's pieces, from 1; 0: the record is whole */
};

/* Pieces on their way into the index. Their ids and metadata are one after the other in a stream.
 */
struct run {
    struct arguments *arguments;
    const wisp_model *model;
    wisp_session *session;
    wisp_index *index;
    wisp_embed_options options;
    struct batch *batch;
    float *rows;               /* [BATCH_RECORDS, dimensions] */
    wisp_text *ids, *metadata; /* [BATCH_RECORDS] */
    struct piece *pieces;      /* [n_pieces], of BATCH_RECORDS */
    wisp_text *texts;          /* likewise */
    size_t n_pieces;
    struct progress progress;
    size_t done;
    bool any_there;         /* with --resume: the index had some of the texts */
    bool is_same;           /* with --resume: it has all pieces so far of a record as they are */
    double saved_at, saved; /* with --resume: when the index was saved, and the seconds it took */
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
    if (!a->path) {
        a->path = value;
        return EXIT_GOOD;
    }
    if (a->action == LIST || a->action == INFO) {
        complain("index: %s: expected one index (see --help)", value);
        return EXIT_USAGE;
    }
    const bool is_id = a->action == REMOVE && strcmp(value, "-") != 0;
    input_add(&a->input, is_id ? NULL : value, is_id ? value : NULL);
    return EXIT_GOOD;
}

#define ARGUMENTS struct arguments

static const struct command_option options[] = {
    GROUP(input, input_options),
    TAKEN(take_kind, kind, "kind", 0, "KIND",
          "int8 (default): a byte for each value; f32: four times as large"),
    COUNT(dimensions, 1, 65536, "dimensions", 0, "N",
          "keep the first N values of each embedding, normalised again"),
    OPTION(NONE, chunk, "chunk", 0, NULL,
           "divide a line that is too long for the model into pieces, with the\n"
           "ids ID#1, ID#2 and so on; without it the rest is cut off"),
    OPTION(NONE, resume, "resume", 0, NULL,
           "build: save the index now and then. If it is there, skip the texts that\n"
           "it has, so that the same command goes on after an interruption"),
    OPTION(NONE, no_text, "no-text", 0, NULL, "do not keep texts in the index"),
    OPTION(TEXT, prompt.name, "prompt", 0, "NAME",
           "put this prompt of the model before each text (default: the model's\n"
           "default prompt)"),
    OPTION(TEXT, prompt.text, "prompt-text", 0, "TEXT", "put TEXT before each text"),
    TAKEN_BY_ALL(take_format, TEXT, "format", 0, "FORMAT",
                 "of what is printed: text (default), json, or of list also ndjson"),
    OPTION(NONE, vectors, "vectors", 0, NULL,
           "list: write the embedding of each text, too, as json or ndjson"),
    GROUP(model, model_options),
    OPTION(NONE, force, "force", 'f', NULL, "replace an existing file of another kind"),
    LAST_OPTION,
};

static const struct command_line this_command = {
    usage, options, 25,
    "\n"
    "Examples:\n"
    "  wisp index build notes.index notes.txt\n"
    "  wisp index add notes.index more.txt\n"
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
    if (!a->path) {
        complain("index %s: no index is given (see --help)", actions[action]);
        return false;
    }
    if (a->vectors && (a->action != LIST || a->format == LISTING_TEXT)) {
        complain("index %s: --vectors belongs to index list --format ndjson or json",
                 actions[action]);
        return false;
    }
    if (a->resume && a->action != BUILD) {
        complain("index %s: --resume belongs to index build", actions[action]);
        return false;
    }
    if (a->input.n_items == 0 && a->action == REMOVE) {
        complain("index remove: no ids are given (see --help)");
        return false;
    }
    if (a->input.n_items == 0)
        input_add(&a->input, "-", NULL);
    return true;
}

/* ---- building and adding -------------------------------------------------------------------- */

/* Writes the id of a piece: that of its record, or FILE:NUMBER, and #PIECE. */
static int write_piece_id(FILE *stream, const struct piece *piece) {
    const struct record *record = piece->record;
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
    if (piece->number > 0)
        fprintf(stream, "#%zu", piece->number);
    return EXIT_GOOD;
}

/* Writes the metadata of a piece: an object with its text, and with all members of a JSON object
 * but its id. With --no-text the text is left out. */
static void write_kept(FILE *stream, const struct piece *piece, const struct arguments *a) {
    const bool no_text = a->no_text;
    const char *name = input_member(&a->input);
    const struct json *object = piece->record->object;
    bool any = false;
    fputc('{', stream);
    for (const struct json *member = object ? object->first : NULL; member; member = member->next) {
        const bool is_text = strcmp(member->key, name) == 0;
        if (strcmp(member->key, "id") == 0 || (is_text && (no_text || piece->number > 0)))
            continue;
        fputs(any ? "," : "", stream);
        any = true;
        print_member(stream, member);
    }
    if (!no_text && (!object || piece->number > 0)) {
        fputs(any ? "," : "", stream);
        print_json_string(stream, wisp_text_of(name));
        fputc(':', stream);
        print_json_string(stream, piece->text);
    }
    fputc('}', stream);
}

/* Writes the id of a piece, which ends at *id_end, and what is kept with it. */
static int write_piece(FILE *stream, const struct piece *piece, const struct arguments *a,
                       size_t *id_end) {
    const int code = write_piece_id(stream, piece);
    *id_end = (size_t)ftello(stream);
    if (code == EXIT_GOOD)
        write_kept(stream, piece, a);
    return code;
}

/* Sets the ids and metadata of the pieces, which are in *bytes; the caller frees it. Stops, after
 * complaining, at a piece without a valid id; *n is the number of pieces before it. */
static int describe(struct run *run, char **bytes, size_t *n) {
    size_t size, ends[2 * BATCH_RECORDS];
    int code = EXIT_GOOD;
    *bytes = NULL;
    FILE *stream = open_memstream(bytes, &size);
    for (*n = 0; stream && *n < run->n_pieces; ++*n) {
        code = write_piece(stream, &run->pieces[*n], run->arguments, &ends[2 * *n]);
        if (code != EXIT_GOOD)
            break;
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

/* Adds the pieces to the index. */
static int add_pieces(struct run *run) {
    wisp_error error;
    char *bytes;
    size_t n;
    int code = describe(run, &bytes, &n);
    if (code == EXIT_GOOD &&
        (wisp_embed(run->session, run->texts, n, &run->options, run->rows, &error) != WISP_OK ||
         wisp_index_add(run->index, run->ids, run->metadata, run->rows, n, &error) != WISP_OK))
        code = complain_of(&error);
    free(bytes);
    run->done += n;
    run->n_pieces = 0;
    progress_show(&run->progress, run->done, input_fraction(&run->arguments->input));
    return code;
}

static int add_piece(struct run *run, struct piece piece) {
    run->pieces[run->n_pieces] = piece;
    run->texts[run->n_pieces++] = piece.text;
    return run->n_pieces == BATCH_RECORDS ? add_pieces(run) : EXIT_GOOD;
}

/* Makes the id of a record, or of a piece of it. The caller frees *id. Returns an exit code. */
static int make_id(const struct record *record, size_t number, wisp_text *id, char **bytes) {
    const struct piece piece = {.record = record, .number = number};
    int code = EXIT_GOOD;
    *bytes = NULL;
    FILE *stream = open_memstream(bytes, &id->length);
    if (stream)
        code = write_piece_id(stream, &piece);
    if (!stream || !close_memstream(stream, bytes))
        return complain_of_memory();
    id->bytes = *bytes;
    return code;
}

/* Removes what an earlier version of a record is in the index: itself, or its pieces. */
static int remove_old_pieces(struct run *run, const struct record *record) {
    size_t removed = 0;
    int code = EXIT_GOOD;
    for (size_t i = 0; code == EXIT_GOOD && (i < 2 || removed > 0); i++) {
        wisp_text id;
        char *bytes;
        wisp_error error;
        code = make_id(record, i, &id, &bytes);
        if (code == EXIT_GOOD && wisp_index_remove(run->index, &id, 1, &removed, &error) != WISP_OK)
            code = complain_of(&error);
        free(bytes);
    }
    return code;
}

/* Finds whether the index has a record, or a piece of it. */
static int find_piece(const struct run *run, const struct record *record, size_t number,
                      bool *is_there) {
    wisp_text id;
    char *bytes;
    const int code = make_id(record, number, &id, &bytes);
    *is_there = code == EXIT_GOOD && wisp_index_find(run->index, id, &(uint64_t){0});
    free(bytes);
    return code;
}

/* Compares a piece with what the index has by its id, which may be of an earlier version of the
 * input. */
static int compare_piece(struct run *run, struct piece piece) {
    size_t size, id_end = 0;
    uint64_t row;
    wisp_text id, kept;
    char *bytes = NULL;
    int code = EXIT_GOOD;
    FILE *stream = open_memstream(&bytes, &size);
    if (stream)
        code = write_piece(stream, &piece, run->arguments, &id_end);
    if (!stream || !close_memstream(stream, &bytes))
        return complain_of_memory();
    run->is_same = run->is_same && code == EXIT_GOOD &&
                   wisp_index_find(run->index, (wisp_text){bytes, id_end}, &row) &&
                   wisp_index_get(run->index, row, &id, &kept) && kept.length == size - id_end &&
                   memcmp(kept.bytes, bytes + id_end, kept.length) == 0;
    free(bytes);
    return code;
}

/* Hands a record to `take`: with --chunk in pieces that the model can read. *last is the number of
 * the last piece; 0: the record is whole. */
static int divide(struct run *run, const struct record *record,
                  int (*take)(struct run *run, struct piece piece), size_t *last) {
    wisp_text left = record->text;
    int code;
    *last = 0;
    do {
        size_t length = left.length;
        wisp_error error;
        if (run->arguments->chunk && left.length > 0 &&
            piece_length(run->model, run->options.prompt, left, &length, &error) != WISP_OK)
            return complain_of(&error);
        *last += *last > 0 || length < left.length;
        code = take(run, (struct piece){record, {left.bytes, length}, *last});
        left = (wisp_text){left.bytes + length, left.length - length};
    } while (code == EXIT_GOOD && left.length > 0);
    return code;
}

/* With --resume, finds whether the index has a record, and whether as it is now. */
static int compare_record(struct run *run, const struct record *record, bool *is_there) {
    size_t last = 0;
    bool has_more = false;
    int code = find_piece(run, record, 0, is_there);
    if (code == EXIT_GOOD && !*is_there)
        code = find_piece(run, record, 1, is_there);
    run->is_same = *is_there;
    if (code == EXIT_GOOD && *is_there)
        code = divide(run, record, compare_piece, &last);
    if (code == EXIT_GOOD && last > 0)
        code = find_piece(run, record, last + 1, &has_more);
    run->is_same = run->is_same && !has_more;
    run->any_there |= *is_there;
    return code;
}

static int add_record(struct run *run, const struct record *record) {
    const struct arguments *a = run->arguments;
    bool is_there = false;
    size_t last;
    int code = a->resume ? compare_record(run, record, &is_there) : EXIT_GOOD;
    if (code == EXIT_GOOD && is_there && run->is_same)
        return EXIT_GOOD;
    if (code == EXIT_GOOD && (is_there || (a->action == ADD && a->chunk)))
        code = remove_old_pieces(run, record);
    if (code == EXIT_GOOD)
        code = divide(run, record, add_piece, &last);
    /* A later record with the same id must find this one, and not what it replaces. */
    return code == EXIT_GOOD && is_there && run->n_pieces > 0 ? add_pieces(run) : code;
}

static int add_batch(struct run *run) {
    int code = EXIT_GOOD;
    for (size_t i = 0; i < run->batch->n && code == EXIT_GOOD; i++)
        code = add_record(run, &run->batch->records[i]);
    return code == EXIT_GOOD && run->n_pieces > 0 ? add_pieces(run) : code;
}

/* Drops removed rows if they are more than a quarter of all, and writes the file. */
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

/* With --resume, saves the index between two batches, but so seldom that it takes at most a tenth
 * of the time. */
static int save_at_times(struct run *run) {
    const double now = clock_seconds();
    if (!run->arguments->resume || run->done == 0 || now - run->saved_at < 10 * run->saved)
        return EXIT_GOOD;
    const int code = save(run);
    run->saved_at = clock_seconds();
    run->saved = run->saved_at - now;
    return code;
}

static int add_all(struct run *run) {
    int code;
    progress_start(&run->progress, "texts");
    do {
        if (run->arguments->resume)
            run->arguments->input.most = RESUMED_RECORDS;
        code = input_next(&run->arguments->input, run->batch);
        if (code == EXIT_GOOD && run->batch->n > 0)
            code = add_batch(run);
        if (code == EXIT_GOOD)
            code = save_at_times(run);
    } while (code == EXIT_GOOD && run->batch->n > 0);
    progress_end(&run->progress);
    if (code == EXIT_GOOD && run->arguments->action == BUILD && run->done == 0 && !run->any_there) {
        complain("index build: the input has no texts, and no index is written");
        code = EXIT_INPUT;
    }
    if (code == EXIT_GOOD)
        warn_of_cut_texts(run->session, run->model, 0, "; --chunk divides them into pieces");
    return code;
}

static int build_or_add(struct arguments *a, struct run *run) {
    wisp_model *model = NULL;
    wisp_index_info info;
    wisp_error error;
    int code = open_model(&a->model, &model, &run->session);
    if (code == EXIT_GOOD) {
        watch_signals(run->session);
        run->model = model;
        code = choose_prompt(model, &a->prompt, &run->options.prompt);
    }
    if (code == EXIT_GOOD && (run->index ? wisp_index_check_model(run->index, run->session, &error)
                                         : wisp_index_create(run->session, a->dimensions, a->kind,
                                                             &run->index, &error)) != WISP_OK)
        code = complain_of(&error);
    if (code == EXIT_GOOD) {
        wisp_index_get_info(run->index, &info);
        run->options.dimensions = info.dimensions;
        run->rows = calloc(BATCH_RECORDS, info.dimensions * sizeof *run->rows);
        run->ids = calloc(BATCH_RECORDS, sizeof *run->ids);
        run->metadata = calloc(BATCH_RECORDS, sizeof *run->metadata);
        run->pieces = calloc(BATCH_RECORDS, sizeof *run->pieces);
        run->texts = calloc(BATCH_RECORDS, sizeof *run->texts);
        if (run->rows && run->ids && run->metadata && run->pieces && run->texts) {
            code = add_all(run);
        } else {
            code = complain_of_memory();
        }
    }
    free(run->rows);
    free(run->ids);
    free(run->metadata);
    free(run->pieces);
    free(run->texts);
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
    if (a->action == BUILD && (!a->resume || access(a->path, F_OK) != 0))
        return EXIT_GOOD;
    const int code = open_index(a->path, index);
    if (code != EXIT_GOOD || a->action != BUILD)
        return code;
    wisp_index_get_info(*index, &info);
    if (info.kind == a->kind && (a->dimensions == 0 || info.dimensions == a->dimensions))
        return EXIT_GOOD;
    complain("%s: has the kind %s and %" PRIu64 " dimensions; --resume changes neither", a->path,
             wisp_index_kind_name(info.kind), (uint64_t)info.dimensions);
    return EXIT_MODEL;
}

static void print_count(const struct arguments *a, size_t n) {
    const char *what = a->action == REMOVE ? "removed" : "added";
    if (a->format == LISTING_JSON)
        fprintf(program_output, "{\"%s\": %zu}\n", what, n);
    else
        fprintf(program_output, "%zu %s\n", n, what);
}

static int run_index(struct arguments *a) {
    struct run run = {.arguments = a};
    struct file_lock lock = {.descriptor = -1};
    int code = EXIT_GOOD;
    if (a->action == BUILD || a->action == ADD || a->action == REMOVE)
        code = check_output("index", a->path, OUTPUT_INDEX, a->force && a->action == BUILD);
    if (code == EXIT_GOOD && (a->action == ADD || a->action == REMOVE || a->resume))
        code = lock_index(a->path, &lock);
    if (code == EXIT_GOOD)
        code = open_old(a, &run.index);
    if (code != EXIT_GOOD) {
        wisp_index_close(run.index);
        file_lock_release(&lock);
        return code;
    }
    a->input.skip_blank = a->action != REMOVE;
    run.batch = calloc(1, sizeof *run.batch);
    if (!run.batch) {
        code = complain_of_memory();
    } else if (a->action == LIST) {
        code = index_list(run.index, a->path, a->format, a->vectors);
    } else if (a->action == INFO) {
        code = index_info(run.index, a->format == LISTING_JSON);
    } else {
        code = a->action == REMOVE ? remove_all(&run) : build_or_add(a, &run);
        if (code == EXIT_GOOD)
            code = save(&run);
        if (code == EXIT_GOOD)
            print_count(a, run.done);
    }
    if (run.batch)
        arena_release(&run.batch->arena);
    free(run.batch);
    wisp_index_close(run.index);
    file_lock_release(&lock);
    return code;
}

int command_index(int argc, char **argv) {
    struct arguments a = {.prompt.option = "prompt"};
    if (!input_open(&a.input, (size_t)argc))
        return EXIT_FAILED;
    int code;
    if (parse(&a, argc, argv, &code))
        code = run_index(&a);
    input_close(&a.input);
    return code;
}
