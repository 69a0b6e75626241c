/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/output.h"

static const char help[] =
    "usage: wisp similarity --query TEXT [OPTION]... [FILE | - | --text TEXT]...\n"
    "       wisp similarity --pairs [OPTION]... [FILE | -]...\n"
    "\n"
    "With --query: prints the lines nearest in meaning to TEXT, best first, as\n"
    "\"score<TAB>line\". With --pairs: prints a score for each line, which has two texts "
    "separated\n"
    "by a tab.\n"
    "A score is the cosine of the two embeddings, from -1 to 1.\n"
    "\n"
    "  -q, --query TEXT       the text to compare the lines with\n"
    "  -k, --top N            print the N best lines (default: 10)\n"
    "      --pairs            score pairs of texts\n"
    "      --text TEXT        compare this text (may be given more than once)\n" MODEL_HELP
    "  -h, --help             this text\n"
    "\n"
    "Exit codes: see wisp embed --help.\n";

enum { OPTION_TEXT = 256, OPTION_PAIRS, MAX_TOP = 100000 };

static const struct option options[] = {{"query", required_argument, NULL, 'q'},
                                        {"top", required_argument, NULL, 'k'},
                                        {"pairs", no_argument, NULL, OPTION_PAIRS},
                                        {"text", required_argument, NULL, OPTION_TEXT},
                                        MODEL_OPTIONS,
                                        {"help", no_argument, NULL, 'h'},
                                        {0}};

struct arguments {
    struct model_arguments model;
    struct input input;
    const char *query;
    unsigned long top;
    bool pairs, help;
};

struct match {
    float score;
    size_t order; /* the line's number in the input, by which equal scores are ordered */
    char *line;
};

struct search {
    struct arguments *arguments;
    wisp_session *session;
    size_t dimensions;
    struct batch *batch;
    float *rows; /* [2 BATCH_RECORDS, dimensions] */
    float *query;
    struct match *matches; /* [n_matches]: the best so far, best first */
    size_t n_matches, seen;
};

static bool take_option(struct arguments *a, int option, const char *value, int *code) {
    *code = EXIT_USAGE;
    switch (option) {
    case 'q':
        a->query = value;
        return true;
    case 'k':
        return parse_count("top", value, MAX_TOP, &a->top);
    case OPTION_PAIRS:
        return a->pairs = true;
    case OPTION_TEXT:
        input_add(&a->input, NULL, value);
        return true;
    case 'h':
        return a->help = true;
    default:
        return take_model_option(&a->model, option, value, code);
    }
}

static int parse(struct arguments *a, int argc, char **argv) {
    int option, code;
    while ((option = getopt_long(argc, argv, "-q:k:m:t:h", options, NULL)) != -1) {
        if (option == 1)
            input_add(&a->input, optarg, NULL);
        else if (!take_option(a, option, optarg, &code))
            return code;
    }
    for (; optind < argc; optind++)
        input_add(&a->input, argv[optind], NULL);
    if (a->input.n_items == 0)
        input_add(&a->input, "-", NULL);
    if (!a->help && a->pairs == (a->query != NULL)) {
        complain("similarity: give either --query TEXT or --pairs (see --help)");
        return EXIT_USAGE;
    }
    return EXIT_GOOD;
}

/* ---- query ---------------------------------------------------------------------------------- */

/* Inserts a line into the matches where its score is among the best. */
static bool keep_match(struct search *s, float score, wisp_text line) {
    size_t at = s->n_matches;
    while (at > 0 && s->matches[at - 1].score < score)
        at--;
    if (at == s->arguments->top)
        return true;
    char *copy = strndup(line.bytes, line.length);
    if (!copy)
        return false;
    if (s->n_matches == s->arguments->top)
        free(s->matches[--s->n_matches].line);
    memmove(s->matches + at + 1, s->matches + at, (s->n_matches - at) * sizeof *s->matches);
    s->matches[at] = (struct match){.score = score, .order = s->seen, .line = copy};
    s->n_matches++;
    return true;
}

static int search_batch(struct search *s, wisp_error *error) {
    if (wisp_embed(s->session, s->batch->texts, s->batch->n, NULL, s->rows, error) != WISP_OK)
        return complain_of(error);
    for (size_t i = 0; i < s->batch->n; i++, s->seen++) {
        const float score = wisp_dot(s->query, s->rows + i * s->dimensions, s->dimensions);
        if (!keep_match(s, score, s->batch->texts[i])) {
            complain("out of memory");
            return EXIT_FAILED;
        }
    }
    return EXIT_GOOD;
}

static int embed_query(struct search *s, wisp_error *error) {
    const wisp_text query = wisp_text_of(s->arguments->query);
    return wisp_embed(s->session, &query, 1, NULL, s->query, error) == WISP_OK ? EXIT_GOOD
                                                                               : complain_of(error);
}

static int print_matches(const struct search *s) {
    for (size_t i = 0; i < s->n_matches; i++)
        printf("%.4f\t%s\n", (double)s->matches[i].score, s->matches[i].line);
    return finish_stream(stdout);
}

/* ---- pairs ---------------------------------------------------------------------------------- */

static int split_pairs(const struct search *s, wisp_text *halves) {
    for (size_t i = 0; i < s->batch->n; i++) {
        const wisp_text line = s->batch->texts[i];
        const char *tab = memchr(line.bytes, '\t', line.length);
        if (!tab) {
            complain("line %zu: no tab between two texts", s->seen + i + 1);
            return EXIT_INPUT;
        }
        const size_t first = (size_t)(tab - line.bytes);
        halves[2 * i] = (wisp_text){line.bytes, first};
        halves[2 * i + 1] = (wisp_text){tab + 1, line.length - first - 1};
    }
    return EXIT_GOOD;
}

static int score_batch(struct search *s, wisp_error *error) {
    wisp_text halves[2 * BATCH_RECORDS];
    const int code = split_pairs(s, halves);
    if (code != EXIT_GOOD)
        return code;
    if (wisp_embed(s->session, halves, 2 * s->batch->n, NULL, s->rows, error) != WISP_OK)
        return complain_of(error);
    for (size_t i = 0; i < s->batch->n; i++, s->seen++) {
        const float *pair = s->rows + 2 * i * s->dimensions;
        printf("%.6f\n", (double)wisp_dot(pair, pair + s->dimensions, s->dimensions));
    }
    return finish_stream(stdout);
}

/* ---- both ----------------------------------------------------------------------------------- */

static int run_batches(struct search *s) {
    wisp_error error;
    int code = s->arguments->pairs ? EXIT_GOOD : embed_query(s, &error);
    while (code == EXIT_GOOD) {
        code = input_next(&s->arguments->input, s->batch);
        if (s->batch->n == 0 || was_interrupted())
            break;
        const int done = s->arguments->pairs ? score_batch(s, &error) : search_batch(s, &error);
        code = done != EXIT_GOOD ? done : code;
    }
    return code == EXIT_GOOD ? print_matches(s) : code;
}

static int run_similarity(struct arguments *a, const wisp_model *model, wisp_session *session) {
    struct search s = {.arguments = a, .session = session};
    s.dimensions = wisp_model_dimensions(model);
    s.batch = calloc(1, sizeof *s.batch);
    s.rows = calloc(2 * BATCH_RECORDS + 1, s.dimensions * sizeof *s.rows);
    s.matches = calloc(a->top + 1, sizeof *s.matches);
    int code = EXIT_FAILED;
    if (!s.batch || !s.rows || !s.matches) {
        complain("out of memory");
    } else {
        s.query = s.rows + 2 * BATCH_RECORDS * s.dimensions;
        code = run_batches(&s);
    }
    for (size_t i = 0; i < s.n_matches; i++)
        free(s.matches[i].line);
    if (s.batch)
        arena_release(&s.batch->arena);
    free(s.batch);
    free(s.rows);
    free(s.matches);
    return code;
}

int command_similarity(int argc, char **argv) {
    struct arguments a = {.top = 10};
    wisp_model *model = NULL;
    wisp_session *session = NULL;
    if (!input_open(&a.input, (size_t)argc, false))
        return EXIT_FAILED;
    int code = parse(&a, argc, argv);
    if (code == EXIT_GOOD && a.help)
        fputs(help, stdout);
    else if (code == EXIT_GOOD)
        code = open_model(&a.model, &model, &session);
    if (session) {
        watch_signals(session);
        code = run_similarity(&a, model, session);
        watch_signals(NULL);
    }
    wisp_session_close(session);
    wisp_model_close(model);
    input_close(&a.input);
    return code;
}
