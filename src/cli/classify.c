/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/input.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/pair_lines.h"

static const char usage[] =
    "usage: wisp classify [OPTION]... [FILE | - | --text TEXT]...\n"
    "\n"
    "Scores the labels of each line of the files, or of standard input, with a classifier. Writes\n"
    "an object of JSON in a line for each text, in order, as soon as it is ready:\n"
    "{\"labels\":[{\"label\":\"POSITIVE\",\"score\":0.9998},...]}, the best first. Scores are\n"
    "probabilities: their sum is 1, unless several labels may be true of a text. With --input\n"
    "the other members and columns of a text stay in its object, columns as strings.\n"
    "\n";

struct arguments {
    struct model_arguments model;
    struct input input;
    unsigned long top;
    bool pairs;
};

struct run {
    const struct arguments *arguments;
    const wisp_model *model;
    wisp_session *session;
    struct batch *batch;
    float *scores;  /* [BATCH_RECORDS, labels] */
    size_t *order;  /* [labels]: of a text, best first */
    bool malformed; /* a line was not a pair */
};

static int take_file(void *arguments, const char *path) {
    struct arguments *a = arguments;
    return input_add(&a->input, path, NULL), EXIT_GOOD;
}

#define ARGUMENTS struct arguments

static const struct command_option options[] = {
    COUNT(top, 1, 1 << 20, "top", 'k', "N", "write the N best labels of each text (default: all)"),
    OPTION(NONE, pairs, "pairs", 0, NULL,
           "classify pairs of texts, such as a premise and a hypothesis, with a tab\n"
           "between them; a line without one gets null"),
    TAKEN(input_take_text, input, "text", 0, "TEXT",
          "classify this text (may be given more than once)"),
    GROUP(input, input_options),
    GROUP(model, model_options),
    LAST_OPTION,
};

static const struct command_line this_command = {
    usage, options, 25,
    "\n"
    "Examples:\n"
    "  wisp classify --model path/to/distilbert-sst2 reviews.txt\n"
    "  wisp classify --model path/to/nli-MiniLM --pairs --top 1 pairs.tsv\n"
    "\nExit codes: see wisp embed --help.\n",
    take_file};

static bool parse(struct arguments *a, int argc, char **argv, int *code) {
    if (!take_options(&this_command, a, argc, argv, code))
        return false;
    if (a->input.n_items == 0)
        input_add(&a->input, "-", NULL);
    if (a->pairs && (a->input.ndjson || a->input.columns.separator)) {
        complain("--pairs takes lines with a tab, and no --input");
        *code = EXIT_USAGE;
    }
    return *code == EXIT_GOOD;
}

static int classify(const struct run *run, const wisp_text *texts, const wisp_text *seconds,
                    size_t n) {
    wisp_error error;
    return wisp_classify(run->session, texts, seconds, n, run->scores, &error) == WISP_OK
               ? EXIT_GOOD
               : complain_of(&error);
}

/* Sorts the labels by their scores: of equal ones the lower index comes first. */
static void sort_labels(const struct run *run, const float *scores, size_t labels) {
    for (size_t i = 0; i < labels; i++) {
        size_t place = i;
        for (; place > 0 && scores[run->order[place - 1]] < scores[i]; place--)
            run->order[place] = run->order[place - 1];
        run->order[place] = i;
    }
}

static void print_labels(const struct run *run, const struct record *record, const float *scores) {
    const size_t labels = wisp_model_dimensions(run->model), top = run->arguments->top;
    sort_labels(run, scores, labels);
    output_begin_object(program_output, record, "labels");
    for (size_t i = 0; i < labels && (top == 0 || i < top); i++) {
        fputs(i > 0 ? ",{\"label\":" : "[{\"label\":", program_output);
        print_json_string(program_output,
                          wisp_text_of(wisp_model_label(run->model, run->order[i])));
        fprintf(program_output, ",\"score\":%.9g}", (double)scores[run->order[i]]);
    }
    fputs("]}\n", program_output);
}

/* Classifies and writes a batch. A line that is not a pair gets null. */
static int run_batch(struct run *run) {
    wisp_text first[BATCH_RECORDS], second[BATCH_RECORDS];
    bool whole[BATCH_RECORDS] = {false};
    const struct batch *batch = run->batch;
    const bool pairs = run->arguments->pairs;
    const size_t n = pairs ? split_pairs(batch, first, second, whole) : batch->n;
    const int code = classify(run, pairs ? first : batch->texts, pairs ? second : NULL, n);
    if (code != EXIT_GOOD)
        return code;
    run->malformed |= n < batch->n;
    const float *scores = run->scores;
    for (size_t i = 0; i < batch->n; i++) {
        if (pairs && !whole[i]) {
            fputs("null\n", program_output);
            continue;
        }
        print_labels(run, &batch->records[i], scores);
        scores += wisp_model_dimensions(run->model);
    }
    return finish_output();
}

static int run_batches(struct run *run, struct input *input) {
    int code = EXIT_GOOD;
    while (code == EXIT_GOOD) {
        code = input_next(input, run->batch);
        if (run->batch->n == 0 || was_interrupted())
            break;
        const int done = run_batch(run);
        code = done != EXIT_GOOD ? done : code;
    }
    if (code == EXIT_GOOD)
        warn_of_cut_texts(run->session, run->model, 0, "");
    return code == EXIT_GOOD && run->malformed ? EXIT_INPUT : code;
}

static int run_classify(void *arguments, const wisp_model *model, wisp_session *session) {
    struct arguments *a = arguments;
    const size_t labels = wisp_model_dimensions(model);
    struct run run = {.arguments = a, .model = model, .session = session};
    if (!wisp_model_label(model, 0)) {
        complain("classify: the model has no labels: it does not classify texts");
        return EXIT_MODEL;
    }
    run.batch = calloc(1, sizeof *run.batch);
    run.scores = calloc(BATCH_RECORDS, labels * sizeof *run.scores);
    run.order = calloc(labels, sizeof *run.order);
    const int code =
        run.batch && run.scores && run.order ? run_batches(&run, &a->input) : complain_of_memory();
    batch_close(run.batch);
    free(run.scores);
    free(run.order);
    return code;
}

int command_classify(int argc, char **argv) {
    struct arguments a = {0};
    if (!input_open(&a.input, (size_t)argc))
        return EXIT_FAILED;
    int code;
    if (parse(&a, argc, argv, &code))
        code = run_with_model(&a.model, &a, run_classify);
    input_close(&a.input);
    return code;
}
