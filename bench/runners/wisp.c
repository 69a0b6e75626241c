/* SPDX-License-Identifier: Apache-2.0
 * Runs native wisp as a program that links the library would. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"
#include "wisp.h"

struct arguments {
    const char *model;
    const char *texts; /* the folder of the workloads */
    const char *compute;
    const char *kernels; /* NULL: the fastest */
    const char *predictor;
    uint32_t threads;
    bool tokenize; /* computes token ids instead of embeddings */
};

/* The workload that was read last, with its embeddings. */
struct workload {
    char name[64];
    char *bytes;
    wisp_text *texts;
    size_t n;
    float *rows;
    int32_t *ids; /* [n, max_tokens] */
    size_t *counts;
};

struct runner {
    struct arguments arguments;
    wisp_model *model;
    wisp_session *session;
    struct workload workload;
};

/* Prints the kernel sets that run on this machine, one a line, the fastest first. */
static _Noreturn void list_kernels(void) {
    for (size_t i = 0; wisp_kernels_name(i); i++)
        puts(wisp_kernels_name(i));
    exit(EXIT_SUCCESS);
}

static struct arguments take_arguments(int argc, char **argv) {
    static const struct option options[] = {{"model", required_argument, NULL, 'm'},
                                            {"texts", required_argument, NULL, 'f'},
                                            {"compute", required_argument, NULL, 'c'},
                                            {"kernels", required_argument, NULL, 'k'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"tokenize", no_argument, NULL, 'i'},
                                            {"list-kernels", no_argument, NULL, 'l'},
                                            {"predictor", required_argument, NULL, 'p'},
                                            {NULL, 0, NULL, 0}};
    struct arguments a = {.compute = "auto", .predictor = "auto", .threads = 1};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'm':
            a.model = optarg;
            break;
        case 'f':
            a.texts = optarg;
            break;
        case 'c':
            a.compute = optarg;
            break;
        case 'k':
            a.kernels = optarg;
            break;
        case 'p':
            a.predictor = optarg;
            break;
        case 'i':
            a.tokenize = true;
            break;
        case 'l':
            list_kernels();
        case 't':
            a.threads = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        default:
            give_up("unknown option");
        }
    }
    if (!a.model || !a.texts)
        give_up("--model and --texts are needed");
    return a;
}

static void *must(void *block) {
    if (!block)
        give_up("out of memory");
    return block;
}

static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        give_up(path);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = must(malloc(*size + 1));
    if (fread(bytes, 1, *size, file) != *size)
        give_up(path);
    fclose(file);
    bytes[*size] = '\0';
    return bytes;
}

/* Points w->texts to the lines of w->bytes, each of which is a text. */
static void split_lines(struct workload *w, size_t size) {
    for (size_t i = 0; i < size; i++)
        w->n += w->bytes[i] == '\n';
    w->texts = must(calloc(w->n + 1, sizeof *w->texts));
    char *line = w->bytes;
    for (size_t i = 0; i < w->n; i++) {
        char *end = strchr(line, '\n');
        w->texts[i] = (wisp_text){line, (size_t)(end - line)};
        line = end + 1;
    }
}

static size_t max_tokens(const struct runner *runner) {
    wisp_model_info info;
    wisp_model_get_info(runner->model, &info);
    return info.max_tokens;
}

static void read_workload(struct runner *runner, const char *name) {
    struct workload *w = &runner->workload;
    if (strcmp(w->name, name) == 0)
        return;
    free(w->bytes);
    free(w->texts);
    free(w->rows);
    free(w->ids);
    free(w->counts);
    *w = (struct workload){0};
    char path[4096];
    size_t size;
    snprintf(path, sizeof path, "%s/%s.txt", runner->arguments.texts, name);
    w->bytes = read_file(path, &size);
    split_lines(w, size);
    w->rows = must(calloc(w->n * wisp_model_dimensions(runner->model) + 1, sizeof(float)));
    w->ids = must(calloc(w->n * max_tokens(runner) + 1, sizeof *w->ids));
    w->counts = must(calloc(w->n + 1, sizeof *w->counts));
    snprintf(w->name, sizeof w->name, "%s", name);
}

static void embed(void *context) {
    struct runner *runner = context;
    struct workload *w = &runner->workload;
    wisp_error error = {0};
    if (wisp_embed(runner->session, w->texts, w->n, NULL, w->rows, &error) != WISP_OK)
        give_up(error.message);
}

static void tokenize(void *context) {
    struct runner *runner = context;
    struct workload *w = &runner->workload;
    const size_t most = max_tokens(runner);
    wisp_error error = {0};
    for (size_t i = 0; i < w->n; i++)
        if (wisp_tokenize(runner->model, w->texts[i], w->ids + i * most, most, &w->counts[i],
                          &error) != WISP_OK)
            give_up(error.message);
}

static void embed_first(struct runner *runner) {
    const wisp_text text = wisp_text_of("A first sentence.");
    float *row = must(calloc(wisp_model_dimensions(runner->model), sizeof *row));
    wisp_error error = {0};
    if (wisp_embed(runner->session, &text, 1, NULL, row, &error) != WISP_OK)
        give_up(error.message);
    free(row);
}

static void load(struct runner *runner) {
    const struct arguments *a = &runner->arguments;
    wisp_model_options model = {.kernels = a->kernels};
    wisp_compute_find(a->compute, &model.compute); /* AUTO for types of weights, such as q4_0 */
    if (!wisp_predictor_find(a->predictor, &model.predictor))
        give_up("unknown predictor");
    const wisp_session_options session = {.threads = a->threads};
    wisp_error error = {0};
    const double start = seconds_now();
    if (wisp_model_open(a->model, &model, &runner->model, &error) != WISP_OK ||
        wisp_session_open(runner->model, &session, &runner->session, &error) != WISP_OK)
        give_up(error.message);
    embed_first(runner);
    const double seconds = seconds_now() - start;
    wisp_model_info info;
    wisp_model_get_info(runner->model, &info);
    answer("{\"seconds\": %.6f, \"about\": {\"wisp\": \"%s\", \"kernels\": \"%s\", "
           "\"compute\": \"%s\"}}",
           seconds, wisp_build(), info.kernels, info.compute);
}

/* Writes the rows of floats, or the ids of all texts one after the other. */
static void write_results(const struct runner *runner, const char *path) {
    const struct workload *w = &runner->workload;
    const size_t dimensions = wisp_model_dimensions(runner->model), most = max_tokens(runner);
    FILE *file = fopen(path, "wb");
    if (!file)
        give_up(path);
    for (size_t i = 0; i < w->n; i++) {
        const bool ids = runner->arguments.tokenize;
        const size_t n = ids ? w->counts[i] : dimensions;
        const void *values =
            ids ? (const void *)(w->ids + i * most) : (const void *)(w->rows + i * dimensions);
        if (fwrite(values, sizeof(float), n, file) != n)
            give_up(path);
    }
    if (fclose(file) != 0)
        give_up(path);
    answer("{\"rows\": %zu}", w->n);
}

static void obey(struct runner *runner, const struct command *command) {
    if (strcmp(command->verb, "load") == 0) {
        load(runner);
        return;
    }
    void (*work)(void *) = runner->arguments.tokenize ? tokenize : embed;
    read_workload(runner, command->workload);
    if (strcmp(command->verb, "run") == 0)
        answer_timed(work, runner);
    else if (strcmp(command->verb, "warm") == 0)
        answer_warmed(work, runner);
    else if (strcmp(command->verb, "embed") == 0) {
        work(runner);
        write_results(runner, command->to);
    } else
        give_up("unknown command");
}

int main(int argc, char **argv) {
    struct runner runner = {.arguments = take_arguments(argc, argv)};
    for (struct command command; next_command(&command);)
        obey(&runner, &command);
    wisp_session_close(runner.session);
    wisp_model_close(runner.model);
    return EXIT_SUCCESS;
}
