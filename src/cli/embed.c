/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/remote.h"

static const char help[] =
    "usage: wisp embed [OPTION]... [FILE | - | --text TEXT]...\n"
    "\n"
    "Embeds each line of the files, or of standard input, as a text. Writes a record for each\n"
    "text, in order, as soon as it is ready.\n"
    "\n"
    "      --text TEXT        embed this text (may be given more than once)\n"
    "      --input FORMAT     lines (default), or ndjson: each line is a JSON string, or an "
    "object\n"
    "                         whose \"text\" is embedded and whose other fields are kept; blank\n"
    "                         lines are skipped\n"
    "      --format FORMAT    text (default): a line of numbers for each text; json: one array of\n"
    "                         arrays; ndjson: objects with \"embedding\"; npy; f32: raw\n"
    "                         little-endian floats\n"
    "      --prompt NAME      put this prompt of the model before each text (default: the model's\n"
    "                         default prompt)\n"
    "      --prompt-text TEXT put TEXT before each text\n"
    "      --dimensions N     keep the first N values of each embedding, normalised "
    "again\n" MODEL_HELP "      --cold MODE        of a calibrated model, cold neurons, those that "
    "are needed seldom: all\n"
    "                         (default) are read with the model; with wait each is read from the\n"
    "                         file, or fetched from its server, when a text needs it, and\n"
    "                         embeddings are the same; with skip they are left out, and the "
    "number\n"
    "                         is printed\n"
    "      --memory BYTES     with --cold wait: what the model may take, such as 15M; cold "
    "neurons\n"
    "                         that are used seldom are given up for others\n"
    "      --stats            at the end, print totals and the time of each stage to stderr\n"
    "      --recall           as --stats, and the recall of sparse layers: the share of the "
    "needed\n"
    "                         neurons that were computed. Slower than dense layers\n"
    "      --trace FILE       write the time of each stage of each batch as Chrome trace JSON for\n"
    "                         chrome://tracing or Perfetto\n"
    "  -h, --help             this text\n"
    "\n"
    "Exit code: 0 done, 1 reading or writing failed, 2 wrong usage, 3 the model cannot be used,\n"
    "4 a line of the input is malformed, 130 interrupted, 141 the output was closed.\n";

enum {
    OPTION_TEXT = 256,
    OPTION_INPUT,
    OPTION_FORMAT,
    OPTION_PROMPT,
    OPTION_PROMPT_TEXT,
    OPTION_DIMENSIONS,
    OPTION_STATS,
    OPTION_RECALL,
    OPTION_TRACE,
    OPTION_COLD,
    OPTION_MEMORY
};

struct arguments {
    struct model_arguments model;
    struct input input;
    enum output_format format;
    struct prompt_choice prompt;
    const char *trace; /* the file, or NULL */
    unsigned long dimensions;
    bool stats;
    bool help;
};

static int take_option(struct arguments *a, int option, const char *value) {
    int code = EXIT_GOOD;
    switch (option) {
    case OPTION_TEXT:
        input_add(&a->input, NULL, value);
        return EXIT_GOOD;
    case OPTION_INPUT:
        return input_take_format(&a->input, value);
    case OPTION_FORMAT:
        return output_format_of(value, &a->format)
                   ? EXIT_GOOD
                   : complain_of_choice("format", value, "text, json, ndjson, npy, f32");
    case OPTION_PROMPT:
        a->prompt.name = value;
        return EXIT_GOOD;
    case OPTION_PROMPT_TEXT:
        a->prompt.text = value;
        return EXIT_GOOD;
    case OPTION_DIMENSIONS:
        return parse_count("dimensions", value, 1 << 20, &a->dimensions) ? EXIT_GOOD : EXIT_USAGE;
    case OPTION_STATS:
        a->stats = true;
        return EXIT_GOOD;
    case OPTION_RECALL:
        a->stats = true;
        a->model.recall = true;
        return EXIT_GOOD;
    case OPTION_COLD:
        a->model.hot_only = strcmp(value, "all") != 0;
        a->model.skip_absent = strcmp(value, "skip") == 0;
        return !a->model.hot_only || a->model.skip_absent || strcmp(value, "wait") == 0
                   ? EXIT_GOOD
                   : complain_of_choice("cold", value, "all, wait, skip");
    case OPTION_MEMORY:
        return parse_bytes("memory", value, &a->model.memory) ? EXIT_GOOD : EXIT_USAGE;
    case OPTION_TRACE:
        a->trace = value;
        a->model.trace = true;
        return EXIT_GOOD;
    case 'h':
        a->help = true;
        return EXIT_GOOD;
    default:
        return take_model_option(&a->model, option, value, &code) ? EXIT_GOOD : code;
    }
}

static const struct option options[] = {
    {"text", required_argument, NULL, OPTION_TEXT},
    {"input", required_argument, NULL, OPTION_INPUT},
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"prompt", required_argument, NULL, OPTION_PROMPT},
    {"prompt-text", required_argument, NULL, OPTION_PROMPT_TEXT},
    {"dimensions", required_argument, NULL, OPTION_DIMENSIONS},
    {"stats", no_argument, NULL, OPTION_STATS},
    {"recall", no_argument, NULL, OPTION_RECALL},
    {"trace", required_argument, NULL, OPTION_TRACE},
    {"cold", required_argument, NULL, OPTION_COLD},
    {"memory", required_argument, NULL, OPTION_MEMORY},
    MODEL_OPTIONS,
    {"help", no_argument, NULL, 'h'},
    {0}};

/* A "-" at the beginning of getopt's option string makes it return arguments that are no options as
 * option 1, in their order. */
static int parse(struct arguments *a, int argc, char **argv) {
    int option;
    while ((option = getopt_long(argc, argv, "-m:t:h", options, NULL)) != -1) {
        if (option == 1) {
            input_add(&a->input, optarg, NULL);
            continue;
        }
        const int code = take_option(a, option, optarg);
        if (code != EXIT_GOOD)
            return code;
    }
    for (; optind < argc; optind++) /* after "--" */
        input_add(&a->input, argv[optind], NULL);
    if (a->input.n_items == 0)
        input_add(&a->input, "-", NULL);
    if (a->model.memory > 0 && (!a->model.hot_only || a->model.skip_absent)) {
        complain("--memory: only with --cold wait");
        return EXIT_USAGE;
    }
    return EXIT_GOOD;
}

static double percentage(uint64_t part, uint64_t whole) {
    return whole > 0 ? 100 * (double)part / (double)whole : 100;
}

static void print_layers(const wisp_session *session) {
    wisp_layer_stats s;
    for (uint32_t l = 0; wisp_session_get_layer_stats(session, l, &s); l++) {
        fprintf(stderr, "layer %u: %llu tokens, feed forward %.3f s", l,
                (unsigned long long)s.tokens, s.seconds);
        if (s.tokens > 0)
            fprintf(stderr, ", %.1f %% of the neurons computed, %.1f %% contributed",
                    percentage(s.computed, s.neurons), percentage(s.contributing, s.neurons));
        if (s.compared > 0)
            fprintf(stderr, "; %.1f %% needed: recall %.1f %%, precision %.1f %%",
                    percentage(s.needed, s.neurons), percentage(s.found, s.needed),
                    percentage(s.found, s.compared));
        fputc('\n', stderr);
    }
}

static void print_cold(const wisp_model *model) {
    wisp_cold_stats s;
    if (!wisp_model_get_cold_stats(model, &s))
        return;
    fprintf(stderr,
            "neurons in memory: hot %llu bytes (%llu of %llu neurons), warm %llu bytes (at most "
            "%llu), of cold %llu; ",
            (unsigned long long)s.hot_bytes, (unsigned long long)s.hot_neurons,
            (unsigned long long)s.neurons, (unsigned long long)s.warm_bytes,
            (unsigned long long)s.most_warm_bytes, (unsigned long long)s.cold_bytes);
    fprintf(
        stderr,
        "%llu hits, %llu misses, %llu evictions of 64; %llu reads, %llu bytes read; %llu neurons "
        "came along with others (%llu were used later, %llu given up unused); always in memory "
        "%llu bytes\n",
        (unsigned long long)s.hits, (unsigned long long)s.misses, (unsigned long long)s.evictions,
        (unsigned long long)s.ranges, (unsigned long long)s.range_bytes,
        (unsigned long long)s.prefetched, (unsigned long long)s.prefetched_used,
        (unsigned long long)s.prefetched_wasted, (unsigned long long)s.least_memory);
}

static void print_stats(const wisp_session *session, double seconds) {
    wisp_stats stats;
    double total = 0;
    wisp_session_get_stats(session, &stats);
    fprintf(stderr,
            "%llu texts (%llu truncated), %llu tokens in %.3f s: %.0f texts/s, %.0f tokens/s; "
            "workspace %.1f MB; over all threads:\n",
            (unsigned long long)stats.texts, (unsigned long long)stats.truncated_texts,
            (unsigned long long)stats.tokens, seconds, (double)stats.texts / seconds,
            (double)stats.tokens / seconds, (double)stats.workspace_bytes / 1e6);
    for (size_t i = 0; i < WISP_STAGES; i++)
        total += stats.stage_seconds[i];
    for (size_t i = 0; i < WISP_STAGES; i++)
        fprintf(stderr, "%-16s %9.3f s %5.1f %%\n", wisp_stage_name(i), stats.stage_seconds[i],
                total > 0 ? 100 * stats.stage_seconds[i] / total : 0);
    print_layers(session);
}

static int write_trace(const struct arguments *a, const wisp_session *session) {
    wisp_error error;
    if (wisp_session_write_trace(session, a->trace, &error) == WISP_OK)
        return EXIT_GOOD;
    return complain_of(&error);
}

struct run {
    struct arguments *arguments;
    wisp_session *session;
    wisp_embed_options options;
    struct output output;
    struct batch *batch;
    float *rows; /* [BATCH_RECORDS, dimensions] */
    struct progress progress;
    uint64_t skipped[BATCH_RECORDS], all_skipped; /* neurons, with --cold skip */
};

static int embed_batch(struct run *run) {
    wisp_error error;
    const struct batch *batch = run->batch;
    struct remote_model *remote = run->arguments->model.remote;
    const wisp_status status = remote->active
                                   ? remote_embed(remote, run->session, batch->texts, batch->n,
                                                  &run->options, run->rows, &error)
                                   : wisp_embed_from_file(run->session, batch->texts, batch->n,
                                                          &run->options, run->rows, &error);
    if (status != WISP_OK)
        return complain_of(&error);
    for (size_t i = 0; run->options.skipped && i < run->batch->n; i++)
        run->all_skipped += run->skipped[i];
    const int code = output_rows(&run->output, run->batch, run->rows);
    progress_show(&run->progress, run->output.rows, input_fraction(&run->arguments->input));
    return code;
}

/* Embeds all batches. Lines before a malformed one are embedded and written, too. */
static int embed_all(struct run *run) {
    int code;
    do {
        code = input_next(&run->arguments->input, run->batch);
        if (run->batch->n > 0 && !was_interrupted()) {
            const int embedded = embed_batch(run);
            code = embedded != EXIT_GOOD ? embedded : code;
        }
    } while (code == EXIT_GOOD && run->batch->n > 0);
    return code;
}

static int run_embed(struct arguments *a, const wisp_model *model, wisp_session *session) {
    const size_t dimensions = a->dimensions ? a->dimensions : wisp_model_dimensions(model);
    struct run run = {.arguments = a, .session = session, .options.dimensions = dimensions};
    int code = choose_prompt(model, &a->prompt, &run.options.prompt);
    if (code == EXIT_GOOD && a->trace)
        code = check_output("--trace", a->trace);
    if (code != EXIT_GOOD)
        return code;
    if (a->model.skip_absent)
        run.options.skipped = run.skipped;
    run.batch = calloc(1, sizeof *run.batch);
    run.rows = calloc(BATCH_RECORDS, dimensions * sizeof *run.rows);
    if (!run.batch || !run.rows) {
        code = complain_of_memory();
    } else {
        code = output_open(&run.output, a->format, dimensions);
    }
    if (code == EXIT_GOOD) {
        progress_start(&run.progress, "texts");
        const double start = run.progress.started;
        code = embed_all(&run);
        progress_end(&run.progress);
        const int closed = output_close(&run.output);
        code = code == EXIT_GOOD ? closed : code;
        if (a->stats)
            print_stats(session, clock_seconds() - start);
        if (a->stats)
            print_cold(model);
        if (a->model.skip_absent)
            fprintf(stderr, "wisp: %llu neurons were skipped, over all tokens and layers\n",
                    (unsigned long long)run.all_skipped);
        if (a->trace && code == EXIT_GOOD)
            code = write_trace(a, session);
    }
    if (run.batch)
        arena_release(&run.batch->arena);
    free(run.batch);
    free(run.rows);
    return code;
}

/* Makes freed weights go back to the system at once. Otherwise glibc raises its bound for that to
 * the size of blocks that were freed, and each thread keeps the weights of layers that it freed. */
static void give_memory_back(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
#endif
}

int command_embed(int argc, char **argv) {
    struct remote_model remote = {0};
    struct arguments a = {.prompt.option = "prompt", .model.remote = &remote};
    wisp_model *model = NULL;
    wisp_session *session = NULL;
    if (!input_open(&a.input, (size_t)argc))
        return EXIT_FAILED;
    int code = parse(&a, argc, argv);
    if (a.model.memory > 0)
        give_memory_back();
    if (code == EXIT_GOOD && a.help)
        fputs(help, program_output);
    else if (code == EXIT_GOOD)
        code = open_model(&a.model, &model, &session);
    if (code == EXIT_GOOD && session) {
        watch_signals(session);
        code = run_embed(&a, model, session);
        watch_signals(NULL);
    }
    wisp_session_close(session);
    wisp_model_close(model);
    remote_close(&remote);
    input_close(&a.input);
    return code;
}
