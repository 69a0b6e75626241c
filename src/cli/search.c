/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/images.h"
#include "cli/indexes.h"
#include "cli/model_options.h"
#include "cli/prompt.h"

static const char usage[] =
    "usage: wisp search INDEX [OPTION]... [--query TEXT | FILE | -]...\n"
    "\n"
    "Prints the entries of an index that are nearest in meaning to a query, best first. Each line\n"
    "of the files, or of standard input, is also a query. wisp index makes indexes.\n"
    "The score is the dot product of the embeddings: their cosine, from -1 to 1, if the model\n"
    "normalises them.\n"
    "\n";

enum { MAX_TOP = 100000 };

/* The matches that there is room for, which bounds how many queries are searched at once. */
enum { MOST_MATCHES = 1 << 18 };

struct arguments {
    struct model_arguments model;
    struct input input;
    const char *path; /* of the index; NULL: not given */
    enum listing_format format;
    struct prompt_choice prompt;
    unsigned long top;
    bool images;
};

struct search {
    struct arguments *arguments;
    wisp_session *session;
    wisp_index *index;
    wisp_embed_options options;
    struct batch *batch;
    float *rows;         /* [BATCH_RECORDS, dimensions] */
    wisp_match *matches; /* [at_once, k] */
    size_t k, at_once;
    struct image_embedder images;
    size_t written;    /* queries whose matches were written */
    size_t faults;     /* images that are bad, and have no matches */
    bool has_bad_rows; /* metadata of a match are malformed */
};

static int take_format(void *field, const char *value) {
    return find_listing_format(value, true, field);
}

/* Takes the index, then files. */
static int take_operand(void *arguments, const char *value) {
    struct arguments *a = arguments;
    if (a->path)
        input_add(&a->input, value, NULL);
    else
        a->path = value;
    return EXIT_GOOD;
}

#define ARGUMENTS struct arguments

static const struct command_option options[] = {
    TAKEN(input_take_text, input, "query", 'q', "TEXT",
          "search for this text (may be given more than once)"),
    COUNT(top, 1, MAX_TOP, "top", 'k', "N", "print the N best entries (default: 10)"),
    TAKEN(take_format, format, "format", 0, "FORMAT",
          "text (default): \"score<TAB>id<TAB>text\", with an empty line between\n"
          "queries; json: one array of objects with \"query\" and \"matches\";\n"
          "ndjson: a line for each of these objects"),
    OPTION(NONE, images, "images", 0, NULL,
           "the queries are images: the files, those of folders, or the lines of\n"
           "standard input, as with wisp embed"),
    GROUP(input, input_options),
    OPTION(TEXT, prompt.name, "prompt", 0, "NAME",
           "put this prompt of the model before each query (default: the model's\n"
           "default prompt)"),
    OPTION(TEXT, prompt.text, "prompt-text", 0, "TEXT", "put TEXT before each query"),
    GROUP(model, model_options),
    LAST_OPTION,
};

static const struct command_line this_command = {
    usage, options, 25,
    "\n"
    "Examples:\n"
    "  wisp search notes.index --query 'how do plants eat?'\n"
    "  wisp search notes.index --format ndjson queries.txt\n"
    "\nExit codes: see wisp embed --help; 3 if the index cannot be used, too.\n",
    take_operand};

static bool parse(struct arguments *a, int argc, char **argv, int *code) {
    if (!take_options(&this_command, a, argc, argv, code))
        return false;
    if (!a->path) {
        complain("search: no index is given (see --help)");
        *code = EXIT_USAGE;
    }
    if (a->images && (a->prompt.name || a->prompt.text)) {
        complain("--images: images have no prompts");
        *code = EXIT_USAGE;
    }
    if (a->input.n_items == 0)
        input_add(&a->input, "-", NULL);
    if (*code == EXIT_GOOD && a->images)
        *code = images_take_files(&a->input);
    return *code == EXIT_GOOD;
}

/* ---- searching ------------------------------------------------------------------------------ */

/* Reads the metadata of a match. That a row's are malformed is kept for the end. */
static int read_match(struct search *s, uint64_t row, wisp_text *metadata, struct arena *arena,
                      wisp_text *text) {
    const int code = read_metadata(s->arguments->path, row, metadata, arena, text);
    s->has_bad_rows = s->has_bad_rows || code == EXIT_MODEL;
    return code == EXIT_MODEL ? EXIT_GOOD : code;
}

/* Writes the lines of a query. */
static int write_lines(struct search *s, const wisp_match *matches, size_t n) {
    struct arena arena = {0};
    int code = EXIT_GOOD;
    if (s->written > 0)
        fputc('\n', program_output);
    for (size_t i = 0; i < n && code == EXIT_GOOD; i++) {
        wisp_text id, metadata, text;
        wisp_index_get(s->index, matches[i].row, &id, &metadata);
        code = read_match(s, matches[i].row, &metadata, &arena, &text);
        if (code == EXIT_GOOD) {
            fprintf(program_output, "%.4f\t", (double)matches[i].score);
            print_text(program_output, id, SIZE_MAX);
            fputc('\t', program_output);
            print_text(program_output, text, SIZE_MAX);
            fputc('\n', program_output);
        }
        arena_release(&arena);
    }
    return code;
}

/* Reads the metadata of all matches of a query: *list [n] is null for those that are malformed. The
 * caller frees it. */
static int read_matches(struct search *s, const wisp_match *matches, size_t n, wisp_text **list) {
    struct arena arena = {0};
    wisp_text id, text;
    int code = EXIT_GOOD;
    *list = calloc(n + 1, sizeof **list);
    if (!*list)
        return complain_of_memory();
    for (size_t i = 0; i < n && code == EXIT_GOOD; i++) {
        wisp_index_get(s->index, matches[i].row, &id, *list + i);
        code = read_match(s, matches[i].row, *list + i, &arena, &text);
        arena_release(&arena);
    }
    return code;
}

/* Writes the object of a query, whole or not at all. */
static int write_object(struct search *s, wisp_text query, const wisp_match *matches, size_t n) {
    const bool in_array = s->arguments->format == LISTING_JSON;
    wisp_text id, ignored, *metadata;
    const int code = read_matches(s, matches, n, &metadata);
    if (code != EXIT_GOOD) {
        free(metadata);
        return code;
    }
    fprintf(program_output, "%s{\"query\": ", in_array && s->written > 0 ? ",\n" : "");
    print_json_string(program_output, query);
    fputs(", \"matches\": [", program_output);
    for (size_t i = 0; i < n; i++) {
        wisp_index_get(s->index, matches[i].row, &id, &ignored);
        fprintf(program_output, "%s{\"score\": %.6f, \"id\": ", i > 0 ? ", " : "",
                (double)matches[i].score);
        print_json_string(program_output, id);
        fputs(", \"metadata\": ", program_output);
        write_metadata(program_output, metadata[i]);
        fputc('}', program_output);
    }
    fputs(in_array ? "]}" : "]}\n", program_output);
    free(metadata);
    return EXIT_GOOD;
}

/* Embeds the queries of the batch, from which bad images are left out. */
static int embed_queries(struct search *s) {
    struct batch *batch = s->batch;
    wisp_error error;
    if (s->arguments->images)
        return images_embed_batch(&s->images, batch, s->options.dimensions, s->rows, &s->faults);
    return wisp_embed(s->session, batch->texts, batch->n, &s->options, s->rows, &error) == WISP_OK
               ? EXIT_GOOD
               : complain_of(&error);
}

static int search_batch(struct search *s) {
    const struct batch *batch = s->batch;
    const size_t dimensions = s->options.dimensions;
    wisp_error error;
    size_t found;
    int code = embed_queries(s);
    if (code != EXIT_GOOD)
        return code;
    for (size_t q = 0; q < batch->n && code == EXIT_GOOD; q += s->at_once) {
        const size_t n = batch->n - q < s->at_once ? batch->n - q : s->at_once;
        if (was_interrupted())
            return EXIT_INTERRUPTED;
        if (wisp_index_search(s->index, s->rows + q * dimensions, n, s->k, s->matches, &found,
                              &error) != WISP_OK)
            return complain_of(&error);
        for (size_t i = 0; i < n && code == EXIT_GOOD; i++, s->written++)
            code = s->arguments->format == LISTING_TEXT
                       ? write_lines(s, s->matches + i * s->k, found)
                       : write_object(s, batch->texts[q + i], s->matches + i * s->k, found);
    }
    const int finished = finish_output();
    return code == EXIT_GOOD ? finished : code;
}

static int search_all(struct search *s) {
    bool ended;
    int code;
    if (s->arguments->format == LISTING_JSON)
        fputc('[', program_output);
    do {
        if (s->arguments->images)
            s->arguments->input.most = IMAGE_RECORDS;
        code = input_next(&s->arguments->input, s->batch);
        ended = s->batch->n == 0;
        if (!ended && !was_interrupted()) {
            const int searched = search_batch(s);
            code = searched != EXIT_GOOD ? searched : code;
        }
    } while (code == EXIT_GOOD && !ended);
    if (s->arguments->format == LISTING_JSON)
        fputs("]\n", program_output);
    const int finished = finish_output();
    code = code == EXIT_GOOD ? finished : code;
    if (code == EXIT_GOOD && s->faults > 0)
        code = EXIT_INPUT;
    return code == EXIT_GOOD && s->has_bad_rows ? EXIT_MODEL : code;
}

static int run_search(struct search *s) {
    const struct arguments *a = s->arguments;
    wisp_model *model = NULL;
    wisp_index_info info;
    wisp_error error;
    int code = open_model(&a->model, &model, &s->session);
    if (code == EXIT_GOOD) {
        watch_signals(s->session);
        code = choose_prompt(model, &a->prompt, &s->options.prompt);
    }
    if (code == EXIT_GOOD &&
        (wisp_index_check_model(s->index, s->session, &error) != WISP_OK ||
         wisp_index_set_threads(s->index, threads_of(&a->model), &error) != WISP_OK))
        code = complain_of(&error);
    if (code == EXIT_GOOD) {
        wisp_index_get_info(s->index, &info);
        s->options.dimensions = info.dimensions;
        s->k = a->top < info.count ? a->top : info.count > 0 ? (size_t)info.count : 1;
        s->at_once = MOST_MATCHES / s->k < 1               ? 1
                     : MOST_MATCHES / s->k < BATCH_RECORDS ? MOST_MATCHES / s->k
                                                           : BATCH_RECORDS;
        s->batch = calloc(1, sizeof *s->batch);
        s->rows = calloc(BATCH_RECORDS, info.dimensions * sizeof *s->rows);
        s->matches = calloc(s->at_once, s->k * sizeof *s->matches);
        if (!s->batch || !s->rows || !s->matches)
            code = complain_of_memory();
        else if (a->images)
            code = images_open(&s->images, model, threads_of(&a->model));
        if (code == EXIT_GOOD)
            code = search_all(s);
    }
    if (s->batch)
        arena_release(&s->batch->arena);
    free(s->batch);
    free(s->rows);
    free(s->matches);
    images_close(&s->images);
    watch_signals(NULL);
    wisp_session_close(s->session);
    wisp_model_close(model);
    return code;
}

int command_search(int argc, char **argv) {
    struct arguments a = {.prompt.option = "prompt", .top = 10};
    struct search search = {.arguments = &a};
    if (!input_open(&a.input, (size_t)argc))
        return EXIT_FAILED;
    int code;
    if (parse(&a, argc, argv, &code))
        code = open_index(a.path, &search.index);
    if (code == EXIT_GOOD && search.index)
        code = run_search(&search);
    wisp_index_close(search.index);
    input_close(&a.input);
    return code;
}
