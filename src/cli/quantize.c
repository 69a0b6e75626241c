/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/hub_models.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/quantize_report.h"
#include "cli/report_files.h"
#include "cli/sample.h"

static const char usage[] =
    "usage: wisp quantize --type TYPE [OPTION]... INPUT OUTPUT\n"
    "       wisp quantize --dry-run [--type TYPE,...] [OPTION]... INPUT\n"
    "\n"
    "Writes a GGUF file from a Hugging Face folder or another GGUF file with its matrices\n"
    "quantised, bit for bit as ggml's reference quantiser does, and prints the loss: for each\n"
    "matrix the mean squared error and the cosine of its weights. OUTPUT appears complete or not\n"
    "at all. Norms, biases, positions and token types become f32.\n"
    "\n";

enum { MOST_SAMPLES = 1000000, MAX_TYPES = 32, DEFAULT_SAMPLE = 262144 };

struct arguments {
    wisp_quantize_options options;
    wisp_ternary_options ternary;
    const char *ternary_option; /* an option of bitnet_t158 that was given; NULL: none */
    const char *types;          /* names with commas between them; NULL: none are given */
    const char *data, *report;
    unsigned long block_size, target_bytes, samples, tokens, seed, threads, sample;
    bool dry_run, json, force;
};

static int show_policy(void *field, const char *name) {
    (void)field;
    const char *text = wisp_policy_text(name);
    if (!text)
        return complain_of_name("show-policy", name, wisp_policy_name);
    fputs(text, program_output);
    const int code = finish_output();
    return code == EXIT_GOOD ? COMMAND_IS_DONE : code;
}

static int take_cosine(void *field, const char *text) {
    char *end;
    double *value = field;
    *value = strtod(text, &end);
    if (end != text && *end == '\0' && *value > 0 && *value < 1)
        return EXIT_GOOD;
    complain("--target-cosine %s: expected a number above 0 and below 1", text);
    return EXIT_USAGE;
}

#define ARGUMENTS struct arguments

static const struct command_option options[] = {
    OPTION(TEXT, types, "type", 0, "TYPE",
           "type of the matrices: f16, bf16, q8_0, q6_k, q5_1, q5_k, q5_0,\n"
           "q4_1, q4_k, q4_0, iq4_nl, iq4_xs, mxfp4, q3_k, q2_k, tq2_0,\n"
           "tq1_0 or bitnet_t158, which is PT-BitNet's and not ggml's"),
    OPTION(TEXT, options.embedding_type, "embedding-type", 0, "TYPE",
           "type of the token embedding (default: as --type; with --data and a\n"
           "ternary --type: unchanged)"),
    OPTION(TEXT, options.output_type, "output-type", 0, "TYPE",
           "type of output.weight, the last layer of a model that generates\n"
           "(default: as --embedding-type)"),
    OPTION(TEXT, options.fallback, "fallback", 0, "TYPE",
           "type of matrices whose rows are not whole blocks of --type, 32 or\n"
           "256 values (default: such a matrix is an error)"),
    OPTION(NONE, options.pad_neurons, "pad-neurons", 0, NULL,
           "add zero neurons to feed-forward layers, so that their number is a\n"
           "multiple of 32"),
    OPTION(TEXT, options.policy, "policy", 0, "POLICY",
           "which matrices take which type: a file or a built-in policy,\n"
           "default or glm-4.7-flash (default: default with bitnet_t158, else\n"
           "none)"),
    TAKEN(show_policy, types, "show-policy", 0, "POLICY",
          "print only a built-in policy, in the form of a policy file"),
    MARKED(ternary_option, COUNT, block_size, 1, UINT_MAX, "block-size", 0, "N",
           "for bitnet_t158: 256"),
    MARKED(ternary_option, NUMBER, ternary.epsilon, 0, 0, "epsilon", 0, "X",
           "for bitnet_t158: added to each scale (default: 1e-8)"),
    MARKED(ternary_option, NUMBER, ternary.clip_threshold, 0, 0, "clip-threshold", 0, "X",
           "for bitnet_t158: clip weights divided by their scale to this, at\n"
           "most 2 (default: 1)"),
    MARKED(ternary_option, NUMBER, ternary.target_sparsity, 0, 0, "target-sparsity", 0, "X",
           "for bitnet_t158: the least share of zeros in a block (default: 0)"),
    OPTION(TEXT, report, "report", 0, "BASE",
           "also write the loss of each matrix to BASE.json and BASE.svg"),
    OPTION(NONE, options.any_architecture, "any-architecture", 0, NULL,
           "also accept folders of architectures that wisp does not compute;\n"
           "tensors keep their names"),
    OPTION(TEXT, data, "data", 0, "FILE|-",
           "texts like those that the model will read, one on each line: choose\n"
           "codes that change the layers' outputs on them little. For q8_0,\n"
           "q5_1, q5_0, q4_1, q4_0, iq4_nl, mxfp4, tq2_0 and bitnet_t158"),
    COUNT(target_bytes, 1, ULONG_MAX, "target-bytes", 0, "N",
          "with --data: choose a type for each matrix so that the file has at\n"
          "most N bytes; --type is a list of types to choose from (default:\n"
          "the first seven of --data)"),
    TAKEN(take_cosine, options.target_cosine, "target-cosine", 0, "C",
          "with --data: likewise, but the smallest file whose embeddings have\n"
          "a mean cosine of at least C to the original's on held-out texts,\n"
          "one line in five"),
    OPTION(TEXT, options.ffn_type, "ffn-type", 0, "TYPE",
           "with --data: type of feed-forward matrices (default: as --type)"),
    OPTION(TEXT, options.position_type, "position-type", 0, "TYPE",
           "with --data: type of position embeddings (default: f32)"),
    COUNT(samples, 1, MOST_SAMPLES, "samples", 0, "N",
          "with --data: use N of the texts, chosen at random (default: 4000)"),
    COUNT(tokens, 1, 1 << 24, "tokens", 0, "N",
          "with --data: use about N of their tokens (default: 32768)"),
    COUNT(seed, 0, 1ul << 31, "seed", 0, "N",
          "with --data: seed of the random choices (default: 1)"),
    COUNT(threads, 1, 1024, "threads", 't', "N",
          "with --data: threads to compute with (default: those that it may\n"
          "keep busy)"),
    OPTION(NONE, dry_run, "dry-run", 0, NULL,
           "write nothing; print what each TYPE (default: all) would cost"),
    COUNT(sample, 0, ULONG_MAX, "sample", 0, "N",
          "with --dry-run: measure about N weights of each matrix; 0: all\n"
          "(default: 262144)"),
    OPTION(FORMAT, json, "format", 0, "FORMAT", "of what is printed: table (default) or json"),
    OPTION(NONE, force, "force", 'f', NULL, "replace existing files of other kinds"),
    LAST_OPTION,
};

static const struct command_line this_command = {
    usage, options, 29,
    "\n"
    "Examples:\n"
    "  wisp quantize --dry-run model.gguf\n"
    "  wisp quantize --type q4_k --fallback q5_0 model.gguf smaller.gguf\n"
    "\nExit codes: see wisp embed --help.\n",
    NULL};

/* The bytes and the error of all tensors of a type. */
struct total {
    const char *type;
    uint64_t elements, bytes;                   /* of all tensors */
    uint64_t measured;                          /* the elements of those that were quantised */
    double squared_error, cosine, least_cosine; /* sums over elements; the least of a tensor */
    size_t unfit;                               /* tensors that fit no type */
    uint64_t clamped;                           /* blocks whose scale became epsilon */
};

struct printer {
    struct progress progress;
    struct total *total;
    struct quantize_report *report; /* NULL: none is written */
    bool json, any;
    bool for_texts; /* errors are those of layers' outputs on texts, and not of weights */
    bool chooses;   /* the library chooses types for a target */
};

static void print_json_tensor(struct printer *p, const wisp_quantized_tensor *tensor) {
    fputs(p->any ? ",\n{\"name\":" : "\n{\"name\":", program_output);
    print_json_string(program_output, wisp_text_of(tensor->name));
    fprintf(program_output, ",\"elements\":%llu", (unsigned long long)tensor->elements);
    if (tensor->fits) {
        fprintf(program_output, ",\"type\":\"%s\",\"bytes\":%llu", tensor->type,
                (unsigned long long)tensor->bytes);
        if (!p->for_texts)
            fprintf(program_output, ",\"fallback\":%s", tensor->fallback ? "true" : "false");
        print_errors_json(program_output, tensor, p->for_texts);
    } else {
        fputs(",\"type\":null", program_output);
    }
    if (tensor->blocks > 0)
        print_ternary_json(program_output, tensor);
    if (p->chooses)
        fprintf(program_output, ",\"expected_loss\":%.9g", tensor->expected_loss);
    fputc('}', program_output);
}

static void print_table_tensor(const struct printer *p, const wisp_quantized_tensor *tensor) {
    fputs("  ", program_output);
    print_padded(wisp_text_of(tensor->name), SIZE_MAX, 32);
    if (p->for_texts)
        fprintf(program_output, " %-6s %12llu bytes  error of outputs %.6f, by rounding %.6f",
                tensor->type, (unsigned long long)tensor->bytes, tensor->output_error,
                tensor->plain_error);
    else if (tensor->fits)
        fprintf(program_output, " %-6s %12llu bytes  mse %-12.4g cosine %.6f%s", tensor->type,
                (unsigned long long)tensor->bytes, tensor->mse, tensor->cosine,
                tensor->fallback ? "  (fallback)" : "");
    if (p->chooses)
        fprintf(program_output, "  expected loss %.6f", tensor->expected_loss);
    if (tensor->blocks > 0)
        fprintf(program_output, "  zeros %.4f  scale %.4g +- %.4g", tensor->sparsity,
                tensor->scale_mean, tensor->scale_deviation);
    if (tensor->fits)
        fputc('\n', program_output);
    else
        fputs(" rows are not whole blocks of this type\n", program_output);
}

static void take_tensor(void *context, const wisp_quantized_tensor *tensor) {
    struct printer *p = context;
    struct total *total = p->total;
    total->elements += tensor->elements;
    total->bytes += tensor->bytes;
    total->unfit += !tensor->fits;
    total->clamped += tensor->clamped;
    if (p->report)
        quantize_report_add(p->report, tensor);
    if (tensor->quantised) {
        total->measured += tensor->elements;
        total->squared_error += tensor->mse * (double)tensor->elements;
        total->cosine += tensor->cosine * (double)tensor->elements;
        if (tensor->cosine < total->least_cosine)
            total->least_cosine = tensor->cosine;
    }
    if (p->json)
        print_json_tensor(p, tensor);
    else if (tensor->quantised || !tensor->fits)
        print_table_tensor(p, tensor);
    p->any = true;
}

static bool take_progress(void *context, size_t done, size_t total) {
    struct printer *p = context;
    return progress_of_total(&p->progress, done, total);
}

static void print_totals(const struct total *totals, size_t n) {
    fprintf(program_output, "\n%-8s %14s %12s %12s %12s %12s\n", "TYPE", "bytes", "bits/weight",
            "mse", "mean cosine", "least");
    for (size_t i = 0; i < n; i++) {
        const struct total *t = &totals[i];
        const double measured = t->measured ? (double)t->measured : 1;
        fprintf(program_output, "%-8s ", t->type);
        if (t->unfit)
            fprintf(program_output, "%zu tensors do not fit: --fallback names a type for them\n",
                    t->unfit);
        else
            fprintf(program_output, "%14llu %12.3f %12.4g %12.6f %12.6f\n",
                    (unsigned long long)t->bytes, 8 * (double)t->bytes / (double)t->elements,
                    t->squared_error / measured, t->measured ? t->cosine / measured : 1,
                    t->least_cosine);
    }
}

/* Prints what was reached with a target. */
static void print_outcome(const wisp_quantize_outcome *o, bool json) {
    const bool embeds = o->divergence == 0;
    if (json)
        fprintf(program_output,
                ",\"file_bytes\":%llu,\"held_out\":%zu,\"attempts\":%zu,\"mean_cosine\":%.9g,"
                "\"least_cosine\":%.9g,\"divergence\":%.9g",
                (unsigned long long)o->bytes, o->held_out, o->attempts, o->mean_cosine,
                o->least_cosine, o->divergence);
    else if (embeds)
        fprintf(program_output,
                "\n%llu bytes; on %zu texts held out the mean cosine is %.6f, the least %.6f\n",
                (unsigned long long)o->bytes, o->held_out, o->mean_cosine, o->least_cosine);
    else
        fprintf(program_output,
                "\n%llu bytes; on %zu texts held out the next token's probabilities diverge by "
                "%.6f nats\n",
                (unsigned long long)o->bytes, o->held_out, o->divergence);
}

/* Ends what is printed of a type. */
static void print_end(const struct printer *p, const wisp_quantize_outcome *outcome) {
    if (p->json)
        fprintf(program_output, "],\"bytes\":%llu,\"elements\":%llu",
                (unsigned long long)p->total->bytes, (unsigned long long)p->total->elements);
    if (p->chooses)
        print_outcome(outcome, p->json);
    if (p->json)
        fputc('}', program_output);
}

/* Quantises to each of n types, and prints what that loses. `texts` is empty without --data. `base`
 * is the beginning of the report's names; NULL: no report is written. */
static int quantize(const char *input, const char *output, const char *const *types, size_t n,
                    const wisp_quantize_options *chosen, const struct sample *texts,
                    const char *base, bool json) {
    struct total totals[MAX_TYPES];
    struct quantize_report report = {.for_texts = texts->n > 0};
    struct printer p = {
        .json = json, .for_texts = report.for_texts, .report = base ? &report : NULL};
    wisp_error error;
    int code = EXIT_GOOD;
    wisp_quantize_options o = *chosen;
    wisp_quantize_outcome outcome = {0};
    p.chooses = o.target_bytes > 0 || o.target_cosine > 0;
    o.outcome = &outcome;
    o.tensor = take_tensor;
    o.progress = take_progress;
    o.context = &p;
    progress_start(&p.progress, texts->n > 0 ? "batches" : "tensors");
    fputs(json ? "{\"types\":[" : "", program_output);
    for (size_t i = 0; i < n && code == EXIT_GOOD; i++) {
        totals[i] = (struct total){.type = types[i], .least_cosine = 1};
        p.total = &totals[i];
        p.any = false;
        if (json)
            fprintf(program_output, "%s\n{\"type\":\"%s\",\"tensors\":[", i ? "," : "", types[i]);
        else
            fprintf(program_output, "%s%s\n", i ? "\n" : "", types[i]);
        const wisp_status status = texts->n > 0
                                       ? wisp_quantize_for_texts(input, output, types[i],
                                                                 texts->text, texts->n, &o, &error)
                                       : wisp_quantize(input, output, types[i], &o, &error);
        if (status != WISP_OK) {
            progress_end(&p.progress);
            code = complain_of(&error);
        } else {
            print_end(&p, &outcome);
        }
    }
    progress_end(&p.progress);
    if (code == EXIT_GOOD && json)
        fputs("]}\n", program_output);
    else if (code == EXIT_GOOD && texts->n == 0)
        print_totals(totals, n);
    for (size_t i = 0; i < n && code == EXIT_GOOD; i++)
        if (totals[i].clamped > 0)
            remark("warning: %llu blocks have a scale that a half cannot hold; it became epsilon",
                   (unsigned long long)totals[i].clamped);
    const int closed = finish_output();
    if (code == EXIT_GOOD)
        code = closed;
    if (code == EXIT_GOOD && base)
        code = quantize_report_write(&report, base);
    quantize_report_release(&report);
    return code;
}

/* Splits a list at its commas, and replaces each name by the one that the library uses. Returns the
 * number of types, or 0 after complaining. */
static size_t split_types(char *list, const char **types) {
    size_t n = 0;
    for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
        size_t i = 0;
        while (wisp_quantize_type(i) && strcasecmp(wisp_quantize_type(i), name) != 0)
            i++;
        if (!wisp_quantize_type(i))
            return (void)complain_of_name("type", name, wisp_quantize_type), 0;
        if (n < MAX_TYPES)
            types[n++] = wisp_quantize_type(i);
    }
    if (n == 0)
        complain("type: the list is empty");
    return n;
}

/* Sets types[n] to the types to quantise to. Returns an exit code, after complaining. */
static int choose_types(const struct arguments *a, const char **types, size_t *n) {
    *n = 0;
    if (a->options.target_bytes > 0 ||
        a->options.target_cosine > 0) /* the library takes the list */
        types[(*n)++] = a->types ? a->types : "q8_0,q5_1,q5_0,q4_1,q4_0,iq4_nl,mxfp4";
    else if (a->types && (*n = split_types((char *)a->types, types)) == 0)
        return EXIT_USAGE;
    for (size_t i = 0; !a->types && a->dry_run && wisp_quantize_type(i); i++)
        types[(*n)++] = wisp_quantize_type(i);
    return EXIT_GOOD;
}

/* Complains of what does not go together, and returns EXIT_USAGE then. */
static int check(const struct arguments *a, size_t n_types, int n_paths) {
    const wisp_quantize_options *o = &a->options;
    const bool chooses = o->target_bytes > 0 || o->target_cosine > 0;
    if (n_paths != (a->dry_run ? 1 : 2))
        complain("quantize: give one input%s (see --help)",
                 a->dry_run ? ", and no output with --dry-run" : " and one output");
    else if (!a->dry_run && n_types != 1)
        complain("quantize: give one --type (see --help)");
    else if (a->report && n_types != 1)
        complain("--report: give one --type (see --help)");
    else if (!a->data && (o->ffn_type || o->position_type || chooses))
        complain("quantize: --ffn-type, --position-type, --target-bytes and --target-cosine go "
                 "with --data");
    else if (o->target_bytes > 0 && o->target_cosine > 0)
        complain("quantize: give either --target-bytes or --target-cosine");
    else if (a->data &&
             (a->dry_run || o->policy || o->fallback || o->any_architecture || a->ternary_option))
        complain("quantize: --dry-run, --policy, --fallback, --any-architecture and the options of "
                 "bitnet_t158 do not go with --data");
    else
        return EXIT_GOOD;
    return EXIT_USAGE;
}

int command_quantize(int argc, char **argv) {
    struct arguments a = {.ternary = WISP_TERNARY_DEFAULTS,
                          .samples = 4000,
                          .seed = 1,
                          .block_size = 256,
                          .threads = wisp_usable_threads(),
                          .sample = DEFAULT_SAMPLE};
    const char *types[MAX_TYPES];
    struct sample texts = {0};
    size_t n;
    int code;
    if (!take_options(&this_command, &a, argc, argv, &code))
        return code;
    wisp_quantize_options *o = &a.options;
    a.ternary.block_size = (uint32_t)a.block_size;
    o->ternary = &a.ternary;
    o->target_bytes = a.target_bytes;
    o->sample = a.sample;
    o->tokens = a.tokens;
    o->seed = a.seed;
    o->threads = (uint32_t)a.threads;
    code = choose_types(&a, types, &n);
    if (code == EXIT_GOOD)
        code = check(&a, n, argc - optind);
    if (code != EXIT_GOOD)
        return code;
    const char *input = argv[optind], *output = a.dry_run ? NULL : argv[optind + 1];
    if (!check_path("input", input))
        return EXIT_USAGE;
    watch_signals(NULL);
    if (output)
        code = check_output("output", output, OUTPUT_MODEL, a.force);
    if (code == EXIT_GOOD && a.report)
        code = report_files_check(a.report, a.force);
    if (code == EXIT_GOOD && a.data)
        code = sample_read(a.data, a.samples, a.seed, &texts);
    if (code == EXIT_GOOD && a.data && texts.n == 0) {
        complain("%s: no texts", a.data);
        code = EXIT_FAILED;
    }
    char found[PATH_MAX];
    wisp_error error;
    if (code == EXIT_GOOD &&
        find_model(input, HUB_FOLDER_FIRST, false, found, &input, &error) != WISP_OK)
        code = complain_of(&error);
    if (code == EXIT_GOOD)
        code = quantize(input, output, types, n, o, &texts, a.report, a.json);
    sample_release(&texts);
    return code;
}
