/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/model_options.h"

#include <string.h>

#include "cli/cli.h"

int take_model_path(void *field, const char *value) {
    *(const char **)field = value;
    return check_path("--model", value) ? EXIT_GOOD : EXIT_USAGE;
}

static int take_kernels(void *field, const char *value) {
    *(const char **)field = value;
    for (size_t i = 0; wisp_kernels_name(i); i++)
        if (strcmp(value, wisp_kernels_name(i)) == 0)
            return EXIT_GOOD;
    return complain_of_name("cpu", value, wisp_kernels_name);
}

static int take_compute(void *field, const char *value) {
    return wisp_compute_find(value, field) ? EXIT_GOOD
                                           : complain_of_name("compute", value, wisp_compute_name);
}

static int take_predictor(void *field, const char *value) {
    return wisp_predictor_find(value, field)
               ? EXIT_GOOD
               : complain_of_name("predictor", value, wisp_predictor_name);
}

static int take_sparsity(void *arguments, const char *value) {
    struct model_arguments *a = arguments;
    if (a->predictor == WISP_PREDICTOR_AUTO)
        a->predictor = WISP_PREDICTOR_LOWRANK;
    return parse_share("sparsity", value, &a->sparsity) ? EXIT_GOOD : EXIT_USAGE;
}

static int take_cache_type(void *field, const char *value) {
    return wisp_cache_type_find(value, field)
               ? EXIT_GOOD
               : complain_of_name("cache-type", value, wisp_cache_type_name);
}

static int take_header_sha256(void *field, const char *value) {
    *(const char **)field = value;
    if (strlen(value) == 64 && strspn(value, "0123456789abcdef") == 64)
        return EXIT_GOOD;
    complain("--header-sha256 %s: expected 64 lower-case hexadecimal digits", value);
    return EXIT_USAGE;
}

#define ARGUMENTS struct model_arguments

static const struct command_option more_model_options[] = {
    OPTION(NONE, offline, "offline", 0, NULL, "use only the cached bytes of a file at an address"),
    TAKEN(take_header_sha256, header_sha256, "header-sha256", 0, "HEX",
          "accept only a file whose header has this SHA-256, as printed by\n"
          "wisp inspect --verify, and verify all other bytes with the\n"
          "digests in the header"),
    TAKEN(take_compute, compute, "compute", 0, "MODE",
          "f32, int8, bf16 (on processors with AMX or AVX512-BF16) or auto,\n"
          "which is int8 if the file is quantised, else bf16 with AMX if the\n"
          "model embeds, else f32 (default: auto)"),
    TAKEN(take_predictor, predictor, "predictor", 0, "NAME",
          "which neurons are computed: dense, exact, lowrank, sentence, gate,\n"
          "topk or auto, the fastest: for a calibrated model lowrank, or gate\n"
          "if it generates; else exact with ReLU, else dense (default: auto)"),
    TAKEN_BY_ALL(take_sparsity, SHARE, "sparsity", 0, "SHARE",
                 "the share of neurons to skip, with lowrank, sentence, gate and\n"
                 "topk (default: the model's)"),
    OPTION(NONE, portable, "portable", 0, NULL,
           "embed in int8 with the same bits on every machine and in every\n"
           "WebAssembly engine"),
    TAKEN(take_kernels, kernels, "cpu", 0, "SET",
          "kernel set to use: see wisp --version (default: the fastest)"),
    OPTION(NONE, verbose, "verbose", 0, NULL,
           "print settings that the model's file lacks and wisp assumes, and\n"
           "the kinds of the dense layers' weights in memory"),
    LAST_OPTION,
};

static const char where_models_are[] =
    "\n"
    "Models of the Hugging Face Hub are kept in its cache ($HF_HOME/hub, else\n"
    "~/.cache/huggingface/hub), and files at addresses in another ($WISP_CACHE, else\n"
    "$XDG_CACHE_HOME/wisp, else ~/.cache/wisp) of at most $WISP_CACHE_BYTES (default: 16G).\n"
    "wisp list shows both.\n";

#define MODEL_OPTIONS(variable)                                                                    \
    TAKEN(take_model_path, path, "model", 'm', "PATH",                                             \
          "GGUF file; Hugging Face folder; hf:owner/name[@revision][/file] on the\n"               \
          "Hugging Face Hub; or the http(s):// address of a GGUF file (default:\n" variable        \
          ", else the model that comes with wisp)"),                                               \
        COUNT(threads, 1, 1024, "threads", 't', "N",                                               \
              "threads to compute with (default: those that it may keep busy)"),                   \
        MODEL_GROUP(more_model_options, where_models_are)

const struct command_option model_options[] = {MODEL_OPTIONS("$WISP_MODEL"), LAST_OPTION};
const struct command_option generator_options[] = {MODEL_OPTIONS("$WISP_GENERATOR"), LAST_OPTION};

static int take_device(void *field, const char *value) {
    *(const char **)field = value;
    for (size_t i = 0; wisp_device_name(i); i++)
        if (strcmp(value, wisp_device_name(i)) == 0)
            return EXIT_GOOD;
    return complain_of_name("device", value, wisp_device_name);
}

const struct command_option device_options[] = {
    TAKEN(take_device, device, "device", 0, "NAME",
          "where to compute: cpu (default); cuda, the first NVIDIA GPU, which\n"
          "needs libwisp-cuda.so; or auto: cuda if it can, else cpu"),
    LAST_OPTION,
};

const struct command_option cache_options[] = {
    TAKEN(take_cache_type, cache_type, "cache-type", 0, "TYPE",
          "the type of the text's keys and values: f32; f16, which takes half the\n"
          "memory; int8, 27 %; or auto, which is int8 if the model computes in\n"
          "int8, else f32 (default: auto)"),
    OPTION(TEXT, attention, "attention", 0, "POLICY",
           "which keys a token looks at: full; mass[,mass=N], those with N of\n"
           "1000 parts of the weight; local[,window=N][,sinks=N]; strided, with\n"
           "[,stride=N]; PREFILL/DECODE for two policies, the second for one\n"
           "token at a time: full/quest[,tokens=N] or minference[,budget=N]/full,\n"
           "N of 100; learned or auto: what wisp calibrate --attention has found\n"
           "(default: full)"),
    LAST_OPTION,
};

const struct command_option memory_options[] = {
    OPTION(BYTES, memory, "memory", 0, "BYTES",
           "the most memory for the weights of a model that generates; the others\n"
           "are read from the file when a token needs them (default: no limit)"),
    LAST_OPTION,
};

const struct command_option kv_options[] = {
    OPTION(BYTES, kv_memory, "kv-memory", 0, "BYTES",
           "the most memory for the keys and values of a text; the others are in\n"
           "an unnamed file in $TMPDIR, else /var/tmp (default: no limit)"),
    LAST_OPTION,
};

const struct command_option prompt_cache_options[] = {
    OPTION(TEXT, prompt_cache, "prompt-cache", 0, "DIR",
           "also keep the keys and values of texts in files in DIR, and read\n"
           "those of prompts that begin like a known text"),
    OPTION(BYTES, prompt_cache_size, "prompt-cache-size", 0, "BYTES",
           "the most bytes of all files in DIR; the least\n"
           "recently used ones are deleted (default: 4G)"),
    LAST_OPTION,
};

const struct command_option vector_cache_options[] = {
    OPTION(TEXT, vector_cache, "vector-cache", 0, "DIR",
           "keep embeddings in a file in DIR, and read those of texts that were\n"
           "embedded before by the same model and options, in any process; with\n"
           "--portable on any machine"),
    OPTION(BYTES, vector_cache_size, "vector-cache-size", 0, "BYTES",
           "of the file: embeddings used longest ago are replaced (default: 1G)"),
    LAST_OPTION,
};

int check_caches(const struct model_arguments *a) {
    if (a->prompt_cache_size && !a->prompt_cache)
        complain("--prompt-cache-size requires --prompt-cache");
    else if (a->vector_cache_size && !a->vector_cache)
        complain("--vector-cache-size requires --vector-cache");
    else
        return EXIT_GOOD;
    return EXIT_USAGE;
}
