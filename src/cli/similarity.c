/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cosine.h"
#include "cli/images.h"
#include "cli/matches.h"
#include "cli/model_options.h"
#include "cli/pair_lines.h"
#include "cli/prompt.h"

static const char usage[] =
    "usage: wisp similarity --query TEXT [OPTION]... [FILE | - | --text TEXT]...\n"
    "       wisp similarity --query TEXT --images [OPTION]... [FILE | FOLDER | -]...\n"
    "       wisp similarity --pairs [OPTION]... [FILE | -]...\n"
    "\n"
    "With --query: prints the lines nearest in meaning to TEXT, best first, as\n"
    "\"score<TAB>line\". With --pairs: each line has two texts separated by a tab; prints a score\n"
    "for each line, or nan if it has no tab.\n"
    "A score is the cosine of the two embeddings, from -1 to 1. The first text of a pair is the\n"
    "query, the second the passage.\n"
    "\n";

static const char rerank_usage[] =
    "usage: wisp rerank --query TEXT [OPTION]... [FILE | - | --text TEXT]...\n"
    "       wisp rerank --pairs [OPTION]... [FILE | -]...\n"
    "\n"
    "Scores texts with a cross-encoder, which reads query and text together, or with\n"
    "Qwen3-Reranker. With --query: prints the lines that answer TEXT best, best first, as\n"
    "\"score<TAB>line\". With --pairs: each line has a query and a text separated by a tab; prints "
    "a\n"
    "score for each line, or nan if it has no tab.\n"
    "A higher score is better; the scores of most models are from 0 to 1.\n"
    "\n";

enum { MAX_TOP = 100000 };

struct arguments {
    struct model_arguments model;
    struct input input;
    const char *query;
    struct prompt_choice query_prompt, passage_prompt;
    unsigned long top;
    bool pairs, ranks, json, images;
};

struct search {
    struct arguments *arguments;
    const wisp_model *model;
    wisp_session *session;
    wisp_embed_options as_query, as_passage;
    size_t dimensions;
    struct batch *batch;
    float *queries, *passages; /* [BATCH_RECORDS, dimensions] each */
    float scores[BATCH_RECORDS];
    struct image_embedder images;
    size_t faults;  /* images that are bad */
    size_t lines;   /* so far */
    bool malformed; /* one of them is not a pair */
    struct matches matches;
};

static int take_file(void *arguments, const char *path) {
    struct arguments *a = arguments;
    input_add(&a->input, path, NULL);
    return EXIT_GOOD;
}

#define ARGUMENTS struct arguments

static const struct command_option options[] = {
    OPTION(TEXT, query, "query", 'q', "TEXT", "the text to compare the lines with"),
    COUNT(top, 1, MAX_TOP, "top", 'k', "N", "print the N best lines (default: 10)"),
    OPTION(NONE, pairs, "pairs", 0, NULL, "score pairs of texts"),
    OPTION(NONE, images, "images", 0, NULL,
           "compare TEXT with images: the files, those of folders, or the lines of\n"
           "standard input, as with wisp embed"),
    OPTION(NONE, json, "json", 0, NULL,
           "print a JSON array: objects with \"score\" and \"text\", of pairs scores"),
    TAKEN(input_take_text, input, "text", 0, "TEXT",
          "compare this text (may be given more than once)"),
    GROUP(input, input_options),
    OPTION(TEXT, query_prompt.name, "query-prompt", 0, "NAME",
           "put this prompt of the model before the query (default: the model's\n"
           "default prompt)"),
    OPTION(TEXT, passage_prompt.name, "passage-prompt", 0, "NAME", "likewise, before passages"),
    OPTION(TEXT, query_prompt.text, "query-prompt-text", 0, "TEXT",
           "put this text before the query"),
    OPTION(TEXT, passage_prompt.text, "passage-prompt-text", 0, "TEXT",
           "put this text before passages"),
    GROUP(model, model_options),
    LAST_OPTION,
};

static const struct command_line this_command = {
    usage, options, 25,
    "\n"
    "Examples:\n"
    "  wisp similarity --query 'how do plants eat?' notes.txt\n"
    "  wisp similarity --pairs pairs.tsv\n"
    "\nExit codes: see wisp embed --help.\n",
    take_file};

static const struct command_option rerank_options[] = {
    OPTION(TEXT, query, "query", 'q', "TEXT", "the query that the lines answer"),
    COUNT(top, 1, MAX_TOP, "top", 'k', "N", "print the N best lines (default: 10)"),
    OPTION(NONE, pairs, "pairs", 0, NULL, "score pairs of texts"),
    OPTION(NONE, json, "json", 0, NULL,
           "print a JSON array: objects with \"score\" and \"text\", of pairs scores"),
    TAKEN(input_take_text, input, "text", 0, "TEXT",
          "score this text (may be given more than once)"),
    GROUP(input, input_options),
    GROUP(model, model_options),
    LAST_OPTION,
};

static const struct command_line rerank_command = {
    rerank_usage, rerank_options, 25,
    "\n"
    "Example:\n"
    "  wisp rerank --model hf:cross-encoder/ms-marco-MiniLM-L6-v2 --query 'how do plants eat?' "
    "notes.txt\n"
    "\nExit codes: see wisp embed --help.\n",
    take_file};

static bool parse(struct arguments *a, int argc, char **argv, int *code) {
    if (!take_options(a->ranks ? &rerank_command : &this_command, a, argc, argv, code))
        return false;
    if (a->input.n_items == 0)
        input_add(&a->input, "-", NULL);
    if (a->pairs == (a->query != NULL)) {
        complain("%s: give either --query TEXT or --pairs (see --help)",
                 a->ranks ? "rerank" : "similarity");
        *code = EXIT_USAGE;
    } else if (a->pairs && (a->input.ndjson || a->input.columns.separator)) {
        complain("--pairs takes lines with a tab, and no --input");
        *code = EXIT_USAGE;
    } else if (a->images && (a->pairs || a->passage_prompt.name || a->passage_prompt.text)) {
        complain("--images goes without --pairs and without a prompt of passages");
        *code = EXIT_USAGE;
    } else if (a->images) {
        *code = images_take_files(&a->input);
    }
    return *code == EXIT_GOOD;
}

static int embed(const struct search *s, const wisp_text *texts, size_t n,
                 const wisp_embed_options *how, float *rows) {
    wisp_error error;
    return wisp_embed(s->session, texts, n, how, rows, &error) == WISP_OK ? EXIT_GOOD
                                                                          : complain_of(&error);
}

static int rank(const struct search *s, wisp_text query, const wisp_text *texts, size_t n,
                float *scores) {
    wisp_error error;
    return wisp_rerank(s->session, query, texts, n, scores, &error) == WISP_OK
               ? EXIT_GOOD
               : complain_of(&error);
}

/* ---- query ---------------------------------------------------------------------------------- */

static int embed_query(struct search *s) {
    const wisp_text query = wisp_text_of(s->arguments->query);
    return embed(s, &query, 1, &s->as_query, s->queries);
}

/* Embeds the lines of the batch, from which bad images are left out, or scores them. */
static int embed_batch(struct search *s) {
    struct batch *batch = s->batch;
    const struct arguments *a = s->arguments;
    if (a->ranks)
        return rank(s, wisp_text_of(a->query), batch->texts, batch->n, s->passages);
    if (a->images)
        return images_embed_batch(&s->images, batch, s->dimensions, s->passages, &s->faults);
    return embed(s, batch->texts, batch->n, &s->as_passage, s->passages);
}

static int search_batch(struct search *s) {
    const struct batch *batch = s->batch;
    const bool ranks = s->arguments->ranks;
    const int code = embed_batch(s);
    if (code != EXIT_GOOD)
        return code;
    for (size_t i = 0; i < batch->n; i++) {
        const double score =
            ranks ? (double)s->passages[i]
                  : cosine(s->queries, s->passages + i * s->dimensions, s->dimensions);
        if (!matches_add(&s->matches, score, batch->texts[i]))
            return complain_of_memory();
    }
    return EXIT_GOOD;
}

static void print_line(const struct match *match) {
    fprintf(program_output, "%.4f\t", match->score);
    fwrite(match->line.bytes, 1, match->line.length, program_output);
    fputc('\n', program_output);
}

static void print_object(const struct match *match, bool first) {
    fprintf(program_output, "%s{\"score\": %.6f, \"text\": ", first ? "" : ",\n ", match->score);
    print_json_string(program_output, match->line);
    fputc('}', program_output);
}

static int print_matches(struct search *s) {
    const bool json = s->arguments->json;
    matches_sort(&s->matches);
    fputs(json ? "[" : "", program_output);
    for (size_t i = 0; i < s->matches.n; i++) {
        if (json)
            print_object(&s->matches.match[i], i == 0);
        else
            print_line(&s->matches.match[i]);
    }
    fputs(json ? "]\n" : "", program_output);
    return finish_output();
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/* Scores pairs by a cross-encoder: neighbours with the same query together. */
static int rank_pairs(struct search *s, const wisp_text *queries, const wisp_text *passages,
                      size_t n) {
    for (size_t i = 0, end; i < n; i = end) {
        const wisp_text query = queries[i];
        for (end = i + 1; end < n && queries[end].length == query.length &&
                          memcmp(queries[end].bytes, query.bytes, query.length) == 0;)
            end++;
        const int code = rank(s, query, passages + i, end - i, s->scores + i);
        if (code != EXIT_GOOD)
            return code;
    }
    return EXIT_GOOD;
}

static int compare_pairs(struct search *s, const wisp_text *queries, const wisp_text *passages,
                         size_t n) {
    int code = embed(s, queries, n, &s->as_query, s->queries);
    if (code == EXIT_GOOD)
        code = embed(s, passages, n, &s->as_passage, s->passages);
    for (size_t i = 0; i < n && code == EXIT_GOOD; i++)
        s->scores[i] = (float)cosine(s->queries + i * s->dimensions,
                                     s->passages + i * s->dimensions, s->dimensions);
    return code;
}

/* Prints the score of a pair, or that the line is none (NaN). */
static void print_score(const struct search *s, size_t i, double score) {
    if (!s->arguments->json)
        fprintf(program_output, "%.6f\n", score);
    else if (score == score)
        fprintf(program_output, "%s%.6f", i > 0 ? ",\n " : "", score);
    else
        fprintf(program_output, "%snull", i > 0 ? ",\n " : "");
}

/* Scores the pairs of the batch, the lines from `first` on: a score for each, of a malformed one
 * NaN. */
static int score_batch(struct search *s, size_t first) {
    wisp_text queries[BATCH_RECORDS], passages[BATCH_RECORDS];
    bool whole[BATCH_RECORDS] = {false};
    const size_t n = split_pairs(s->batch, queries, passages, whole);
    const int code = s->arguments->ranks ? rank_pairs(s, queries, passages, n)
                                         : compare_pairs(s, queries, passages, n);
    if (code != EXIT_GOOD)
        return code;
    s->malformed |= n < s->batch->n;
    const float *score = s->scores;
    for (size_t i = 0; i < s->batch->n; i++)
        print_score(s, first + i, whole[i] ? (double)*score++ : NAN);
    return finish_output();
}

/* ---- both ----------------------------------------------------------------------------------- */

static int run_batches(struct search *s) {
    const bool pairs = s->arguments->pairs, is_array = pairs && s->arguments->json;
    s->arguments->input.skip_blank = !pairs;
    fputs(is_array ? "[" : "", program_output);
    int code = pairs || s->arguments->ranks ? EXIT_GOOD : embed_query(s);
    while (code == EXIT_GOOD) {
        if (s->arguments->images)
            s->arguments->input.most = IMAGE_RECORDS;
        code = input_next(&s->arguments->input, s->batch);
        if (s->batch->n == 0 || was_interrupted())
            break;
        const int done = pairs ? score_batch(s, s->lines) : search_batch(s);
        s->lines += s->batch->n;
        code = done != EXIT_GOOD ? done : code;
    }
    fputs(is_array ? "]\n" : "", program_output);
    if (code == EXIT_GOOD)
        warn_of_cut_texts(s->session, s->model, 0, "");
    if (code == EXIT_GOOD && s->lines == 0 && !was_interrupted())
        remark("there are no lines to %s", s->arguments->ranks ? "score" : "compare");
    if (code == EXIT_GOOD && s->malformed)
        code = EXIT_INPUT;
    if (pairs) {
        const int finished = finish_output();
        return code == EXIT_GOOD ? finished : code;
    }
    if (code == EXIT_GOOD)
        code = print_matches(s);
    return code == EXIT_GOOD && s->faults > 0 ? EXIT_INPUT : code;
}

static int run_similarity(void *arguments, const wisp_model *model, wisp_session *session) {
    struct arguments *a = arguments;
    struct search s = {.arguments = a,
                       .model = model,
                       .session = session,
                       .dimensions = wisp_model_dimensions(model)};
    int code = choose_prompt(model, &a->query_prompt, &s.as_query.prompt);
    if (code == EXIT_GOOD)
        code = choose_prompt(model, &a->passage_prompt, &s.as_passage.prompt);
    if (code != EXIT_GOOD)
        return code;
    if (a->images)
        code = images_open(&s.images, model, threads_of(&a->model));
    if (code != EXIT_GOOD) {
        images_close(&s.images);
        return code;
    }
    s.batch = calloc(1, sizeof *s.batch);
    s.queries = calloc(BATCH_RECORDS, s.dimensions * sizeof *s.queries);
    s.passages = calloc(BATCH_RECORDS, s.dimensions * sizeof *s.passages);
    if (s.batch && s.queries && s.passages && matches_open(&s.matches, a->top)) {
        code = run_batches(&s);
    } else {
        code = complain_of_memory();
    }
    matches_close(&s.matches);
    images_close(&s.images);
    batch_close(s.batch);
    free(s.queries);
    free(s.passages);
    return code;
}

static int run(bool ranks, int argc, char **argv) {
    struct arguments a = {.query_prompt.option = "query-prompt",
                          .passage_prompt.option = "passage-prompt",
                          .ranks = ranks,
                          .top = 10};
    if (!input_open(&a.input, (size_t)argc))
        return EXIT_FAILED;
    int code;
    if (parse(&a, argc, argv, &code))
        code = run_with_model(&a.model, &a, run_similarity);
    input_close(&a.input);
    return code;
}

int command_similarity(int argc, char **argv) {
    return run(false, argc, argv);
}

int command_rerank(int argc, char **argv) {
    return run(true, argc, argv);
}
