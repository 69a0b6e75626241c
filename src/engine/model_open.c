/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/product.h"
#include "base/sha256.h"
#include "device/open.h"
#include "engine/residency.h"
#include "formats/bitnet.h"
#include "formats/gguf.h"
#include "formats/neurons_read.h"
#include "formats/schema.h"
#include "sparse/neuron_cold.h"

enum {
    MIN_TOKENS = 3,
    /* Rows of fewer inputs were not faster to gather by a low-rank predictor than all rows are to
     * read (docs/sparse.md). */
    LEAST_PREDICTED_SIZE = 2048
};

/* Returns whether the options ask for f32 or bf16. */
static bool asks_for_floats(const wisp_model_options *options) {
    return options->compute != WISP_COMPUTE_AUTO && options->compute != WISP_COMPUTE_INT8;
}

static wisp_status choose_kernels(const wisp_model_options *options, const struct kernels **kernels,
                                  wisp_error *error) {
    const char *name = options->kernels;
    *kernels = kernels_find(name);
    if (!*kernels)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "kernels",
                    "the kernel set %s is unknown or does not run on this CPU", name);
    if (options->portable)
        *kernels = kernels_find_portable(name);
    if (!*kernels)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "portable",
                    "the kernel set %s has no portable results", name ? name : "of this engine");
    return WISP_OK;
}

/* Returns whether layers of the model choose neurons by their gates with this predictor. */
static bool chooses_by_gates(const wisp_model *model, wisp_predictor predictor) {
    return predictor == WISP_PREDICTOR_GATE || predictor == WISP_PREDICTOR_TOPK ||
           (TEXT_IS_PREDICTED && predictor == WISP_PREDICTOR_LOWRANK &&
            !config_embeds(&model->network.config));
}

/* Returns whether the layers of the model can choose neurons by their gates. */
static bool can_gather(const wisp_model *model, const struct kernels *kernels) {
    const struct model_config *config = &model->network.config;
    return !config_embeds(config) && config_is_gated(config) && !config->has_bias &&
           kernels->gather && gathered_sizes_fit(config->hidden_size, config->intermediate_size);
}

/* Fails if the model's layers cannot choose neurons by their gates, or lack what they need. */
static wisp_status check_gates(const wisp_model *model, const struct kernels *kernels,
                               wisp_error *error) {
    const struct model_config *config = &model->network.config;
    const char *name = wisp_predictor_name((size_t)model->predictor);
    if (!can_gather(model, kernels))
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "predictor",
                    "%s is for models that generate, with gated layers without biases, whose "
                    "hidden_size (here %u) and intermediate_size (%u) are multiples of %d",
                    name, config->hidden_size, config->intermediate_size, GATHER_BLOCK);
    if (model->predictor == WISP_PREDICTOR_GATE && model->plan.levels == 0 &&
        (!TEXT_IS_PREDICTED || !activation_has_zeros(config->activation)))
        return fail(error, WISP_ERROR_NOT_FOUND, model->dir.file, KEY_GATE_SHARES,
                    "the model has no thresholds of gates: wisp calibrate makes them");
    return WISP_OK;
}

/* Sets the plan of a predictor of layers that choose by their gates. Without thresholds gate leaves
 * out the neurons whose gates are 0. */
static void take_gate_plan(wisp_model *model) {
    if (TEXT_IS_PREDICTED && model->predictor == WISP_PREDICTOR_LOWRANK)
        model->plan.by_gate = model->plan.predicts = true;
    else
        model->plan = model->gate_plan;
    if (TEXT_IS_PREDICTED && model->predictor == WISP_PREDICTOR_GATE && model->plan.levels == 0)
        model->plan.share = 1;
}

/* Resolves WISP_PREDICTOR_AUTO (docs/sparse.md). Of a model that generates chooses lowrank, or else
 * gate, if the file is calibrated for it and it is faster than dense. Of others chooses lowrank if
 * the file is calibrated for it and it is fastest; else exact if that is faster than dense, whose
 * embeddings it matches as closely as rounding allows. */
static wisp_predictor best_predictor(const wisp_model *model, const wisp_model_options *options,
                                     const struct kernels *kernels) {
    const struct model_config *config = &model->network.config;
    const bool relu = config->activation == ACTIVATION_RELU;
    const float most = relu ? kernels->lowrank_most_share_relu : kernels->lowrank_most_share;
    if (model->dir.residency.lacks_neurons)
        return WISP_PREDICTOR_LOWRANK;
    const float rounding = 1e-4f; /* error of 1 - sparsity in floats */
    if (model->compute != WISP_COMPUTE_INT8 || options->portable)
        return WISP_PREDICTOR_DENSE;
    if (TEXT_IS_PREDICTED && !config_embeds(config) && can_gather(model, kernels) &&
        options->memory == 0 && config->hidden_size >= LEAST_PREDICTED_SIZE &&
        model->plan.levels > 0 && model->plan.share <= kernels->predicted_most_share + rounding)
        return WISP_PREDICTOR_LOWRANK;
    if (!config_embeds(config))
        return can_gather(model, kernels) && model->gate_plan.levels > 0 &&
                       model->gate_plan.share <= kernels->gate_most_share + rounding
                   ? WISP_PREDICTOR_GATE
                   : WISP_PREDICTOR_DENSE;
    if (!sparse_sizes_fit(config->hidden_size, config->intermediate_size))
        return WISP_PREDICTOR_DENSE;
    if (model->plan.levels > 0 && model->plan.share <= most + rounding)
        return WISP_PREDICTOR_LOWRANK;
    return relu && kernels->exact_wins ? WISP_PREDICTOR_EXACT : WISP_PREDICTOR_DENSE;
}

static const char sentence_tensor[] = TENSOR_LAYER_PREFIX "0." TENSOR_SENTENCE_P TENSOR_WEIGHT;

/* Sets the predictor, its plan and int8, which all predictors but dense need. Fails if the model
 * lacks the predictor, or floats were asked for. */
static wisp_status choose_predictor(wisp_model *model, const wisp_model_options *options,
                                    const struct kernels *kernels, wisp_error *error) {
    model->predictor = options->predictor;
    if (options->predictor == WISP_PREDICTOR_AUTO)
        model->predictor = device_computes(&model->device)
                               ? WISP_PREDICTOR_DENSE
                               : best_predictor(model, options, kernels);
    if (model->dir.residency.lacks_neurons && !model_has_thresholds(model))
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "predictor",
                    "%s computes all neurons of a layer, but cold ones are not loaded (hot_only)",
                    wisp_predictor_name((size_t)model->predictor));
    model->plan.exact = model->predictor == WISP_PREDICTOR_EXACT;
    model->plan.by_text = model->predictor == WISP_PREDICTOR_SENTENCE;
    if (model->predictor == WISP_PREDICTOR_DENSE)
        return WISP_OK;
    if (model->network.config.experts.count > 0)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "predictor",
                    "layers of experts compute all neurons of the experts they choose: use dense, "
                    "not %s",
                    wisp_predictor_name((size_t)model->predictor));
    if (LINEAR_NORMALISES && model->network.config.has_sub_norms)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "predictor",
                    "the values of all neurons go through a norm: use dense, not %s",
                    wisp_predictor_name((size_t)model->predictor));
    if (options->portable)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "portable",
                    "sparse layers (%s) have no portable results",
                    wisp_predictor_name((size_t)model->predictor));
    if (asks_for_floats(options))
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "predictor",
                    "sparse layers compute in int8, but floats were asked for");
    if (chooses_by_gates(model, model->predictor)) {
        take_gate_plan(model);
        TRY(check_gates(model, kernels, error));
    }
    if (!ONLY_EMBEDS && !TEXT_IS_PREDICTED && model->predictor == WISP_PREDICTOR_LOWRANK &&
        !config_embeds(&model->network.config))
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "predictor",
                    "WebAssembly has no lowrank for models that generate");
    if (model->predictor == WISP_PREDICTOR_LOWRANK && model->plan.levels == 0)
        return fail(error, WISP_ERROR_NOT_FOUND, model->dir.file, KEY_SPARSE_SHARES,
                    "the model has no predictor: wisp calibrate makes one");
    if (model->plan.by_text &&
        (model->plan.levels == 0 || !directory_find_tensor(&model->dir, sentence_tensor)))
        return fail(error, WISP_ERROR_NOT_FOUND, model->dir.file, sentence_tensor,
                    "the model has no predictor for whole texts: wisp calibrate --sentence makes "
                    "one");
    model->compute = WISP_COMPUTE_INT8;
    return WISP_OK;
}

/* Refuses what only the processor computes. */
static wisp_status check_device(const wisp_model *model, const wisp_model_options *options,
                                wisp_error *error) {
    const bool takes_sparse = model->network.architecture->generates &&
                              options->predictor != WISP_PREDICTOR_LOWRANK &&
                              chooses_by_gates(model, options->predictor);
    const char *what = options->portable     ? "portable results"
                       : options->hot_only   ? "models without their cold neurons"
                       : options->memory > 0 ? "models of limited memory"
                       : options->predictor > WISP_PREDICTOR_DENSE && !takes_sparse
                           ? "sparse layers"
                       : options->compute == WISP_COMPUTE_BF16 ? "bf16"
                                                               : NULL;
    return what ? fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "device",
                       "the device %s does not compute %s: use cpu", options->device, what)
                : WISP_OK;
}

static wisp_status open_on(wisp_model *model, const wisp_model_options *options, const char *name,
                           wisp_error *error) {
    const wisp_status status =
        device_open(&model->device, name, &model->network, model->compute == WISP_COMPUTE_INT8,
                    chooses_by_gates(model, options->predictor), error);
    if (status != WISP_OK)
        device_close(&model->device);
    return status;
}

/* Opens the device that the options name. "auto" stands for the first one that computes this model,
 * and for the processor if there is none. */
static wisp_status open_device(wisp_model *model, const wisp_model_options *options,
                               wisp_error *error) {
    const char *name = options->device ? options->device : "cpu";
    if (!DEVICES_EXIST || strcmp(name, "cpu") == 0)
        return WISP_OK;
    wisp_status status = check_device(model, options, error);
    if (strcmp(name, "auto") != 0)
        return status == WISP_OK ? open_on(model, options, name, error) : status;
    for (size_t i = DEVICES_WITHOUT_LIBRARY; status == WISP_OK && device_names[i]; i++) {
        status = open_on(model, options, device_names[i], error);
        if (status != WISP_ERROR_UNSUPPORTED)
            return status;
        status = WISP_OK;
    }
    return WISP_OK;
}

static wisp_status load_network(wisp_model *model, const wisp_model_options *options,
                                const struct kernels *kernels, wisp_error *error) {
    const struct model_config *config = &model->network.config;
    if (ONLY_EMBEDS || config_embeds(config))
        TRY(sparse_read_plan(&model->dir, config->layers, config->intermediate_size, &model->plan,
                             error));
    else if (TEXT_IS_PREDICTED)
        TRY(sparse_read_plan_in_order(&model->dir, &model->plan, error));
    TRY(sparse_read_gate_plan(&model->dir, &model->gate_plan, error));
    TRY(open_device(model, options, error));
    TRY(choose_predictor(model, options, kernels, error));
    const bool sparse = model->predictor != WISP_PREDICTOR_DENSE;
    TRY(network_load(&model->network, kernels, model->compute, sparse ? &model->plan : NULL,
                     error));
    return device_computes(&model->device) ? device_load(&model->device, &model->network, error)
                                           : WISP_OK;
}

/* Returns whether the file stores the first feed-forward layer quantised. */
static bool is_quantised(const struct directory *dir) {
    const struct tensor *weight =
        directory_find_tensor(dir, TENSOR_LAYER_PREFIX "0." TENSOR_FFN_UP TENSOR_WEIGHT);
    if (!weight)
        weight =
            directory_find_tensor(dir, TENSOR_LAYER_PREFIX "0." TENSOR_UP_EXPERTS TENSOR_WEIGHT);
    return weight && (weight->format->elements > 1 || bitnet_made(weight));
}

/* Returns whether embeddings of a model in floats are computed in bf16 if nobody asks for a mode.
 * Text is generated in what the file has: rounded logits would choose other tokens now and then. */
static bool prefers_bf16(const wisp_model *model, const wisp_model_options *options,
                         const struct kernels *kernels) {
#ifndef __wasm__
    const bool on_cpu = !options->device || strcmp(options->device, "cpu") == 0;
    return on_cpu && config_embeds(&model->network.config) && kernels->bf16 &&
           kernels->bf16->fastest && kernels->bf16->runs();
#else
    (void)model, (void)options, (void)kernels;
    return false;
#endif
}

/* Resolves WISP_COMPUTE_AUTO. Fails if the processor, or the kernel set, does not compute in what
 * was asked for. */
static wisp_status choose_compute(wisp_model *model, const wisp_model_options *options,
                                  const struct kernels *kernels, wisp_error *error) {
    model->compute = options->compute;
    if (options->portable)
        model->compute = WISP_COMPUTE_INT8;
    if (model->compute == WISP_COMPUTE_AUTO)
        model->compute = is_quantised(&model->dir)               ? WISP_COMPUTE_INT8
                         : prefers_bf16(model, options, kernels) ? WISP_COMPUTE_BF16
                                                                 : WISP_COMPUTE_F32;
#ifndef __wasm__ /* where no option is called bf16 */
    if (model->compute == WISP_COMPUTE_BF16 && (!kernels->bf16 || !kernels->bf16->runs()))
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "compute",
                    "the kernel set %s does not compute in bf16 on this processor: use f32",
                    kernels->name);
#endif
    (void)kernels, (void)error;
    return WISP_OK;
}

static wisp_status read_max_tokens(wisp_model *model, wisp_error *error) {
    static const char key[] = KEY_MAX_SEQ_LENGTH;
    model->max_tokens = model->network.config.max_positions;
    TRY(metadata_u32_or(&model->dir, key, &model->max_tokens, error));
    if (model->max_tokens > model->network.config.max_positions)
        model->max_tokens = model->network.config.max_positions;
    if (model->max_tokens < MIN_TOKENS)
        return fail(error, WISP_ERROR_FORMAT, model->dir.file, key, "less than %d tokens",
                    MIN_TOKENS);
    return WISP_OK;
}

static wisp_status read_dimensions(wisp_model *model, wisp_error *error) {
    const struct network *network = &model->network;
    const bool splade = RANKS && network->config.pooling == POOLING_SPLADE;
    const uint32_t size =
        splade ? network->config.vocabulary_size
               : (uint32_t)dense_modules_outputs(&network->dense, network->config.hidden_size);
    model->dimensions = size;
    TRY(metadata_u32_or(&model->dir, KEY_DIMENSIONS, &model->dimensions, error));
    if (model->dimensions == 0)
        return fail(error, WISP_ERROR_FORMAT, model->dir.file, KEY_DIMENSIONS,
                    "an embedding has at least one value");
    if (splade && model->dimensions < size)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, KEY_DIMENSIONS,
                    "%u were asked for, but each of the %u words of the vocabulary has one",
                    model->dimensions, size);
    model->dimensions = model->dimensions < size ? model->dimensions : size;
    return WISP_OK;
}

static wisp_status read_pair_separators(wisp_model *model, wisp_error *error) {
    static const char key[] = KEY_PAIR_SEPARATORS;
    enum { MOST = 8, SPECIAL_TOKENS = 2 };
    model->pair_separators = tokenizer_codec(model->tokenizer) ? 2 : 1;
    TRY(metadata_u32_or(&model->dir, key, &model->pair_separators, error));
    if (model->network.config.pooling != POOLING_RANK)
        return WISP_OK;
    if (model->pair_separators > MOST ||
        model->max_tokens < model->pair_separators + SPECIAL_TOKENS)
        return fail(error, WISP_ERROR_FORMAT, model->dir.file, key, "%u are too many",
                    model->pair_separators);
    return WISP_OK;
}

static wisp_status read_default_prompt(wisp_model *model, wisp_error *error) {
    const char *name = NULL;
    model->default_prompt = "";
    model->pool_prompt = true;
    TRY(metadata_bool_or(&model->dir, KEY_POOL_PROMPT, &model->pool_prompt, error));
    TRY(metadata_text_or(&model->dir, KEY_DEFAULT_PROMPT_NAME, &name, error));
    if (!name || !*name)
        return WISP_OK;
    model->default_prompt = wisp_model_prompt(model, name);
    if (!model->default_prompt)
        return fail(error, WISP_ERROR_NOT_FOUND, model->dir.file, KEY_DEFAULT_PROMPT_NAME,
                    "the model has no prompt named %s", name);
    return WISP_OK;
}

static wisp_status check_options(const wisp_model_options *options, wisp_error *error) {
    if (!wisp_compute_name((size_t)options->compute))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "compute", "invalid wisp_compute value %d",
                    (int)options->compute);
    if (!wisp_predictor_name((size_t)options->predictor))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "predictor",
                    "invalid wisp_predictor value %d", (int)options->predictor);
    return WISP_OK;
}

/* Compares the header with the SHA-256 that the caller expects, and with the header's table all
 * chunks that are there. Those that are not, and hot ones of a model that is opened from them, are
 * compared elsewhere. */
static wisp_status check_header(const wisp_model *model, const wisp_model_options *options,
                                wisp_error *error) {
    const struct chunks *chunks = &model->chunks;
    unsigned char digest[CHUNK_DIGEST_BYTES];
    char hex[2 * CHUNK_DIGEST_BYTES + 1];
    if (strlen(options->header_sha256) != sizeof hex - 1 ||
        strspn(options->header_sha256, "0123456789abcdef") != sizeof hex - 1)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "header_sha256",
                    "%.80s: expected %zu lower-case hexadecimal digits", options->header_sha256,
                    sizeof hex - 1);
    if (!chunks->digests)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "header_sha256",
                    "the file has no digests of its chunks, and so its header says nothing of the "
                    "other bytes");
    TRY(chunks_hash_header(&model->dir, chunks, digest, error));
    sha256_text(digest, hex);
    if (strcmp(hex, options->header_sha256) != 0)
        return fail(error, WISP_ERROR_FORMAT, model->dir.file, "header_sha256",
                    "the header's SHA-256 is %s, not %s", hex, options->header_sha256);
    const bool from_beginning = options->hot_only && model->dir.sources[0].available > 0;
    return chunks_verify(&model->dir, chunks, options->hot_only ? chunks->n_hot : 0,
                         from_beginning ? chunks->n_hot : chunks->n, error);
}

/* Fails if results that are portable are asked for and not possible. */
static wisp_status check_portable(const wisp_model *model, const wisp_model_options *options,
                                  wisp_error *error) {
    if (options->portable && asks_for_floats(options))
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "portable",
                    "results are portable in int8 only, but floats were asked for");
    if (options->portable && directory_find_tensor(&model->dir, TENSOR_DENSE_2 TENSOR_WEIGHT))
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "portable",
                    "dense layers after pooling (dense_2) have no portable results");
    if (RANKS && options->portable && model->network.config.pooling == POOLING_SPLADE)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "portable",
                    "SPLADE has no portable results");
    if (RANKS && options->portable && model->network.config.pooling == POOLING_TOKENS)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "portable",
                    "vectors of tokens have no portable results");
    if (options->portable && model->network.architecture->generates)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "portable",
                    "only embeddings of encoders are portable, and this model is a decoder");
    return WISP_OK;
}

/* Reads the table of chunks, and compares what is compared when a model opens. */
static wisp_status check_bytes(wisp_model *model, const wisp_model_options *options,
                               wisp_error *error) {
    const uint64_t available = model->dir.sources[0].available;
    if (options->header_sha256 && !HEADER_MAY_BE_PINNED)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "header_sha256",
                    "this build cannot verify a header");
    const bool pinned = HEADER_MAY_BE_PINNED && options->header_sha256;
    if (COLD_NEURONS_MAY_BE_ABSENT || pinned)
        TRY(chunks_read(&model->dir, &model->chunks, error));
    if (pinned)
        TRY(check_header(model, options, error));
    if (!COLD_NEURONS_MAY_BE_ABSENT || !options->hot_only)
        return WISP_OK;
    uint64_t hot_bytes;
    TRY(neurons_hot_bytes(&model->dir, &hot_bytes, error));
    if (available > 0 && available < hot_bytes)
        return fail(error, WISP_ERROR_IO, model->dir.file, NULL,
                    "bytes %llu to %llu are missing, before the first cold neuron",
                    (unsigned long long)available, (unsigned long long)hot_bytes - 1);
    return chunks_verify(&model->dir, &model->chunks, 0, model->chunks.n_hot, error);
}

/* Opens the tokenizer, whose codec a model that generates needs. */
static wisp_status open_tokenizer(wisp_model *model, wisp_error *error) {
    const bool generates = !config_embeds(&model->network.config);
    TRY(tokenizer_open(&model->dir, &model->tokenizer, error));
    if (generates)
        model->codec = tokenizer_codec(model->tokenizer);
    if (generates && !model->codec)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "tokenizer.ggml.model",
                    "tokenizers of type \"bert\" are not supported for generating");
    if (model->dir.residency.drops_texts)
        directory_drop_vocabulary(&model->dir);
    return WISP_OK;
}

static wisp_status check_vocabulary(const wisp_model *model, wisp_error *error) {
    const size_t words = tokenizer_vocabulary_size(model->tokenizer);
    const uint32_t rows = model->network.config.vocabulary_size;
    /* A generating model may choose any row, so each must have a text. */
    if (words > rows || (model->codec && words < rows))
        return fail(error, WISP_ERROR_FORMAT, model->dir.file, TENSOR_TOKENS,
                    "%u rows for a vocabulary of %zu tokens", rows, words);
    return WISP_OK;
}

static wisp_status load(wisp_model *model, const wisp_model_options *options, wisp_error *error) {
    const struct kernels *kernels;
    TRY(check_options(options, error));
    /* The architecture comes first: if wisp does not know it, no other error would make sense. */
    TRY(network_open(&model->network, &model->dir, error));
    TRY(residency_check(model, options, error));
    TRY(check_portable(model, options, error));
    TRY(choose_kernels(options, &kernels, error));
    TRY(check_bytes(model, options, error));
    TRY(residency_set(model, options, error));
    TRY(open_tokenizer(model, error));
    TRY(choose_compute(model, options, kernels, error));
    TRY(residency_limit_weights(model, options->memory, error));
    TRY(load_network(model, options, kernels, error));
    TRY(check_vocabulary(model, error));
    TRY(read_max_tokens(model, error));
    if (RANKS)
        TRY(read_pair_separators(model, error));
    TRY(read_dimensions(model, error));
    TRY(read_default_prompt(model, error));
    for (size_t i = 0; model_steps[i]; i++)
        TRY(model_steps[i](model, error));
    TRY(residency_reserve(model, options->memory, error));
    if (options->in_memory)
        directory_close_sources(&model->dir);
    return WISP_OK;
}

wisp_status model_load(struct directory *dir, const wisp_model_options *options, double start,
                       wisp_model **model, wisp_error *error) {
    wisp_model *made = calloc(1, sizeof *made);
    if (!made) {
        directory_release(dir);
        return fail_memory(error, sizeof *made);
    }
    made->dir = *dir;
    const wisp_model_options defaults = {0};
    const wisp_status status = load(made, options ? options : &defaults, error);
    made->load_start = start;
    made->load_seconds = clock_seconds() - start;
    if (status == WISP_OK)
        *model = made;
    else
        wisp_model_close(made);
    return status;
}

/* Opens the directory of a GGUF source. The caller releases it, also after an error. */
static wisp_status open_directory(struct directory *dir, const wisp_source *source,
                                  wisp_error *error) {
    uint32_t index;
    *dir = (struct directory){.file = source->name ? source->name : "model"};
    TRY(directory_add_source(dir, source, &index, error));
    if (!source->data && !source->read)
        return fail(error, WISP_ERROR_ARGUMENT, dir->file, NULL, "a source without data or read");
    const char *name = arena_copy_text(&dir->arena, dir->file, strlen(dir->file));
    if (!name)
        return fail_memory(error, strlen(dir->file));
    dir->file = dir->sources[index].name = name;
    return gguf_read(dir, index, error);
}

wisp_status wisp_model_open_source(const wisp_source *source, const wisp_model_options *options,
                                   wisp_model **model, wisp_error *error) {
    const double start = clock_seconds();
    TRY(require(model, "model", error));
    *model = NULL;
    TRY(require(source, "source", error));
    struct directory dir;
    wisp_status status = open_directory(&dir, source, error);
    /* Nothing here would keep the limit: wisp_model_limit_memory of the native library does. */
    if (status == WISP_OK && !ALWAYS_IN_FRAMES && options && options->hot_only &&
        options->memory > 0 && source->available == 0)
        status = fail(error, WISP_ERROR_ARGUMENT, dir.file, "memory",
                      "a source that is all available is limited after it is opened, by "
                      "wisp_model_limit_memory");
    if (status == WISP_OK)
        return model_load(&dir, options, start, model, error);
    directory_release(&dir);
    return status;
}

wisp_status wisp_source_hot_bytes(const wisp_source *source, uint64_t *bytes, wisp_error *error) {
    struct directory dir;
    TRY(require(source, "source", error));
    TRY(require(bytes, "bytes", error));
    wisp_source borrowed = *source;
    borrowed.close = NULL;
    wisp_status status = open_directory(&dir, &borrowed, error);
    if (status == WISP_OK)
        status = neurons_hot_bytes(&dir, bytes, error);
    directory_release(&dir);
    return status;
}

void wisp_model_close(wisp_model *model) {
    if (!model)
        return;
    if (DEVICES_EXIST)
        device_close(&model->device);
    network_release(&model->network);
    tokenizer_close(model->tokenizer);
    directory_release(&model->dir);
    free(model->tokens);
    free(model->labels);
    free(model);
}
