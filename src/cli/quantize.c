/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/quantize_report.h"
#include "cli/report_files.h"
#include "cli/sample.h"

static const char help[] =
    "usage: wisp quantize --type TYPE [OPTION]... INPUT OUTPUT\n"
    "       wisp quantize --dry-run [--type TYPE,...] [OPTION]... INPUT\n"
    "\n"
    "Writes a GGUF file of a Hugging Face folder or another GGUF file with its matrices "
    "quantised,\n"
    "bit for bit as ggml's reference quantiser does, and prints what that loses: for each matrix "
    "the\n"
    "mean squared error and the cosine of its weights. OUTPUT appears whole or not at all.\n"
    "Norms, biases, positions and token types become f32.\n"
    "\n"
    "      --type TYPE            of matrices: f16, bf16, q8_0, q6_k, q5_1, q5_k, q5_0, q4_1, "
    "q4_k,\n"
    "                             q4_0, iq4_nl, iq4_xs, mxfp4, q3_k, q2_k, tq2_0, tq1_0 or\n"
    "                             bitnet_t158, which is PT-BitNet's and not ggml's\n"
    "      --embedding-type TYPE  of the token embedding (default: as --type; with --data and a\n"
    "                             ternary --type: it stays as it is)\n"
    "      --output-type TYPE     of output.weight, the last layer of a model that generates text\n"
    "                             (default: as --embedding-type has it)\n"
    "      --fallback TYPE        of matrices whose rows are no whole blocks of their type: 32 or\n"
    "                             256 values (default: such a matrix is an error)\n"
    "      --pad-neurons          add neurons of zeros to feed-forward layers whose number is no\n"
    "                             multiple of 32\n"
    "      --policy POLICY        which matrices take which type: a file, or a policy of wisp, "
    "default or\n"
    "                             glm-4.7-flash (default: default with bitnet_t158, else none)\n"
    "      --show-policy POLICY   print a policy of wisp, as a file to change, and nothing else\n"
    "      --block-size N         of bitnet_t158: 256\n"
    "      --epsilon X            of bitnet_t158: added to each scale (default: 1e-8)\n"
    "      --clip-threshold X     of bitnet_t158: weights over their scale are cut to this, at "
    "most\n"
    "                             2 (default: 1)\n"
    "      --target-sparsity X    of bitnet_t158: the least share of zeros in a block (default: "
    "0)\n"
    "      --report BASE          also write BASE.json and BASE.svg: what each matrix lost\n"
    "      --any-architecture     also folders of architectures that wisp does not compute; their\n"
    "                             tensors keep their names\n"
    "      --data FILE|-          texts like those that the model will read, one on each line: "
    "choose\n"
    "                             the codes so that layers' outputs on them change little. For "
    "q8_0,\n"
    "                             q5_1, q5_0, q4_1, q4_0, iq4_nl, mxfp4, tq2_0 and bitnet_t158\n"
    "      --target-bytes N       with --data: choose a type for each matrix, so that the file has "
    "at\n"
    "                             most N bytes; --type is a list of types to choose from "
    "(default:\n"
    "                             the first seven of --data)\n"
    "      --target-cosine C      with --data: likewise, the smallest file in which embeddings "
    "have a\n"
    "                             mean cosine of at least C to the original's, on one line in "
    "five that\n"
    "                             is held out\n"
    "      --ffn-type TYPE        with --data: of feed-forward matrices (default: as --type)\n"
    "      --position-type TYPE   with --data: of position embeddings (default: f32)\n"
    "      --samples N            with --data: use N of the texts, chosen at random (default: "
    "4000)\n"
    "      --tokens N             with --data: use about N of their tokens (default: 32768)\n"
    "      --seed N               with --data: seed of the random choices (default: 1)\n"
    "  -t, --threads N            with --data: threads to compute with (default: the number of "
    "cores)\n"
    "      --dry-run              write nothing; print what each TYPE (default: all) would cost\n"
    "      --sample N             with --dry-run: measure about N weights of each matrix; 0: all\n"
    "                             (default: 262144)\n"
    "      --format FORMAT        of what is printed: table (default) or json\n"
    "  -h, --help                 this text\n"
    "\n"
    "Exit codes: see wisp embed --help.\n";

enum {
    OPTION_TYPE = 256,
    OPTION_EMBEDDING_TYPE,
    OPTION_OUTPUT_TYPE,
    OPTION_FALLBACK,
    OPTION_POLICY,
    OPTION_SHOW_POLICY,
    OPTION_BLOCK_SIZE,
    OPTION_EPSILON,
    OPTION_CLIP_THRESHOLD,
    OPTION_TARGET_SPARSITY,
    OPTION_REPORT,
    OPTION_ANY_ARCHITECTURE,
    OPTION_DRY_RUN,
    OPTION_SAMPLE,
    OPTION_FORMAT,
    OPTION_DATA,
    OPTION_FFN_TYPE,
    OPTION_POSITION_TYPE,
    OPTION_SAMPLES,
    OPTION_TOKENS,
    OPTION_SEED,
    OPTION_TARGET_BYTES,
    OPTION_TARGET_COSINE,
    OPTION_PAD_NEURONS,
    MOST_SAMPLES = 1000000,
    MAX_TYPES = 32,
    DEFAULT_SAMPLE = 262144
};

static const struct option options[] = {
    {"type", required_argument, NULL, OPTION_TYPE},
    {"embedding-type", required_argument, NULL, OPTION_EMBEDDING_TYPE},
    {"output-type", required_argument, NULL, OPTION_OUTPUT_TYPE},
    {"fallback", required_argument, NULL, OPTION_FALLBACK},
    {"policy", required_argument, NULL, OPTION_POLICY},
    {"show-policy", required_argument, NULL, OPTION_SHOW_POLICY},
    {"block-size", required_argument, NULL, OPTION_BLOCK_SIZE},
    {"epsilon", required_argument, NULL, OPTION_EPSILON},
    {"clip-threshold", required_argument, NULL, OPTION_CLIP_THRESHOLD},
    {"target-sparsity", required_argument, NULL, OPTION_TARGET_SPARSITY},
    {"report", required_argument, NULL, OPTION_REPORT},
    {"any-architecture", no_argument, NULL, OPTION_ANY_ARCHITECTURE},
    {"dry-run", no_argument, NULL, OPTION_DRY_RUN},
    {"sample", required_argument, NULL, OPTION_SAMPLE},
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"data", required_argument, NULL, OPTION_DATA},
    {"ffn-type", required_argument, NULL, OPTION_FFN_TYPE},
    {"position-type", required_argument, NULL, OPTION_POSITION_TYPE},
    {"samples", required_argument, NULL, OPTION_SAMPLES},
    {"tokens", required_argument, NULL, OPTION_TOKENS},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"target-bytes", required_argument, NULL, OPTION_TARGET_BYTES},
    {"target-cosine", required_argument, NULL, OPTION_TARGET_COSINE},
    {"pad-neurons", no_argument, NULL, OPTION_PAD_NEURONS},
    {"threads", required_argument, NULL, 't'},
    {"help", no_argument, NULL, 'h'},
    {0}};

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
        fputs(" rows are no whole blocks of this type\n", program_output);
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
        } else if (json) {
            fprintf(program_output, "],\"bytes\":%llu,\"elements\":%llu",
                    (unsigned long long)totals[i].bytes, (unsigned long long)totals[i].elements);
            if (p.chooses)
                print_outcome(&outcome, true);
            fputc('}', program_output);
        } else if (p.chooses) {
            print_outcome(&outcome, false);
        }
    }
    progress_end(&p.progress);
    if (code == EXIT_GOOD && json)
        fputs("]}\n", program_output);
    else if (code == EXIT_GOOD && texts->n == 0)
        print_totals(totals, n);
    for (size_t i = 0; i < n && code == EXIT_GOOD; i++)
        if (totals[i].clamped > 0)
            complain("warning: %llu blocks have a scale that a half cannot hold; it became epsilon",
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

static bool parse_cosine(const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    if (end != text && *end == '\0' && *value > 0 && *value < 1)
        return true;
    complain("--target-cosine %s: a number above 0 and below 1 belongs here", text);
    return false;
}

static int show_policy(const char *name) {
    const char *text = wisp_policy_text(name);
    return text ? (fputs(text, program_output), finish_output())
                : complain_of_name("show-policy", name, wisp_policy_name);
}

/* Parses an option of BITNET_T158. Returns false for any other, and after complaining. */
static bool take_ternary(int option, const char *text, wisp_ternary_options *ternary) {
    unsigned long size;
    switch (option) {
    case OPTION_BLOCK_SIZE:
        if (!parse_count("block-size", text, UINT_MAX, &size))
            return false;
        ternary->block_size = (uint32_t)size;
        return true;
    case OPTION_EPSILON:
        return parse_number("epsilon", text, &ternary->epsilon);
    case OPTION_CLIP_THRESHOLD:
        return parse_number("clip-threshold", text, &ternary->clip_threshold);
    case OPTION_TARGET_SPARSITY:
        return parse_number("target-sparsity", text, &ternary->target_sparsity);
    default:
        return false; /* getopt has said what is wrong */
    }
}

int command_quantize(int argc, char **argv) {
    wisp_ternary_options ternary = WISP_TERNARY_DEFAULTS;
    wisp_quantize_options o = {.sample = DEFAULT_SAMPLE, .ternary = &ternary};
    const char *types[MAX_TYPES];
    char *list = NULL, *base = NULL;
    const char *data = NULL;
    struct sample texts = {0};
    bool dry_run = false, json = false,
         rounds = false; /* `rounds`: an option of bitnet_t158 was given */
    unsigned long sample, samples = 4000, tokens = 0, seed = 1, threads = default_threads();
    unsigned long target;
    size_t n = 0;
    int option;
    while ((option = getopt_long(argc, argv, "t:h", options, NULL)) != -1) {
        if (option == OPTION_TYPE) {
            list = optarg;
        } else if (option == OPTION_EMBEDDING_TYPE) {
            o.embedding_type = optarg;
        } else if (option == OPTION_OUTPUT_TYPE) {
            o.output_type = optarg;
        } else if (option == OPTION_FALLBACK) {
            o.fallback = optarg;
        } else if (option == OPTION_POLICY) {
            o.policy = optarg;
        } else if (option == OPTION_SHOW_POLICY) {
            return show_policy(optarg);
        } else if (option == OPTION_REPORT) {
            base = optarg;
        } else if (option == OPTION_ANY_ARCHITECTURE) {
            o.any_architecture = true;
        } else if (option == OPTION_DRY_RUN) {
            dry_run = true;
        } else if (option == OPTION_SAMPLE && strcmp(optarg, "0") == 0) {
            o.sample = 0;
        } else if (option == OPTION_SAMPLE) {
            if (!parse_count("sample", optarg, ULONG_MAX, &sample))
                return EXIT_USAGE;
            o.sample = sample;
        } else if (option == OPTION_FORMAT) {
            if (!parse_format(optarg, &json))
                return EXIT_USAGE;
        } else if (option == OPTION_FFN_TYPE) {
            o.ffn_type = optarg;
        } else if (option == OPTION_POSITION_TYPE) {
            o.position_type = optarg;
        } else if (option == OPTION_TARGET_BYTES) {
            if (!parse_count("target-bytes", optarg, ULONG_MAX, &target))
                return EXIT_USAGE;
            o.target_bytes = target;
        } else if (option == OPTION_TARGET_COSINE) {
            if (!parse_cosine(optarg, &o.target_cosine))
                return EXIT_USAGE;
        } else if (option == OPTION_PAD_NEURONS) {
            o.pad_neurons = true;
        } else if (option == OPTION_DATA) {
            data = optarg;
        } else if (option == OPTION_SAMPLES) {
            if (!parse_count("samples", optarg, MOST_SAMPLES, &samples))
                return EXIT_USAGE;
        } else if (option == OPTION_TOKENS) {
            if (!parse_count("tokens", optarg, 1 << 24, &tokens))
                return EXIT_USAGE;
        } else if (option == OPTION_SEED) {
            if (!parse_count("seed", optarg, 1ul << 31, &seed))
                return EXIT_USAGE;
        } else if (option == 't') {
            if (!parse_count("threads", optarg, 1024, &threads))
                return EXIT_USAGE;
        } else if (option == 'h') {
            return fputs(help, program_output), EXIT_GOOD;
        } else if (take_ternary(option, optarg, &ternary)) {
            rounds = true;
        } else {
            return EXIT_USAGE;
        }
    }
    const bool chooses = o.target_bytes > 0 || o.target_cosine > 0;
    if (chooses) { /* the library takes the list */
        types[n++] = list ? list : "q8_0,q5_1,q5_0,q4_1,q4_0,iq4_nl,mxfp4";
    } else if (list && (n = split_types(list, types)) == 0) {
        return EXIT_USAGE;
    }
    for (size_t i = 0; !list && dry_run && wisp_quantize_type(i); i++)
        types[n++] = wisp_quantize_type(i);
    if (argc - optind != (dry_run ? 1 : 2)) {
        complain("quantize: give one input%s (see --help)",
                 dry_run ? ", and no output with --dry-run" : " and one output");
        return EXIT_USAGE;
    }
    if (!dry_run && n != 1) {
        complain("quantize: give one --type (see --help)");
        return EXIT_USAGE;
    }
    if (!check_path("input", argv[optind]))
        return EXIT_USAGE;
    if (base && n != 1) {
        complain("--report: give one --type (see --help)");
        return EXIT_USAGE;
    }
    if (!data && (o.ffn_type || o.position_type || chooses)) {
        complain("quantize: --ffn-type, --position-type, --target-bytes and --target-cosine go "
                 "with --data");
        return EXIT_USAGE;
    }
    if (o.target_bytes > 0 && o.target_cosine > 0) {
        complain("quantize: give either --target-bytes or --target-cosine");
        return EXIT_USAGE;
    }
    if (data && (dry_run || o.policy || o.fallback || o.any_architecture || rounds)) {
        complain("quantize: --dry-run, --policy, --fallback, --any-architecture and the options of "
                 "bitnet_t158 do not go with --data");
        return EXIT_USAGE;
    }
    o.tokens = tokens;
    o.seed = seed;
    o.threads = (uint32_t)threads;
    watch_signals(NULL);
    int code = dry_run ? EXIT_GOOD : check_output("output", argv[optind + 1]);
    if (code == EXIT_GOOD && base)
        code = report_files_check(base);
    if (code == EXIT_GOOD && data)
        code = sample_read(data, samples, seed, &texts);
    if (code == EXIT_GOOD && data && texts.n == 0) {
        complain("%s: no texts", data);
        code = EXIT_FAILED;
    }
    if (code == EXIT_GOOD)
        code = quantize(argv[optind], dry_run ? NULL : argv[optind + 1], types, n, &o, &texts, base,
                        json);
    sample_release(&texts);
    return code;
}
