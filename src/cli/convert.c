/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>

#include "cli/cli.h"

static const char help[] =
    "usage: wisp convert [OPTION]... INPUT OUTPUT\n"
    "\n"
    "Writes a GGUF file from a Hugging Face folder or another GGUF file. OUTPUT appears whole or\n"
    "not at all.\n"
    "\n"
    "      --type TYPE            of weights: f32, f16, q8_0 or q4_0 (default: keep)\n"
    "      --embedding-type TYPE  of the token embeddings (default: the same as --type)\n"
    "      --sparsity SHARE       the default sparsity of a calibrated model\n"
    "      --neurons              store the weights of each feed-forward neuron side by side, as\n"
    "                             wisp calibrate does\n"
    "      --hot SHARE            of a calibrated model: which neurons stand at the beginning of "
    "the\n"
    "                             file, in each layer the fewest to which SHARE of all needed\n"
    "                             activations belongs (wisp calibrate: 0.9). Implies --neurons\n"
    "      --hot-bytes BYTES      those of all layers that are needed most often and fit BYTES, "
    "such\n"
    "                             as 3M. Implies --neurons\n"
    "      --hot-tokens N         of a calibrated model: the embeddings of the N tokens that it "
    "saw\n"
    "                             most often stand at the beginning, too, the others at the end\n"
    "      --plain                remove what wisp calibrate added, and store plain matrices; "
    "with\n"
    "                             --hot-tokens, tokens stay split by how often they occur\n"
    "      --name NAME            the model's name in the file (default: keep)\n"
    "  -h, --help                 this text\n"
    "\n"
    "Exit codes: see wisp embed --help.\n";

enum {
    OPTION_TYPE = 256,
    OPTION_EMBEDDING_TYPE,
    OPTION_NAME,
    OPTION_PLAIN,
    OPTION_NEURONS,
    OPTION_HOT,
    OPTION_HOT_BYTES,
    OPTION_HOT_TOKENS,
    OPTION_SPARSITY_SHARE
};

static const struct option options[] = {
    {"type", required_argument, NULL, OPTION_TYPE},
    {"embedding-type", required_argument, NULL, OPTION_EMBEDDING_TYPE},
    {"name", required_argument, NULL, OPTION_NAME},
    {"sparsity", required_argument, NULL, OPTION_SPARSITY_SHARE},
    {"neurons", no_argument, NULL, OPTION_NEURONS},
    {"hot", required_argument, NULL, OPTION_HOT},
    {"hot-bytes", required_argument, NULL, OPTION_HOT_BYTES},
    {"hot-tokens", required_argument, NULL, OPTION_HOT_TOKENS},
    {"plain", no_argument, NULL, OPTION_PLAIN},
    {"help", no_argument, NULL, 'h'},
    {0}};

int command_convert(int argc, char **argv) {
    struct progress progress;
    wisp_convert_options o = {.progress = progress_of_total, .progress_context = &progress};
    wisp_error error;
    double sparsity, share;
    unsigned long long bytes;
    unsigned long hot_tokens;
    int option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == OPTION_TYPE)
            o.type = optarg;
        else if (option == OPTION_EMBEDDING_TYPE)
            o.embedding_type = optarg;
        else if (option == OPTION_SPARSITY_SHARE && parse_share("sparsity", optarg, &sparsity))
            o.sparsity = (float)sparsity;
        else if (option == OPTION_HOT && parse_share("hot", optarg, &share))
            o.hot = (float)share;
        else if (option == OPTION_HOT_BYTES && parse_bytes("hot-bytes", optarg, &bytes))
            o.hot_bytes = bytes;
        else if (option == OPTION_HOT_TOKENS &&
                 parse_count("hot-tokens", optarg, UINT32_MAX, &hot_tokens))
            o.hot_tokens = hot_tokens;
        else if (option == OPTION_NEURONS)
            o.neurons = true;
        else if (option == OPTION_PLAIN)
            o.plain = true;
        else if (option == OPTION_NAME)
            o.name = optarg;
        else if (option == 'h')
            return fputs(help, program_output), EXIT_GOOD;
        else
            return EXIT_USAGE;
    }
    if (argc - optind != 2) {
        complain("convert: give one input and one output (see --help)");
        return EXIT_USAGE;
    }
    if (!check_path("input", argv[optind]))
        return EXIT_USAGE;
    const int code = check_output("output", argv[optind + 1]);
    if (code != EXIT_GOOD)
        return code;
    watch_signals(NULL);
    progress_start(&progress, "tensors");
    const wisp_status status = wisp_convert(argv[optind], argv[optind + 1], &o, &error);
    progress_end(&progress);
    return status == WISP_OK ? EXIT_GOOD : complain_of(&error);
}
