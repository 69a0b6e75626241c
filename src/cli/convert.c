/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/hub_models.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/udf_module.h"

static const char usage[] = "usage: wisp convert [OPTION]... INPUT OUTPUT\n"
                            "\n"
                            "Writes a GGUF file from a Hugging Face folder, another GGUF file, or "
                            "hf:owner/name[@revision] on\n"
                            "the Hugging Face Hub. OUTPUT appears complete or not at all.\n"
                            "\n";

struct arguments {
    wisp_convert_options options;
    double sparsity, hot;
    unsigned long long hot_bytes;
    unsigned long hot_tokens;
    bool force, udf, relaxed;
};

#define ARGUMENTS struct arguments

static const struct command_option options[] = {
    OPTION(TEXT, options.type, "type", 0, "TYPE",
           "type of the weights: f32, f16, q8_0 or q4_0 (default: keep)"),
    OPTION(TEXT, options.embedding_type, "embedding-type", 0, "TYPE",
           "type of the token embeddings (default: as --type)"),
    OPTION(SHARE, sparsity, "sparsity", 0, "SHARE", "the default sparsity of a calibrated model"),
    OPTION(NONE, options.neurons, "neurons", 0, NULL,
           "store the weights of each feed-forward neuron together, as\n"
           "wisp calibrate does"),
    OPTION(SHARE, hot, "hot", 0, "SHARE",
           "choose the hot neurons of a calibrated model, which are stored at\n"
           "the beginning of the file: in each layer the fewest that account\n"
           "for SHARE of all needed activations (wisp calibrate: 0.9). Implies\n"
           "--neurons"),
    OPTION(BYTES, hot_bytes, "hot-bytes", 0, "BYTES",
           "instead choose the most often needed neurons of all layers that fit\n"
           "BYTES, such as 3M. Implies --neurons"),
    COUNT(hot_tokens, 1, UINT32_MAX, "hot-tokens", 0, "N",
          "store the embeddings of the N tokens most frequent in calibration\n"
          "at the beginning, too, and the others at the end"),
    OPTION(NONE, options.plain, "plain", 0, NULL,
           "remove what wisp calibrate added, and store plain matrices; with\n"
           "--hot-tokens, tokens stay divided by frequency"),
    OPTION(TEXT, options.adapter, "adapter", 0, "TASK",
           "of a folder with adapters of several tasks, such as retrieval.query\n"
           "of jina-embeddings-v3: merge that of TASK into the weights, and make\n"
           "the prompt of TASK the default"),
    OPTION(TEXT, options.name, "name", 0, "NAME", "the model's name in the file (default: keep)"),
    OPTION(NONE, udf, "udf", 0, NULL,
           "write a WebAssembly module that contains the model and imports\n"
           "nothing, for databases, and print the SQL with which ClickHouse\n"
           "runs it: docs/scale.md"),
    OPTION(NONE, relaxed, "relaxed", 0, NULL,
           "with --udf: use relaxed SIMD, which is faster, but missing in some\n"
           "engines"),
    OPTION(NONE, force, "force", 'f', NULL,
           "replace an existing file that is not of the kind that is written"),
    LAST_OPTION,
};

static const struct command_line this_command = {
    usage, options, 29,
    "\n"
    "Examples:\n"
    "  wisp convert path/to/all-MiniLM-L6-v2 minilm.gguf --type q8_0\n"
    "  wisp convert hf:sentence-transformers/all-MiniLM-L6-v2 minilm.gguf\n"
    "  wisp convert --udf minilm.gguf minilm.wasm\n"
    "\nExit codes: see wisp embed --help.\n",
    NULL};

/* Converts to a file beside the output, which becomes a part of the module. */
static int write_udf(const struct arguments *a, const char *input, const char *output) {
    char model[PATH_MAX];
    wisp_error error;
    const int length = snprintf(model, sizeof model, "%s.XXXXXX", output);
    const int file = length < (int)sizeof model ? mkstemp(model) : -1;
    if (file < 0) {
        complain("output: cannot write a file beside %s", output);
        return EXIT_FAILED;
    }
    close(file);
    wisp_status status = udf_module_try(input, &error);
    if (status == WISP_OK)
        status = wisp_convert(input, model, &a->options, &error);
    progress_end(a->options.progress_context);
    const int code =
        status == WISP_OK ? udf_module_write(model, output, a->relaxed) : complain_of(&error);
    unlink(model);
    return code;
}

int command_convert(int argc, char **argv) {
    struct progress progress;
    struct arguments a = {
        .options = {.progress = progress_of_total, .progress_context = &progress}};
    wisp_convert_options *o = &a.options;
    wisp_error error;
    int code;
    if (!take_options(&this_command, &a, argc, argv, &code))
        return code;
    o->sparsity = (float)a.sparsity;
    o->hot = (float)a.hot;
    o->hot_bytes = a.hot_bytes;
    o->hot_tokens = a.hot_tokens;
    if (argc - optind != 2) {
        complain("convert: give one input and one output (see --help)");
        return EXIT_USAGE;
    }
    if (!check_path("input", argv[optind]))
        return EXIT_USAGE;
    const char *output = argv[optind + 1];
    if (a.relaxed && !a.udf) {
        complain("--relaxed is for --udf");
        return EXIT_USAGE;
    }
    code = check_output("output", output, a.udf ? OUTPUT_MODULE : OUTPUT_MODEL, a.force);
    if (code != EXIT_GOOD)
        return code;
    watch_signals(NULL);
    const char *input;
    char found[PATH_MAX];
    wisp_status status = find_model(argv[optind], HUB_FOLDER_FIRST, false, found, &input, &error);
    progress_start(&progress, "tensors");
    if (status == WISP_OK && a.udf)
        return write_udf(&a, input, output);
    if (status == WISP_OK)
        status = wisp_convert(input, output, o, &error);
    progress_end(&progress);
    return status == WISP_OK ? EXIT_GOOD : complain_of(&error);
}
