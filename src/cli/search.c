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
    "usage: wisp search INDEX [OPTION]... [--query TEXT | FILE | -]...\n"
    "\n"
    "Prints the entries of an index that are nearest in meaning to a query, best first. Each line\n"
    "of the files, or of standard input, is a query, too. wisp index makes indexes.\n"
    "The score is the dot product of the embeddings: their cosine, from -1 to 1, where the model\n"
    "normalises them.\n"
    "\n"
    "  -q, --query TEXT       search for this text (may be given more than once)\n"
    "  -k, --top N            print the N best entries (default: 10)\n"
    "      --format FORMAT    text (default): \"score<TAB>id<TAB>text\", with an empty line "
    "between\n"
    "                         queries; json: one array of objects with \"query\" and \"matches\";\n"
    "                         ndjson: a line for each of these objects\n"
    "      --input FORMAT     of the files: lines (default), or ndjson: each line is a JSON "
    "string,\n"
    "                         or an object with a \"text\"\n"
    "      --prompt NAME      put this prompt of the model before each query (default: the "
    "model's\n"
    "                         default prompt)\n"
    "      --prompt-text TEXT put TEXT before each query\n" MODEL_HELP
    "  -h, --help             this text\n"
    "\n"
    "Exit codes: see wisp embed --help; 3 if the index cannot be used, too.\n";

enum { OPTION_FORMAT = 256, OPTION_INPUT, OPTION_PROMPT, OPTION_PROMPT_TEXT, MAX_TOP = 100000 };

/* The matches that there is room for, which bounds how many queries are searched at once. */
enum { MOST_MATCHES = 1 << 18 };

static const struct option options[] = {
    {"query", required_argument, NULL, 'q'},
    {"top", required_argument, NULL, 'k'},
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"input", required_argument, NULL, OPTION_INPUT},
    {"prompt", required_argument, NULL, OPTION_PROMPT},
    {"prompt-text", required_argument, NULL, OPTION_PROMPT_TEXT},
    MODEL_OPTIONS,
    {"help", no_argument, NULL, 'h'},
    {0}};

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_NDJSON };

struct arguments {
    struct model_arguments model;
    struct input input;
    const char *path; /* of the index; NULL: not given */
    enum format format;
    struct prompt_choice prompt;
    unsigned long top;
    bool help;
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
    size_t written; /* queries whose matches were written */
};

static int take_option(struct arguments *a, int option, const char *value) {
    int code = EXIT_GOOD;
    switch (option) {
    case 'q':
        input_add(&a->input, NULL, value);
        return EXIT_GOOD;
    case 'k':
        return parse_count("top", value, MAX_TOP, &a->top) ? EXIT_GOOD : EXIT_USAGE;
    case OPTION_FORMAT:
        if (strcmp(value, "text") == 0)
            a->format = FORMAT_TEXT;
        else if (strcmp(value, "json") == 0)
            a->format = FORMAT_JSON;
        else if (strcmp(value, "ndjson") == 0)
            a->format = FORMAT_NDJSON;
        else
            return complain_of_choice("format", value, "text, json, ndjson");
        return EXIT_GOOD;
    case OPTION_INPUT:
        return input_take_format(&a->input, value);
    case OPTION_PROMPT:
        a->prompt.name = value;
        return EXIT_GOOD;
    case OPTION_PROMPT_TEXT:
        a->prompt.text = value;
        return EXIT_GOOD;
    case 'h':
        a->help = true;
        return EXIT_GOOD;
    default:
        return take_model_option(&a->model, option, value, &code) ? EXIT_GOOD : code;
    }
}

static void take_operand(struct arguments *a, const char *value) {
    if (a->path)
        input_add(&a->input, value, NULL);
    else
        a->path = value;
}

static int parse(struct arguments *a, int argc, char **argv) {
    int option, code = EXIT_GOOD;
    while (code == EXIT_GOOD &&
           (option = getopt_long(argc, argv, "-q:k:m:t:h", options, NULL)) != -1) {
        if (option == 1)
            take_operand(a, optarg);
        else
            code = take_option(a, option, optarg);
    }
    for (; code == EXIT_GOOD && optind < argc; optind++)
        take_operand(a, argv[optind]);
    if (code != EXIT_GOOD || a->help)
        return code;
    if (!a->path) {
        complain("search: no index is given (see --help)");
        return EXIT_USAGE;
    }
    if (a->input.n_items == 0)
        input_add(&a->input, "-", NULL);
    return EXIT_GOOD;
}

/* ---- searching ------------------------------------------------------------------------------ */

/* Writes the lines of a query. */
static int write_lines(const struct search *s, const wisp_match *matches, size_t n) {
    struct arena arena = {0};
    int code = EXIT_GOOD;
    if (s->written > 0)
        fputc('\n', program_output);
    for (size_t i = 0; i < n && code == EXIT_GOOD; i++) {
        wisp_text id, metadata, text;
        wisp_index_get(s->index, matches[i].row, &id, &metadata);
        code = read_metadata(s->arguments->path, matches[i].row, metadata, &arena, &text);
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

/* Writes the object of a query, whole or not at all. */
static int write_object(const struct search *s, wisp_text query, const wisp_match *matches,
                        size_t n) {
    struct arena arena = {0};
    wisp_text id, metadata, text;
    for (size_t i = 0; i < n; i++) {
        wisp_index_get(s->index, matches[i].row, &id, &metadata);
        const int code = read_metadata(s->arguments->path, matches[i].row, metadata, &arena, &text);
        arena_release(&arena);
        if (code != EXIT_GOOD)
            return code;
    }
    const bool in_array = s->arguments->format == FORMAT_JSON;
    fprintf(program_output, "%s{\"query\": ", in_array && s->written > 0 ? ",\n" : "");
    print_json_string(program_output, query);
    fputs(", \"matches\": [", program_output);
    for (size_t i = 0; i < n; i++) {
        wisp_index_get(s->index, matches[i].row, &id, &metadata);
        fprintf(program_output, "%s{\"score\": %.6f, \"id\": ", i > 0 ? ", " : "",
                (double)matches[i].score);
        print_json_string(program_output, id);
        fputs(", \"metadata\": ", program_output);
        write_metadata(program_output, metadata);
        fputc('}', program_output);
    }
    fputs(in_array ? "]}" : "]}\n", program_output);
    return EXIT_GOOD;
}

static int search_batch(struct search *s) {
    const struct batch *batch = s->batch;
    const size_t dimensions = s->options.dimensions;
    wisp_error error;
    size_t found;
    int code = EXIT_GOOD;
    if (wisp_embed(s->session, batch->texts, batch->n, &s->options, s->rows, &error) != WISP_OK)
        return complain_of(&error);
    for (size_t q = 0; q < batch->n && code == EXIT_GOOD; q += s->at_once) {
        const size_t n = batch->n - q < s->at_once ? batch->n - q : s->at_once;
        if (was_interrupted())
            return EXIT_INTERRUPTED;
        if (wisp_index_search(s->index, s->rows + q * dimensions, n, s->k, s->matches, &found,
                              &error) != WISP_OK)
            return complain_of(&error);
        for (size_t i = 0; i < n && code == EXIT_GOOD; i++, s->written++)
            code = s->arguments->format == FORMAT_TEXT
                       ? write_lines(s, s->matches + i * s->k, found)
                       : write_object(s, batch->texts[q + i], s->matches + i * s->k, found);
    }
    const int finished = finish_output();
    return code == EXIT_GOOD ? finished : code;
}

static int search_all(struct search *s) {
    int code;
    if (s->arguments->format == FORMAT_JSON)
        fputc('[', program_output);
    do {
        code = input_next(&s->arguments->input, s->batch);
        if (s->batch->n > 0 && !was_interrupted()) {
            const int searched = search_batch(s);
            code = searched != EXIT_GOOD ? searched : code;
        }
    } while (code == EXIT_GOOD && s->batch->n > 0);
    if (s->arguments->format == FORMAT_JSON)
        fputs("]\n", program_output);
    const int finished = finish_output();
    return code == EXIT_GOOD ? finished : code;
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
        if (s->batch && s->rows && s->matches) {
            code = search_all(s);
        } else {
            code = complain_of_memory();
        }
    }
    if (s->batch)
        arena_release(&s->batch->arena);
    free(s->batch);
    free(s->rows);
    free(s->matches);
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
    int code = parse(&a, argc, argv);
    if (code == EXIT_GOOD && a.help)
        fputs(help, program_output);
    else if (code == EXIT_GOOD)
        code = open_index(a.path, &search.index);
    if (code == EXIT_GOOD && search.index)
        code = run_search(&search);
    wisp_index_close(search.index);
    input_close(&a.input);
    return code;
}
