/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cosine.h"
#include "cli/calibrate_attention.h"
#include "cli/calibrate_report.h"
#include "cli/gates_report.h"
#include "cli/hub_models.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/report_files.h"
#include "cli/sample.h"

static const char usage[] =
    "usage: wisp calibrate MODEL --data FILE|- -o OUTPUT [OPTION]...\n"
    "\n"
    "Makes a model sparse. Runs it on texts like those it will embed, one on each line, learns\n"
    "which neurons matter to which tokens, and writes the model with a predictor of these "
    "neurons.\n"
    "wisp embed then skips the others. Every eighth text is held out for measuring.\n"
    "\n"
    "For a model that generates, it writes thresholds for the gates of neurons (wisp generate\n"
    "--predictor gate) and reports how many neurons are active; with --rank it also writes\n"
    "predictors (--predictor lowrank). The default of --sparsity is 0.5. Such a model does not "
    "take\n"
    "the options --one-sparsity, --sentence, --hot, --hot-bytes and --hot-tokens.\n"
    "\n"
    "With --attention a model that generates learns instead what its attention may leave out in\n"
    "texts like these, which are read as one: wisp generate --attention auto or learned.\n"
    "\n";

enum { MOST_SAMPLES = 1000000 };

struct arguments {
    const char *model, *data, *output, *report, *predictor_type;
    unsigned long samples, tokens, rank, seed, threads, hot_tokens;
    unsigned long long hot_bytes;
    double sparsity, hot;
    bool sentence, one_sparsity, force, json, attention;
    const char *of_neurons, *of_attention; /* names of options that are for one thing only */
    unsigned long window, windows, needles;
    double loss, bound;
    const char *cache_type;
};

#define ARGUMENTS struct arguments

static const struct command_option options[] = {
    OPTION(TEXT, data, "data", 0, "FILE|-", "the texts"),
    OPTION(TEXT, output, "output", 'o', "OUTPUT",
           "the GGUF file to write; it appears complete or not at all"),
    COUNT(samples, 1, MOST_SAMPLES, "samples", 0, "N",
          "use N of the texts, chosen at random (default: 4000; with\n"
          "--attention: all)"),
    MARKED(of_neurons, COUNT, tokens, 1, 1 << 24, "tokens", 0, "N",
           "use at most N of their tokens (default: 32768)"),
    MARKED(of_neurons, COUNT, rank, 1, 1 << 16, "rank", 0, "R",
           "rank of the predictors, a multiple of 32 (default: a third of\n"
           "hidden_size, at most 256; for a model that generates no\n"
           "predictors)"),
    MARKED(of_neurons, SHARE, sparsity, 0, 0, "sparsity", 0, "SHARE",
           "the model's default share of neurons to skip (default: 0.84 with\n"
           "ReLU, else 0.7)"),
    MARKED(of_neurons, TEXT, predictor_type, 0, 0, "predictor-type", 0, "T",
           "type of the predictors in the file: f32, q8_0 (default) or q4_0"),
    MARKED(of_neurons, NONE, one_sparsity, 0, 0, "one-sparsity", 0, NULL,
           "keep the thresholds of this share only: a smaller file, but wisp embed\n"
           "--sparsity cannot set another"),
    MARKED(of_neurons, NONE, sentence, 0, 0, "sentence", 0, NULL,
           "add predictors that choose once for a whole text: see\n"
           "wisp embed --predictor sentence"),
    MARKED(of_neurons, SHARE, hot, 0, 0, "hot", 0, "SHARE",
           "which neurons are stored at the beginning of the file: see\n"
           "wisp convert --help (default: 0.9)"),
    MARKED(of_neurons, BYTES, hot_bytes, 0, 0, "hot-bytes", 0, "BYTES", "likewise"),
    MARKED(of_neurons, COUNT, hot_tokens, 1, UINT32_MAX, "hot-tokens", 0, "N",
           "which tokens are stored there: see wisp convert --help (default: all)"),
    COUNT(seed, 0, 1ul << 31, "seed", 0, "N", "seed of the random choices (default: 1)"),
    MARKED(of_neurons, TEXT, report, 0, 0, "report", 0, "BASE",
           "write the results to BASE.json and BASE.svg"),
    OPTION(NONE, attention, "attention", 0, NULL,
           "find what attention may leave out: a mask for each head (learned),\n"
           "and the policy that reads least (auto)"),
    MARKED(of_attention, COUNT, window, 256, UINT32_MAX, "window", 0, "N",
           "tokens of each text that is read (default: 4096, or as many as\n"
           "the model and the texts allow)"),
    MARKED(of_attention, COUNT, windows, 1, 64, "windows", 0, "N",
           "learn from N such texts, and measure on N others (default: 2)"),
    MARKED(of_attention, COUNT, needles, 1, 16, "needles", 0, "N",
           "hide N sentences, which are looked for (default: 6)"),
    MARKED(of_attention, SHARE, loss, 0, 0, "loss", 0, "SHARE",
           "of perplexity that auto may cost (default: 0.01)"),
    MARKED(of_attention, SHARE, bound, 0, 0, "bound", 0, "SHARE",
           "of a head's output that learned may change (default: 0.1)"),
    MARKED(of_attention, TEXT, cache_type, 0, 0, "cache-type", 0, "TYPE",
           "of keys and values: f32, f16, int8 or auto (default)"),
    COUNT(threads, 1, 1024, "threads", 't', "N",
          "threads to compute with (default: those that it may keep busy)"),
    MARKED(of_neurons, NONE, json, 0, 0, "json", 0, NULL, "print the report as a JSON object"),
    OPTION(NONE, force, "force", 'f', NULL, "replace existing files of other kinds"),
    LAST_OPTION,
};

static const struct command_line this_command = {
    usage, options, 25,
    "\n"
    "Example:\n"
    "  wisp calibrate model.gguf --data texts.txt --output sparse.gguf\n"
    "\n"
    "wisp convert --plain removes what was added. Exit codes: see wisp embed --help.\n",
    NULL};

/* ---- held-out texts, end to end ------------------------------------------------------------- */

enum { HELD_OUT_EVERY = 8, MOST_MEASURED = 1000 }; /* every eighth, as wisp.h says */

/* Sets *rows to the embeddings [n, *dimensions] of the texts, which the caller frees. Returns an
 * exit code, after complaining if it is not EXIT_GOOD; *rows is NULL then. */
static int embed_with(const char *path, const wisp_model_options *o, unsigned long threads,
                      const wisp_text *texts, size_t n, size_t *dimensions, float **rows) {
    const wisp_session_options session_options = {.threads = (uint32_t)threads};
    wisp_model *model = NULL;
    wisp_session *session = NULL;
    wisp_error error;
    int code = EXIT_GOOD;
    *rows = NULL;
    wisp_status status = wisp_model_open(path, o, &model, &error);
    if (status == WISP_OK)
        status = wisp_session_open(model, &session_options, &session, &error);
    if (status == WISP_OK) {
        *dimensions = wisp_model_dimensions(model);
        *rows = calloc(n + 1, *dimensions * sizeof **rows);
        watch_signals(session);
        if (!*rows)
            code = complain_of_memory();
        else if (was_interrupted()) /* before the session could be told */
            code = EXIT_INTERRUPTED;
        else
            status = wisp_embed(session, texts, n, NULL, *rows, &error);
        watch_signals(NULL);
    }
    if (status != WISP_OK)
        code = complain_of(&error);
    if (code != EXIT_GOOD) {
        free(*rows);
        *rows = NULL;
    }
    wisp_session_close(session);
    wisp_model_close(model);
    return code;
}

static struct nearness compare(const float *rows, const float *reference, size_t n, size_t size) {
    struct nearness near = {.least = 1};
    for (size_t i = 0; i < n; i++) {
        const double c = cosine(rows + i * size, reference + i * size, size);
        near.mean += c / (double)n;
        near.least = fmin(near.least, c);
    }
    return near;
}

static int measure(const struct arguments *a, const struct sample *texts,
                   struct calibration_report *report) {
    static const wisp_predictor predictors[] = {WISP_PREDICTOR_DENSE, WISP_PREDICTOR_DENSE,
                                                WISP_PREDICTOR_LOWRANK, WISP_PREDICTOR_SENTENCE};
    struct nearness *const found[] = {NULL, &report->dense, &report->lowrank, &report->sentence};
    const int used = a->sentence ? 4 : 3;
    wisp_text held_out[MOST_MEASURED];
    float *rows[4] = {NULL};
    size_t n = 0, size = 0;
    for (size_t i = HELD_OUT_EVERY - 1; i < texts->n && n < MOST_MEASURED; i += HELD_OUT_EVERY)
        held_out[n++] = texts->text[i];
    int code = EXIT_GOOD;
    for (int i = 0; i < used && code == EXIT_GOOD; i++) {
        const wisp_model_options o = {.compute = i > 0 ? WISP_COMPUTE_INT8 : WISP_COMPUTE_F32,
                                      .predictor = predictors[i]};
        code = embed_with(a->output, &o, a->threads, held_out, n, &size, &rows[i]);
    }
    report->held_out_texts = n;
    for (int i = 1; i < used && rows[0] && rows[i]; i++)
        *found[i] = compare(rows[i], rows[0], n, size);
    for (int i = 0; i < used; i++)
        free(rows[i]);
    return code;
}

/* ---- the whole ------------------------------------------------------------------------------ */

struct run {
    struct calibration_report report;
    struct gates_report gates; /* in its place for models that generate */
    struct progress progress;
    const char *stage;
    bool out_of_memory;
};

static void show_progress(void *context, const char *stage, size_t done, size_t total) {
    struct run *run = context;
    if (run->stage != stage) {
        progress_end(&run->progress);
        progress_start(&run->progress, stage);
        run->stage = stage;
    }
    progress_show(&run->progress, done, total ? (double)done / (double)total : -1);
}

static bool is_cancelled(void *context) {
    (void)context;
    return was_interrupted();
}

static void keep_layer(void *context, uint32_t layer, const wisp_calibrated_layer *found) {
    struct run *run = context;
    wisp_calibrated_layer *moved =
        realloc(run->report.layer, (layer + 1) * sizeof *run->report.layer);
    if (!moved) {
        run->out_of_memory = true;
        return;
    }
    run->report.layer = moved;
    moved[layer] = *found;
    run->report.rank = found->rank;
    run->report.sparsity = (double)found->sparsity;
    moved[layer].frequency = moved[layer].magnitude = NULL;
    run->report.layers = layer + 1;
}

static void keep_gates(void *context, uint32_t layer, const wisp_calibrated_gates *found) {
    struct run *run = context;
    (void)layer;
    if (!gates_report_add(&run->gates, found))
        run->out_of_memory = true;
}

/* Measures, prints and writes what was found. */
static int tell(const struct arguments *a, const struct sample *texts, struct run *run) {
    const bool generates = run->gates.layers > 0;
    run->gates.predictors = run->report.layer;
    int code = generates ? EXIT_GOOD : measure(a, texts, &run->report);
    if (code != EXIT_GOOD)
        return code;
    if (a->json && generates)
        gates_report_put_json(program_output, &run->gates);
    else if (a->json)
        report_put_json(program_output, &run->report);
    else if (generates)
        gates_report_print(&run->gates);
    else
        report_print(&run->report);
    code = finish_output();
    if (code != EXIT_GOOD || !a->report)
        return code;
    return generates ? gates_report_write(&run->gates, a->report)
                     : report_write(&run->report, a->report);
}

static int run_calibrate(const struct arguments *a, const struct sample *texts) {
    struct run run = {.report = {.texts = texts->n, .has_sentence = a->sentence},
                      .gates = {.texts = texts->n}};
    const wisp_calibrate_options o = {.rank = (uint32_t)a->rank,
                                      .sparsity = (float)a->sparsity,
                                      .predictor_type = a->predictor_type,
                                      .sentence = a->sentence,
                                      .one_sparsity = a->one_sparsity,
                                      .hot = (float)a->hot,
                                      .hot_bytes = a->hot_bytes,
                                      .hot_tokens = a->hot_tokens,
                                      .tokens = a->tokens,
                                      .seed = a->seed,
                                      .threads = (uint32_t)a->threads,
                                      .context = &run,
                                      .progress = show_progress,
                                      .cancelled = is_cancelled,
                                      .layer = keep_layer,
                                      .gates = keep_gates};
    const double start = clock_seconds();
    wisp_error error;
    const wisp_status status =
        wisp_calibrate(a->model, a->output, texts->text, texts->n, &o, &error);
    progress_end(&run.progress);
    int code = status == WISP_OK ? EXIT_GOOD : complain_of(&error);
    if (code == EXIT_GOOD && run.out_of_memory)
        code = complain_of_memory();
    run.report.seconds = run.gates.seconds = clock_seconds() - start;
    if (code == EXIT_GOOD)
        code = tell(a, texts, &run);
    gates_report_release(&run.gates);
    free(run.report.layer);
    return code;
}

/* Calibrates attention alone. */
static int run_attention(const struct arguments *a, const struct sample *texts) {
    wisp_calibrate_attention_options o = {.window = (uint32_t)a->window,
                                          .windows = (uint32_t)a->windows,
                                          .needles = (uint32_t)a->needles,
                                          .loss = (float)a->loss,
                                          .bound = (float)a->bound,
                                          .threads = (uint32_t)a->threads};
    if (a->cache_type && !wisp_cache_type_find(a->cache_type, &o.cache_type))
        return complain_of_name("cache-type", a->cache_type, wisp_cache_type_name);
    return calibrate_attention(a->model, a->output, texts->text, texts->n, &o);
}

/* Complains of an option that is not for what is calibrated. */
static bool check_options(const struct arguments *a) {
    const char *other = a->attention ? a->of_neurons : a->of_attention;
    if (!other)
        return true;
    complain("calibrate: --%s is %s --attention", other, a->attention ? "not for" : "for");
    return false;
}

int command_calibrate(int argc, char **argv) {
    enum { DEFAULT_SAMPLES = 4000 };
    struct arguments a = {.seed = 1, .threads = wisp_usable_threads()};
    struct sample texts = {0};
    int code;
    if (!take_options(&this_command, &a, argc, argv, &code))
        return code;
    if (argc - optind != 1 || !a.data || !a.output) {
        complain("calibrate: give one model, --data and --output (see --help)");
        return EXIT_USAGE;
    }
    a.model = argv[optind];
    if (!check_path("model", a.model) || !check_options(&a))
        return EXIT_USAGE;
    if (a.samples == 0)
        a.samples = a.attention ? MOST_SAMPLES : DEFAULT_SAMPLES;
    watch_signals(NULL);
    code = check_output("--output", a.output, OUTPUT_MODEL, a.force);
    if (code == EXIT_GOOD && a.report)
        code = report_files_check(a.report, a.force);
    if (code == EXIT_GOOD)
        code = sample_read(a.data, a.samples, a.seed, &texts);
    char found[PATH_MAX];
    wisp_error error;
    if (code == EXIT_GOOD &&
        find_model(a.model, HUB_FOLDER_FIRST, false, found, &a.model, &error) != WISP_OK)
        code = complain_of(&error);
    if (code == EXIT_GOOD)
        code = a.attention ? run_attention(&a, &texts) : run_calibrate(&a, &texts);
    sample_release(&texts);
    return code;
}
