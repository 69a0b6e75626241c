/* SPDX-License-Identifier: Apache-2.0
 * wisp eval: measures the quality of a model on the user's data. */
#include <stdio.h>
#include <string.h>

#include "cli/eval_mmlu.h"
#include "cli/eval_ppl.h"
#include "cli/eval_retrieval.h"
#include "cli/eval_sts.h"
#include "cli/model_options.h"

static const char usage[] =
    "usage: wisp eval sts [OPTION]... [FILE | -]\n"
    "       wisp eval ppl [OPTION]... [FILE | -]\n"
    "       wisp eval mmlu [OPTION]... FOLDER\n"
    "       wisp eval retrieval [OPTION]... FOLDER\n"
    "\n"
    "sts compares the model's similarity of pairs of sentences with scores that people gave, and\n"
    "its embeddings with those of the same model computed in f32 with all neurons. FILE (default:\n"
    "standard input) has a line for each pair, with columns separated by tabs. Three columns are\n"
    "score, sentence, sentence. Seven or more are those of the STS Benchmark's files: the fifth "
    "is\n"
    "the score, and the next two are the sentences. Quotes are taken literally.\n"
    "\n"
    "ppl computes the perplexity of a text under a model that generates. Like llama.cpp, it "
    "divides\n"
    "the text's tokens into chunks and predicts the second half of each, except its first token.\n"
    "\n"
    "mmlu asks the questions in the files SUBJECT_test.csv in FOLDER (question, A, B, C, D, "
    "answer)\n"
    "and counts how often the right letter is the most likely one. Examples come from\n"
    "SUBJECT_dev.csv, or are the first questions of the test file, which are then not asked.\n"
    "\n"
    "retrieval searches the documents in FOLDER for its queries, and prints nDCG and recall of "
    "the\n"
    "first ten beside those of the same model computed in f32 with all neurons. The folder has "
    "the\n"
    "files of BEIR: corpus.jsonl (_id, title, text), queries.jsonl (_id, text) and "
    "qrels/test.tsv.\n"
    "\n";

struct arguments {
    struct model_arguments model;
    const char *data;
    unsigned long context, stride; /* of ppl; 0: the defaults */
    struct mmlu_options mmlu;
    const char *of_ppl, *of_mmlu; /* an option that was given and belongs to it; NULL: none */
    bool json;
};

static int take_data(void *arguments, const char *path) {
    struct arguments *a = arguments;
    if (a->data) {
        complain("eval: %s: one file at a time, and %s was given before", path, a->data);
        return EXIT_USAGE;
    }
    a->data = path;
    return EXIT_GOOD;
}

#define ARGUMENTS struct arguments

static const struct command_option options[] = {
    TAKEN_BY_ALL(take_data, TEXT, "data", 0, "FILE", "the same as FILE"),
    MARKED(of_ppl, COUNT, context, 1, INT32_MAX, "context", 0, "N",
           "ppl: tokens of a chunk (default: 512, or the model's limit)"),
    MARKED(of_ppl, COUNT, stride, 1, INT32_MAX, "stride", 0, "N",
           "ppl: begin a chunk every N tokens, and predict its last N (default:\n"
           "chunks follow each other)"),
    MARKED(of_mmlu, COUNT, mmlu.shots, 0, 1000, "shots", 0, "N",
           "mmlu: examples before each question (default: 5)"),
    MARKED(of_mmlu, COUNT, mmlu.limit, 1, INT32_MAX, "limit", 0, "N",
           "mmlu: the most questions of a subject"),
    MARKED(of_mmlu, NONE, mmlu.answers, 0, 0, "answers", 0, NULL,
           "mmlu: also print each answer as a JSON object on a line"),
    OPTION(NONE, json, "json", 0, NULL, "print the figures as a JSON object"),
    GROUP(model, cache_options),
    GROUP(model, memory_options),
    GROUP(model, model_options),
    LAST_OPTION,
};

static const struct command_line this_command = {usage, options, 25,
                                                 "\n"
                                                 "Examples:\n"
                                                 "  wisp eval sts stsb-test.tsv\n"
                                                 "  wisp eval ppl --model model.gguf text.txt\n"
                                                 "\nExit codes: see wisp embed --help.\n",
                                                 take_data};

static const char *data_of(const struct arguments *a) {
    return a->data ? a->data : "-";
}

/* Complains of an option that belongs to another evaluation. */
static int refuse(const char *option, const char *name) {
    complain("--%s is an option of eval %s", option, name);
    return EXIT_USAGE;
}

static int ask_for_folder(const char *name, const char *what) {
    complain("eval %s: say which folder has the %s (see wisp eval --help)", name, what);
    return EXIT_USAGE;
}

static int print_table(const struct sts_result *r) {
    fprintf(program_output, "%-24s %10s %10s\n", "", "model", "f32 dense");
    fprintf(program_output, "%-24s %10.4f %10.4f\n", "Spearman", r->spearman,
            r->reference_spearman);
    fprintf(program_output, "%-24s %10.4f %10.4f\n", "Pearson", r->pearson, r->reference_pearson);
    fprintf(program_output, "%-24s %10.6f\n", "cosine to it, mean", r->mean_cosine);
    fprintf(program_output, "%-24s %10.6f\n", "  first percentile", r->low_cosine);
    fprintf(program_output, "%-24s %10.6f\n", "  least", r->least_cosine);
    fprintf(program_output, "%-24s %10zu\n", "pairs", r->pairs);
    fprintf(program_output, "%-24s %10s\n", "compute", r->compute);
    return finish_output();
}

static int print_retrieval(const struct retrieval_result *r) {
    fprintf(program_output, "%-24s %10s %10s\n", "", "model", "f32 dense");
    fprintf(program_output, "%-24s %10.4f %10.4f\n", "nDCG@10", r->model.ndcg, r->reference.ndcg);
    fprintf(program_output, "%-24s %10.4f %10.4f\n", "recall@10", r->model.recall,
            r->reference.recall);
    fprintf(program_output, "%-24s %10zu\n", "documents", r->documents);
    fprintf(program_output, "%-24s %10zu\n", "queries", r->queries);
    fprintf(program_output, "%-24s %10s\n", "compute", r->compute);
    return finish_output();
}

/* A correlation that is not defined, because all scores are equal, is NaN and becomes null. */
static void print_figure(const char *key, double value) {
    if (value == value)
        fprintf(program_output, ",\"%s\":%.9g", key, value);
    else
        fprintf(program_output, ",\"%s\":null", key);
}

static int print_json(const struct sts_result *r) {
    fprintf(program_output, "{\"pairs\":%zu,\"compute\":\"%s\",\"kernels\":\"%s\"", r->pairs,
            r->compute, r->kernels);
    print_figure("spearman", r->spearman);
    print_figure("pearson", r->pearson);
    print_figure("reference_spearman", r->reference_spearman);
    print_figure("reference_pearson", r->reference_pearson);
    print_figure("mean_cosine", r->mean_cosine);
    print_figure("first_percentile_cosine", r->low_cosine);
    print_figure("min_cosine", r->least_cosine);
    fputs("}\n", program_output);
    return finish_output();
}

static int evaluate_sts(int argc, char **argv) {
    struct arguments a = {0};
    struct sts_result result;
    int code;
    if (!take_options(&this_command, &a, argc, argv, &code))
        return code;
    if (a.of_ppl || a.of_mmlu)
        return refuse(a.of_ppl ? a.of_ppl : a.of_mmlu, a.of_ppl ? "ppl" : "mmlu");
    code = sts_evaluate(&a.model, data_of(&a), &result);
    if (code != EXIT_GOOD)
        return code;
    return a.json ? print_json(&result) : print_table(&result);
}

static int evaluate_ppl(int argc, char **argv) {
    struct arguments a = {.model = {.generates = true}};
    struct ppl_result r;
    int code;
    if (!take_options(&this_command, &a, argc, argv, &code))
        return code;
    if (a.of_mmlu)
        return refuse(a.of_mmlu, "mmlu");
    code = ppl_evaluate(&a.model, data_of(&a), a.context, a.stride, &r);
    if (code != EXIT_GOOD)
        return code;
    if (a.json) {
        fprintf(program_output,
                "{\"context\":%zu,\"chunks\":%zu,\"tokens\":%zu,\"bytes\":%zu,\"compute\":\"%s\","
                "\"kernels\":\"%s\"",
                r.context, r.chunks, r.tokens, r.bytes, r.compute, r.kernels);
        print_figure("perplexity", r.perplexity);
        print_figure("standard_error", r.standard_error);
        print_figure("bits_per_byte", r.bits_per_byte);
        fputs("}\n", program_output);
        return finish_output();
    }
    fprintf(program_output, "%-24s %10.4f +/- %.4f\n", "perplexity", r.perplexity,
            r.standard_error);
    fprintf(program_output, "%-24s %10.4f\n", "bits per byte", r.bits_per_byte);
    fprintf(program_output, "%-24s %10zu of %zu\n", "chunks", r.chunks, r.context);
    fprintf(program_output, "%-24s %10zu\n", "tokens predicted", r.tokens);
    fprintf(program_output, "%-24s %10s\n", "compute", r.compute);
    return finish_output();
}

static int evaluate_mmlu(int argc, char **argv) {
    struct arguments a = {.model = {.generates = true}, .mmlu.shots = 5};
    int code;
    if (!take_options(&this_command, &a, argc, argv, &code))
        return code;
    if (a.of_ppl)
        return refuse(a.of_ppl, "ppl");
    if (strcmp(data_of(&a), "-") == 0)
        return ask_for_folder("mmlu", "questions");
    a.mmlu.json = a.json;
    return mmlu_evaluate(&a.model, a.data, &a.mmlu);
}

static int evaluate_retrieval(int argc, char **argv) {
    struct arguments a = {0};
    struct retrieval_result r;
    int code;
    if (!take_options(&this_command, &a, argc, argv, &code))
        return code;
    if (a.of_ppl || a.of_mmlu)
        return refuse(a.of_ppl ? a.of_ppl : a.of_mmlu, a.of_ppl ? "ppl" : "mmlu");
    if (strcmp(data_of(&a), "-") == 0)
        return ask_for_folder("retrieval", "documents");
    code = retrieval_evaluate(&a.model, a.data, &r);
    if (code != EXIT_GOOD || !a.json)
        return code != EXIT_GOOD ? code : print_retrieval(&r);
    fprintf(program_output,
            "{\"documents\":%zu,\"queries\":%zu,\"compute\":\"%s\",\"kernels\":\"%s\"", r.documents,
            r.queries, r.compute, r.kernels);
    print_figure("ndcg_at_10", r.model.ndcg);
    print_figure("recall_at_10", r.model.recall);
    print_figure("reference_ndcg_at_10", r.reference.ndcg);
    print_figure("reference_recall_at_10", r.reference.recall);
    fputs("}\n", program_output);
    return finish_output();
}

int command_eval(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*evaluate)(int argc, char **argv);
    } measures[] = {{"sts", evaluate_sts},
                    {"ppl", evaluate_ppl},
                    {"mmlu", evaluate_mmlu},
                    {"retrieval", evaluate_retrieval}};
    for (size_t i = 0; argc >= 2 && i < sizeof measures / sizeof *measures; i++)
        if (strcmp(argv[1], measures[i].name) == 0)
            return measures[i].evaluate(argc - 1, argv + 1);
    if (argc >= 2 && asks_for_help(argv[1]))
        return evaluate_sts(argc, argv);
    complain("eval: say what to evaluate: sts, ppl, mmlu or retrieval (see wisp eval --help)");
    return EXIT_USAGE;
}
