/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cosine.h"
#include "cli/input.h"
#include "cli/matches.h"
#include "cli/prompt.h"

static const char help[] =
    "usage: wisp similarity --query TEXT [OPTION]... [FILE | - | --text TEXT]...\n"
    "       wisp similarity --pairs [OPTION]... [FILE | -]...\n"
    "\n"
    "With --query: prints the lines nearest in meaning to TEXT, best first, as\n"
    "\"score<TAB>line\". With --pairs: prints a score for each line, which has two texts "
    "separated\n"
    "by a tab.\n"
    "A score is the cosine of the two embeddings, from -1 to 1. Of a pair the first text counts "
    "as\n"
    "query and the second as passage.\n"
    "\n"
    "  -q, --query TEXT       the text to compare the lines with\n"
    "  -k, --top N            print the N best lines (default: 10)\n"
    "      --pairs            score pairs of texts\n"
    "      --text TEXT        compare this text (may be given more than once)\n"
    "      --query-prompt NAME, --passage-prompt NAME\n"
    "                         put these prompts of the model before query and passages (default:\n"
    "                         the model's default prompt)\n"
    "      --query-prompt-text TEXT, --passage-prompt-text TEXT\n"
    "                         put these texts before them\n" MODEL_HELP
    "  -h, --help             this text\n"
    "\n"
    "Exit codes: see wisp embed --help.\n";

enum {
    OPTION_TEXT = 256,
    OPTION_PAIRS,
    OPTION_QUERY_PROMPT,
    OPTION_QUERY_PROMPT_TEXT,
    OPTION_PASSAGE_PROMPT,
    OPTION_PASSAGE_PROMPT_TEXT,
    MAX_TOP = 100000
};

static const struct option options[] = {
    {"query", required_argument, NULL, 'q'},
    {"top", required_argument, NULL, 'k'},
    {"pairs", no_argument, NULL, OPTION_PAIRS},
    {"text", required_argument, NULL, OPTION_TEXT},
    {"query-prompt", required_argument, NULL, OPTION_QUERY_PROMPT},
    {"query-prompt-text", required_argument, NULL, OPTION_QUERY_PROMPT_TEXT},
    {"passage-prompt", required_argument, NULL, OPTION_PASSAGE_PROMPT},
    {"passage-prompt-text", required_argument, NULL, OPTION_PASSAGE_PROMPT_TEXT},
    MODEL_OPTIONS,
    {"help", no_argument, NULL, 'h'},
    {0}};

struct arguments {
    struct model_arguments model;
    struct input input;
    const char *query;
    struct prompt_choice query_prompt, passage_prompt;
    unsigned long top;
    bool pairs, help;
};

struct search {
    struct arguments *arguments;
    wisp_session *session;
    wisp_embed_options as_query, as_passage;
    size_t dimensions;
    struct batch *batch;
    float *queries, *passages; /* [BATCH_RECORDS, dimensions] each */
    struct matches matches;
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
    case OPTION_QUERY_PROMPT:
        a->query_prompt.name = value;
        return true;
    case OPTION_QUERY_PROMPT_TEXT:
        a->query_prompt.text = value;
        return true;
    case OPTION_PASSAGE_PROMPT:
        a->passage_prompt.name = value;
        return true;
    case OPTION_PASSAGE_PROMPT_TEXT:
        a->passage_prompt.text = value;
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

static int embed(const struct search *s, const wisp_text *texts, size_t n,
                 const wisp_embed_options *how, float *rows) {
    wisp_error error;
    return wisp_embed(s->session, texts, n, how, rows, &error) == WISP_OK ? EXIT_GOOD
                                                                          : complain_of(&error);
}

/* ---- query ---------------------------------------------------------------------------------- */

static int embed_query(struct search *s) {
    const wisp_text query = wisp_text_of(s->arguments->query);
    return embed(s, &query, 1, &s->as_query, s->queries);
}

static int search_batch(struct search *s) {
    const struct batch *batch = s->batch;
    const int code = embed(s, batch->texts, batch->n, &s->as_passage, s->passages);
    if (code != EXIT_GOOD)
        return code;
    for (size_t i = 0; i < batch->n; i++) {
        const double score = cosine(s->queries, s->passages + i * s->dimensions, s->dimensions);
        if (!matches_add(&s->matches, score, batch->texts[i]))
            return complain_of_memory();
    }
    return EXIT_GOOD;
}

static int print_matches(struct search *s) {
    matches_sort(&s->matches);
    for (size_t i = 0; i < s->matches.n; i++) {
        const struct match *match = &s->matches.match[i];
        fprintf(program_output, "%.4f\t", match->score);
        fwrite(match->line.bytes, 1, match->line.length, program_output);
        fputc('\n', program_output);
    }
    return finish_output();
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/* Splits the lines of the batch into pairs. Complains and returns EXIT_INPUT where a line has no
 * tab; *n is the number of pairs before it. */
static int split_pairs(const struct batch *batch, wisp_text *queries, wisp_text *passages,
                       size_t *n) {
    for (*n = 0; *n < batch->n; (*n)++) {
        const struct record *record = &batch->records[*n];
        const wisp_text line = record->text;
        const char *tab = memchr(line.bytes, '\t', line.length);
        if (!tab) {
            complain("%s: line %zu: no tab between two texts", record->name, record->line);
            return EXIT_INPUT;
        }
        const size_t first = (size_t)(tab - line.bytes);
        queries[*n] = (wisp_text){line.bytes, first};
        passages[*n] = (wisp_text){tab + 1, line.length - first - 1};
    }
    return EXIT_GOOD;
}

/* Scores the pairs of the batch. Lines before a malformed one are scored, too. */
static int score_batch(struct search *s) {
    wisp_text queries[BATCH_RECORDS], passages[BATCH_RECORDS];
    size_t n;
    const int split = split_pairs(s->batch, queries, passages, &n);
    int code = embed(s, queries, n, &s->as_query, s->queries);
    if (code == EXIT_GOOD)
        code = embed(s, passages, n, &s->as_passage, s->passages);
    if (code != EXIT_GOOD)
        return code;
    for (size_t i = 0; i < n; i++)
        fprintf(
            program_output, "%.6f\n",
            cosine(s->queries + i * s->dimensions, s->passages + i * s->dimensions, s->dimensions));
    code = finish_output();
    return code == EXIT_GOOD ? split : code;
}

/* ---- both ----------------------------------------------------------------------------------- */

static int run_batches(struct search *s) {
    const bool pairs = s->arguments->pairs;
    int code = pairs ? EXIT_GOOD : embed_query(s);
    while (code == EXIT_GOOD) {
        code = input_next(&s->arguments->input, s->batch);
        if (s->batch->n == 0 || was_interrupted())
            break;
        const int done = pairs ? score_batch(s) : search_batch(s);
        code = done != EXIT_GOOD ? done : code;
    }
    return code == EXIT_GOOD && !pairs ? print_matches(s) : code;
}

static int run_similarity(struct arguments *a, const wisp_model *model, wisp_session *session) {
    struct search s = {
        .arguments = a, .session = session, .dimensions = wisp_model_dimensions(model)};
    int code = choose_prompt(model, &a->query_prompt, &s.as_query.prompt);
    if (code == EXIT_GOOD)
        code = choose_prompt(model, &a->passage_prompt, &s.as_passage.prompt);
    if (code != EXIT_GOOD)
        return code;
    s.batch = calloc(1, sizeof *s.batch);
    s.queries = calloc(BATCH_RECORDS, s.dimensions * sizeof *s.queries);
    s.passages = calloc(BATCH_RECORDS, s.dimensions * sizeof *s.passages);
    if (s.batch && s.queries && s.passages && matches_open(&s.matches, a->top)) {
        code = run_batches(&s);
    } else {
        code = complain_of_memory();
    }
    matches_close(&s.matches);
    if (s.batch)
        arena_release(&s.batch->arena);
    free(s.batch);
    free(s.queries);
    free(s.passages);
    return code;
}

int command_similarity(int argc, char **argv) {
    struct arguments a = {.query_prompt.option = "query-prompt",
                          .passage_prompt.option = "passage-prompt",
                          .top = 10};
    wisp_model *model = NULL;
    wisp_session *session = NULL;
    if (!input_open(&a.input, (size_t)argc))
        return EXIT_FAILED;
    int code = parse(&a, argc, argv);
    if (code == EXIT_GOOD && a.help)
        fputs(help, program_output);
    else if (code == EXIT_GOOD)
        code = open_model(&a.model, &model, &session);
    if (code == EXIT_GOOD && session) {
        watch_signals(session);
        code = run_similarity(&a, model, session);
        watch_signals(NULL);
    }
    wisp_session_close(session);
    wisp_model_close(model);
    input_close(&a.input);
    return code;
}
