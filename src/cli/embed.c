/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/byte_order.h"
#include "base/clock.h"
#include "cli/bulk.h"
#include "cli/cli.h"
#include "cli/images.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/prompt.h"
#include "cli/remote.h"

static const char usage[] =
    "usage: wisp embed [OPTION]... [FILE | - | --text TEXT]...\n"
    "       wisp embed --images [OPTION]... [FILE | FOLDER | -]...\n"
    "\n"
    "Embeds each line of the files, or of standard input, as a text. Writes a record for each\n"
    "text, in order, as soon as it is ready. With --images it embeds images.\n"
    "\n";

struct arguments {
    struct model_arguments model;
    struct input input;
    enum output_format format;
    struct prompt_choice prompt;
    const char *trace; /* the file, or NULL */
    unsigned long dimensions;
    bool stats, images;
    struct bulk bulk;
};

static int take_format(void *field, const char *value) {
    return output_format_of(value, field)
               ? EXIT_GOOD
               : complain_of_choice("format", value,
                                    "text, json, ndjson, npy, f32, sparse, tokens");
}

static int take_cold(void *field, const char *value) {
    struct model_arguments *model = field;
    model->hot_only = strcmp(value, "all") != 0;
    model->skip_absent = strcmp(value, "skip") == 0;
    return !model->hot_only || model->skip_absent || strcmp(value, "wait") == 0
               ? EXIT_GOOD
               : complain_of_choice("cold", value, "all, wait, skip");
}

static int take_recall(void *arguments, const char *value) {
    (void)value;
    struct arguments *a = arguments;
    return a->stats = a->model.recall = true, EXIT_GOOD;
}

static int take_file(void *arguments, const char *path) {
    struct arguments *a = arguments;
    return input_add(&a->input, path, NULL), EXIT_GOOD;
}

#define ARGUMENTS struct arguments

static const struct command_option options[] = {
    TAKEN(input_take_text, input, "text", 0, "TEXT",
          "embed this text (may be given more than once)"),
    TAKEN(input_take_format, input, "input", 0, "FORMAT",
          "lines (default); ndjson: each line is a JSON string, or an object whose\n"
          "\"text\" is embedded and whose other fields are kept; csv or tsv: rows\n"
          "behind a header, whose other columns are kept, as strings. Blank lines\n"
          "are skipped, except with lines"),
    TAKEN(input_take_column, input, "column", 0, "NAME",
          "the column, or the member of objects, that is the text (default:\n"
          "text)"),
    OPTION(NONE, images, "images", 0, NULL,
           "embed images, by a model that has learned both (CLIP): each FILE is a\n"
           "PNG, JPEG, GIF, BMP or lossless WebP, or a folder of them. Lines of\n"
           "standard input, and the texts of --input, are paths. Photos are turned\n"
           "upright by their EXIF data. A bad image is treated as --keep-going\n"
           "treats a line"),
    TAKEN(take_format, format, "format", 0, "FORMAT",
          "text (default): a line of numbers for each text; json: one array of\n"
          "arrays; ndjson: objects with \"embedding\"; npy; f32: raw\n"
          "little-endian floats; sparse: ndjson whose \"embedding\" has the\n"
          "\"indices\" and \"values\" other than 0, for models of sparse vectors;\n"
          "tokens: ndjson whose \"embeddings\" has a vector for each token, for\n"
          "models of such vectors (ColBERT), of queries with --prompt query"),
    OPTION(TEXT, prompt.name, "prompt", 0, "NAME",
           "put this prompt of the model before each text (default: the model's\n"
           "default prompt)"),
    OPTION(TEXT, prompt.text, "prompt-text", 0, "TEXT", "put TEXT before each text"),
    COUNT(dimensions, 1, 1 << 20, "dimensions", 0, "N",
          "keep the first N values of each embedding, normalised again"),
    GROUP(model, model_options),
    GROUP(model, device_options),
    GROUP(model, vector_cache_options),
    TAKEN(take_cold, model, "cold", 0, "MODE",
          "how to treat the cold neurons of a calibrated model, which are rarely\n"
          "needed: all (default) reads them with the model; wait reads each from\n"
          "the file or its server when a text needs it, and gives the same\n"
          "embeddings; skip computes without them, and prints how many were\n"
          "skipped"),
    OPTION(BYTES, model.memory, "memory", 0, "BYTES",
           "with --cold wait: the most memory for the model, such as 15M; rarely\n"
           "used cold neurons are evicted"),
    OPTION(NONE, stats, "stats", 0, NULL,
           "at the end, print totals and the time of each stage to stderr"),
    TAKEN_BY_ALL(take_recall, NONE, "recall", 0, NULL,
                 "like --stats, with the recall of sparse layers: the share of the\n"
                 "needed neurons that were computed. Slower than dense layers"),
    OPTION(TEXT, trace, "trace", 0, "FILE",
           "write the time of each stage of each batch as Chrome trace JSON for\n"
           "chrome://tracing or Perfetto"),
    OPTION(TEXT, bulk.path, "output", 'o', "FILE",
           "write to this file, and the progress to FILE.progress, so that a killed\n"
           "run can be continued; unless stderr is a terminal, print the progress\n"
           "each minute"),
    OPTION(NONE, bulk.resume, "resume", 0, NULL,
           "continue the file of --output, or begin it if it does not exist; the\n"
           "result is the same as that of one run"),
    TAKEN(input_take_shard, input, "shard", 0, "I/N",
          "embed only texts I, I + N, I + 2 N, ... of the input, counted from 1"),
    OPTION(NONE, input.keep_malformed, "keep-going", 0, NULL,
           "do not end at a malformed line: it becomes an object with \"error\",\n"
           "null in json, or NaN for each number; the exit code is 4"),
    OPTION(NONE, bulk.force, "force", 'f', NULL,
           "replace the file of --output, or an existing trace of another kind"),
    LAST_OPTION,
};

static const struct command_line this_command = {
    usage, options, 25,
    "\n"
    "Examples:\n"
    "  wisp embed --text 'The cat sleeps on the sofa.'\n"
    "  wisp embed --format npy < sentences.txt > rows.npy\n"
    "  wisp embed --input csv --column title --format ndjson books.csv\n"
    "  wisp embed --input ndjson --format ndjson --output rows.ndjson --resume texts.ndjson\n"
    "  wisp embed --model hf:openai/clip-vit-base-patch32 --images --format ndjson photos/\n"
    "\n"
    "Exit code: 0 done, 1 reading or writing failed, 2 wrong usage, 3 the model cannot be used,\n"
    "4 a line or an image of the input is malformed, 130 interrupted, 141 the output was closed.\n",
    take_file};

/* Takes the files as images, and refuses options that only texts have. */
static int take_images(struct arguments *a) {
    const struct {
        const char *name;
        bool is_given;
    } options_of_texts[] = {{"prompt", a->prompt.name != NULL},
                            {"prompt-text", a->prompt.text != NULL},
                            {"vector-cache", a->model.vector_cache != NULL},
                            {"cold", a->model.hot_only},
                            {"stats", a->stats},
                            {"trace", a->trace != NULL}};
    for (size_t i = 0; i < sizeof options_of_texts / sizeof *options_of_texts; i++)
        if (options_of_texts[i].is_given) {
            complain("--%s: not with --images", options_of_texts[i].name);
            return EXIT_USAGE;
        }
    return images_take_files(&a->input);
}

static bool parse(struct arguments *a, int argc, char **argv, int *code) {
    if (!take_options(&this_command, a, argc, argv, code))
        return false;
    a->model.trace = a->trace != NULL;
    if (a->input.n_items == 0)
        input_add(&a->input, "-", NULL);
    if (a->model.memory > 0 && (!a->model.hot_only || a->model.skip_absent)) {
        complain("--memory: only with --cold wait");
        *code = EXIT_USAGE;
    }
    if (a->bulk.resume && !a->bulk.path) {
        complain("--resume: only with --output");
        *code = EXIT_USAGE;
    }
    if (a->bulk.path && a->format == OUTPUT_JSON) {
        complain("--output: a file of --format json cannot be continued: choose ndjson");
        *code = EXIT_USAGE;
    }
    if (*code == EXIT_GOOD)
        *code = check_caches(&a->model);
    if (*code == EXIT_GOOD && a->images)
        *code = take_images(a);
    return *code == EXIT_GOOD;
}

static double percentage(uint64_t part, uint64_t whole) {
    return whole > 0 ? 100 * (double)part / (double)whole : 100;
}

static void print_layers(const wisp_session *session) {
    wisp_layer_stats s;
    for (uint32_t l = 0; wisp_session_get_layer_stats(session, l, &s); l++) {
        fprintf(stderr, "layer %u: %llu tokens, feed-forward %.3f s", l,
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
    fprintf(stderr,
            "%llu hits, %llu misses, %llu evictions of 64; %llu reads, %llu bytes read; %llu "
            "neurons were read along with others (%llu were used later, %llu evicted unused); "
            "always in "
            "memory %llu bytes\n",
            (unsigned long long)s.hits, (unsigned long long)s.misses,
            (unsigned long long)s.evictions, (unsigned long long)s.ranges,
            (unsigned long long)s.range_bytes, (unsigned long long)s.prefetched,
            (unsigned long long)s.prefetched_used, (unsigned long long)s.prefetched_wasted,
            (unsigned long long)s.least_memory);
}

static wisp_vector_cache_stats stats_of_vectors(const wisp_vector_cache *vectors) {
    wisp_vector_cache_stats s = {0};
    if (vectors)
        wisp_vector_cache_get_stats(vectors, &s);
    return s;
}

static void print_vectors(const wisp_vector_cache *vectors) {
    const wisp_vector_cache_stats s = stats_of_vectors(vectors);
    if (!vectors)
        return;
    fprintf(stderr, "vector cache: %llu texts found, %llu computed (%llu of them not kept)\n",
            (unsigned long long)s.found, (unsigned long long)s.computed,
            (unsigned long long)s.lost);
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

/* The first batch has few texts, so that the first results come soon. If rows come from a server,
 * each batch waits for it, and batches are large. */
enum { FIRST_RECORDS = 4 };

struct run {
    struct arguments *arguments;
    wisp_session *session;
    wisp_vector_cache *vectors; /* NULL: none */
    wisp_embed_options options;
    struct output output;
    struct batch *batch;
    float *rows;                  /* [BATCH_RECORDS, dimensions] */
    struct image_embedder images; /* with --images */
    struct progress progress;
    size_t faults;                                /* records without a text, or a good image */
    uint64_t skipped[BATCH_RECORDS], all_skipped; /* neurons, with --cold skip */
};

/* Embeds texts by the model, for wisp_vector_cache_embed. */
static wisp_status compute(void *context, const wisp_text *texts, size_t n,
                           const wisp_embed_options *how, float *rows, wisp_error *error) {
    struct run *run = context;
    struct remote_model *remote = run->arguments->model.remote;
    return remote->active ? remote_embed(remote, run->session, texts, n, how, rows, error)
                          : wisp_embed_from_file(run->session, texts, n, how, rows, error);
}

static int embed_texts(struct run *run, const wisp_text *texts, size_t n, float *rows) {
    wisp_error error;
    const wisp_status status = run->vectors
                                   ? wisp_vector_cache_embed(run->vectors, texts, n, &run->options,
                                                             compute, run, rows, &error)
                                   : compute(run, texts, n, &run->options, rows, &error);
    return status == WISP_OK ? EXIT_GOOD : complain_of(&error);
}

/* Makes the rows of records without a text NaN. */
static void mark_faults(struct run *run) {
    const size_t dimensions = run->output.dimensions;
    for (size_t i = 0; i < run->batch->n; i++)
        for (size_t d = 0; run->batch->records[i].fault && d < dimensions; d++)
            run->rows[i * dimensions + d] = NAN;
}

/* Embeds and writes a batch of texts as vectors of tokens. */
static int embed_vectors(struct run *run) {
    const char *prompt = run->arguments->prompt.name;
    const bool are_queries = prompt && strcmp(prompt, "query") == 0;
    wisp_token_vectors *vectors;
    wisp_error error;
    if (wisp_embed_tokens(run->session, run->batch->texts, run->batch->n, are_queries, &vectors,
                          &error) != WISP_OK)
        return complain_of(&error);
    const int code = output_vectors(&run->output, run->batch, vectors);
    wisp_token_vectors_close(vectors);
    return code;
}

static int embed_images(struct run *run) {
    struct batch *batch = run->batch;
    struct record *records[IMAGE_RECORDS];
    for (size_t i = 0; i < batch->n; i++)
        records[i] = &batch->records[i];
    const int code =
        images_embed(&run->images, batch, records, batch->n, run->options.dimensions, run->rows);
    for (size_t i = 0; i < batch->n; i++)
        run->faults += records[i]->image && records[i]->fault;
    return code;
}

static int embed_rows(struct run *run) {
    const struct batch *batch = run->batch;
    const int code = run->arguments->images ? embed_images(run)
                                            : embed_texts(run, batch->texts, batch->n, run->rows);
    if (code != EXIT_GOOD)
        return code;
    for (size_t i = 0; run->options.skipped && i < run->batch->n; i++)
        run->all_skipped += run->skipped[i];
    mark_faults(run);
    return output_rows(&run->output, batch, run->rows);
}

static int embed_batch(struct run *run) {
    const struct batch *batch = run->batch;
    struct arguments *a = run->arguments;
    int code = a->format == OUTPUT_TOKENS ? embed_vectors(run) : embed_rows(run);
    if (code == EXIT_GOOD && a->bulk.path)
        code = bulk_wrote(&a->bulk, batch);
    progress_show(&run->progress, run->output.rows, input_fraction(&a->input));
    return code;
}

/* Leaves out what the output has from an earlier run. */
static int skip_rows(struct run *run) {
    struct bulk *bulk = &run->arguments->bulk;
    if (!bulk->path || bulk->rows >= bulk->resumed)
        return EXIT_GOOD;
    const int code = bulk_skip(bulk, run->batch);
    progress_start(&run->progress, run->progress.what);
    run->progress.logs = true;
    run->progress.before = (size_t)bulk->rows;
    run->progress.before_part = input_fraction(&run->arguments->input);
    return code;
}

/* Reads and embeds a batch. *ended becomes true if there is none. */
static int take_batch(struct run *run, bool *ended) {
    struct batch *batch = run->batch;
    struct arguments *a = run->arguments;
    if (a->images)
        a->input.most = IMAGE_RECORDS;
    int code = input_next(&a->input, batch);
    if (code == EXIT_GOOD && a->images)
        code = images_name(batch);
    *ended = batch->n == 0;
    for (size_t i = 0; i < batch->n; i++)
        run->faults += batch->records[i].fault != NULL;
    int embedded = skip_rows(run);
    if (embedded == EXIT_GOOD && batch->n > 0 && !was_interrupted())
        embedded = embed_batch(run);
    return embedded != EXIT_GOOD ? embedded : code;
}

/* Embeds all batches. Lines before a malformed one are embedded and written, too. */
static int embed_all(struct run *run) {
    bool ended = false;
    int code = EXIT_GOOD;
    while (code == EXIT_GOOD && !ended)
        code = take_batch(run, &ended);
    if (code == EXIT_GOOD && run->arguments->bulk.path)
        code = bulk_check_end(&run->arguments->bulk);
    return code == EXIT_GOOD && run->faults > 0 ? EXIT_INPUT : code;
}

/* Writes a digest of the embeddings of some texts, or images, with the options of the run. It
 * differs if the rows of a file would. */
static int digest_model(struct run *run, char text[65]) {
    const wisp_text texts[] = {
        wisp_text_of("a"), wisp_text_of("The cat sat on the mat."),
        wisp_text_of("0 1 2 3 4 5 6 7 8 9, \xC3\xA9t\xC3\xA9; (x + y) = z?")};
    enum { TEXTS = sizeof texts / sizeof *texts };
    const size_t values = TEXTS * run->options.dimensions;
    struct sha256 hash;
    unsigned char digest[32];
    const int code = run->arguments->images
                         ? images_try(&run->images, TEXTS, run->options.dimensions, run->rows)
                         : embed_texts(run, texts, TEXTS, run->rows);
    swap_file_numbers(run->rows, values, sizeof *run->rows);
    sha256_start(&hash);
    sha256_add(&hash, run->rows, values * sizeof *run->rows);
    sha256_finish(&hash, digest);
    sha256_text(digest, text);
    return code;
}

static int open_bulk(struct run *run) {
    const struct arguments *a = run->arguments;
    struct bulk_settings settings;
    int code = input_check_output(&a->input, a->bulk.path);
    if (code == EXIT_GOOD)
        code = digest_model(run, settings.model);
    if (code != EXIT_GOOD)
        return code;
    snprintf(settings.format, sizeof settings.format, "%s", output_format_name(a->format));
    snprintf(settings.dimensions, sizeof settings.dimensions, "%zu", run->options.dimensions);
    snprintf(settings.shard, sizeof settings.shard, "%lu/%lu", a->input.shards ? a->input.shard : 1,
             a->input.shards ? a->input.shards : 1);
    return bulk_open(&run->arguments->bulk, &settings);
}

/* Checks that the format is one of what the model makes, and what else vectors of tokens ask for.
 */
static int check_tokens(const struct arguments *a, const wisp_model *model) {
    wisp_model_info info;
    wisp_model_get_info(model, &info);
    const bool makes = strcmp(info.pooling, "tokens") == 0, asks = a->format == OUTPUT_TOKENS;
    const char *name = a->prompt.name;
    if (makes != asks)
        complain(makes
                     ? "--format: this model makes a vector for each token, which only the format "
                       "tokens writes"
                     : "--format tokens: this model makes no vectors of tokens");
    else if (asks && (a->bulk.path || a->dimensions || a->prompt.text || a->model.remote->active))
        complain("--format tokens: not with --output, --dimensions, --prompt-text or an address");
    else if (asks && name && strcmp(name, "query") != 0 && strcmp(name, "document") != 0)
        complain("--prompt %s: with vectors of tokens only query and document", name);
    else
        return EXIT_GOOD;
    return EXIT_USAGE;
}

static int open_vectors(struct run *run) {
    const struct model_arguments *model = &run->arguments->model;
    wisp_error error;
    return !model->vector_cache || wisp_vector_cache_open(run->session, model->vector_cache,
                                                          model->vector_cache_size, &run->vectors,
                                                          &error) == WISP_OK
               ? EXIT_GOOD
               : complain_of(&error);
}

/* Refuses to write bytes to a terminal, which may act on them. */
static int check_terminal(enum output_format format) {
    if ((format != OUTPUT_NPY && format != OUTPUT_F32) || isatty(STDOUT_FILENO) != 1)
        return EXIT_GOOD;
    complain("--format %s: bytes are not for a terminal: write them to a file (> FILE, or --output "
             "FILE)",
             output_format_name(format));
    return EXIT_USAGE;
}

static int run_embed(void *arguments, const wisp_model *model, wisp_session *session) {
    struct arguments *a = arguments;
    const size_t dimensions = a->dimensions ? a->dimensions : wisp_model_dimensions(model);
    struct run run = {.arguments = a, .session = session, .options.dimensions = dimensions};
    int code = check_tokens(a, model);
    if (code == EXIT_GOOD)
        code = choose_prompt(model, &a->prompt, &run.options.prompt);
    if (code == EXIT_GOOD && !a->bulk.path)
        code = check_terminal(a->format);
    if (code == EXIT_GOOD && a->trace)
        code = check_output("--trace", a->trace, OUTPUT_REPORT, a->bulk.force);
    if (code != EXIT_GOOD)
        return code;
    if (a->model.skip_absent)
        run.options.skipped = run.skipped;
    if (!a->model.remote->active)
        a->input.most = FIRST_RECORDS;
    run.batch = calloc(1, sizeof *run.batch);
    run.rows = calloc(BATCH_RECORDS, dimensions * sizeof *run.rows);
    if (!run.batch || !run.rows) {
        code = complain_of_memory();
    } else {
        code = open_vectors(&run);
        if (code == EXIT_GOOD && a->images)
            code = images_open(&run.images, model, threads_of(&a->model));
        if (code == EXIT_GOOD && a->bulk.path)
            code = open_bulk(&run);
        if (code == EXIT_GOOD)
            code = output_open(&run.output, a->format, dimensions, (size_t)a->bulk.resumed);
    }
    if (code == EXIT_GOOD) {
        progress_start(&run.progress, a->images ? "images" : "texts");
        run.progress.logs = a->bulk.path != NULL;
        const double start = run.progress.started;
        code = embed_all(&run);
        progress_end(&run.progress);
        warn_of_cut_texts(session, model, stats_of_vectors(run.vectors).truncated, "");
        const int closed = output_close(&run.output);
        code = code == EXIT_GOOD ? closed : code;
        if (a->stats)
            print_stats(session, clock_seconds() - start);
        if (a->stats) {
            print_cold(model);
            print_vectors(run.vectors);
        }
        if (a->model.skip_absent)
            remark("%llu neurons were skipped, over all tokens and layers",
                   (unsigned long long)run.all_skipped);
        if (a->trace && code == EXIT_GOOD)
            code = write_trace(a, session);
    }
    batch_close(run.batch);
    wisp_vector_cache_close(run.vectors);
    images_close(&run.images);
    free(run.rows);
    return code;
}

int command_embed(int argc, char **argv) {
    struct remote_model remote = {0};
    struct arguments a = {.prompt.option = "prompt", .model.remote = &remote};
    if (!input_open(&a.input, (size_t)argc))
        return EXIT_FAILED;
    int code;
    if (parse(&a, argc, argv, &code))
        code = run_with_model(&a.model, &a, run_embed);
    remote_close(&remote);
    input_close(&a.input);
    return code;
}
