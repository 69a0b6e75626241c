/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "formats/bitnet.h"
#include "formats/gguf.h"
#include "formats/neurons_read.h"
#include "formats/schema.h"
#include "models/assumptions.h"
#include "models/rest.h"
#include "sparse/neuron_cold.h"

enum { KEY_BYTES = 256, MIN_TOKENS = 3 };

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

/* Resolves WISP_PREDICTOR_AUTO. A model that generates stays dense: members of a pass over one
 * token split outputs, which only dense layers can. Chooses lowrank where the file is calibrated
 * for it and it is fastest; else exact where that is faster than dense, whose embeddings it matches
 * as closely as rounding allows (docs/sparse.md). */
static wisp_predictor best_predictor(const wisp_model *model, const wisp_model_options *options,
                                     const struct kernels *kernels) {
    const struct model_config *config = &model->network.config;
    const bool relu = config->activation == ACTIVATION_RELU;
    const float most = relu ? kernels->lowrank_most_share_relu : kernels->lowrank_most_share;
    if (model->dir.lacks_neurons)
        return WISP_PREDICTOR_LOWRANK;
    if (!model->int8 || options->portable || model->network.architecture->generates ||
        !sparse_sizes_fit(config->hidden_size, config->intermediate_size))
        return WISP_PREDICTOR_DENSE;
    const float rounding = 1e-4f; /* error of 1 - sparsity in floats */
    if (model->plan.levels > 0 && model->plan.share <= most + rounding)
        return WISP_PREDICTOR_LOWRANK;
    return relu && kernels->exact_wins ? WISP_PREDICTOR_EXACT : WISP_PREDICTOR_DENSE;
}

static const char sentence_tensor[] = TENSOR_LAYER_PREFIX "0." TENSOR_SENTENCE_P TENSOR_WEIGHT;

/* Sets the predictor, its plan and int8, which all predictors but dense need. Fails where the model
 * lacks the predictor, or f32 was asked for. */
static wisp_status choose_predictor(wisp_model *model, const wisp_model_options *options,
                                    const struct kernels *kernels, wisp_error *error) {
    model->predictor = options->predictor;
    if (options->predictor == WISP_PREDICTOR_AUTO)
        model->predictor = best_predictor(model, options, kernels);
    if (model->dir.lacks_neurons && !model_has_thresholds(model))
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "predictor",
                    "%s computes all neurons of a layer, and cold ones are not loaded (hot_only)",
                    wisp_predictor_name((size_t)model->predictor));
    model->plan.exact = model->predictor == WISP_PREDICTOR_EXACT;
    model->plan.by_text = model->predictor == WISP_PREDICTOR_SENTENCE;
    if (model->predictor == WISP_PREDICTOR_DENSE)
        return WISP_OK;
    if (options->portable)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "portable",
                    "sparse layers (%s) have no portable results",
                    wisp_predictor_name((size_t)model->predictor));
    if (options->compute == WISP_COMPUTE_F32)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "predictor",
                    "sparse layers compute in int8, and f32 was asked for");
    if (model->predictor == WISP_PREDICTOR_LOWRANK && model->plan.levels == 0)
        return fail(error, WISP_ERROR_NOT_FOUND, model->dir.file, KEY_SPARSE_SHARES,
                    "the model has no predictor: wisp calibrate makes one");
    if (model->plan.by_text &&
        (model->plan.levels == 0 || !directory_find_tensor(&model->dir, sentence_tensor)))
        return fail(error, WISP_ERROR_NOT_FOUND, model->dir.file, sentence_tensor,
                    "the model has no predictor for whole texts: wisp calibrate --sentence makes "
                    "one");
    model->int8 = true;
    return WISP_OK;
}

static wisp_status load_network(wisp_model *model, const wisp_model_options *options,
                                const struct kernels *kernels, wisp_error *error) {
    const struct model_config *config = &model->network.config;
    TRY(sparse_read_plan(&model->dir, config->layers, config->intermediate_size, &model->plan,
                         error));
    TRY(choose_predictor(model, options, kernels, error));
    const bool sparse = model->predictor != WISP_PREDICTOR_DENSE;
    return network_load(&model->network, kernels, model->int8, sparse ? &model->plan : NULL,
                        options->in_memory, error);
}

/* Resolves WISP_COMPUTE_AUTO: int8 where the file stores the first feed-forward layer quantised. */
static bool wants_int8(const struct directory *dir, wisp_compute compute) {
    if (compute != WISP_COMPUTE_AUTO)
        return compute == WISP_COMPUTE_INT8;
    const struct tensor *weight =
        directory_find_tensor(dir, TENSOR_LAYER_PREFIX "0." TENSOR_FFN_UP TENSOR_WEIGHT);
    return weight && (weight->format->elements > 1 || bitnet_made(weight));
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
    const uint32_t hidden_size = model->network.config.hidden_size;
    model->dimensions = hidden_size;
    TRY(metadata_u32_or(&model->dir, KEY_DIMENSIONS, &model->dimensions, error));
    if (model->dimensions == 0)
        return fail(error, WISP_ERROR_FORMAT, model->dir.file, KEY_DIMENSIONS,
                    "an embedding has at least one value");
    model->dimensions = model->dimensions < hidden_size ? model->dimensions : hidden_size;
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
                    "there is no prompt of the name %s", name);
    return WISP_OK;
}

static wisp_status check_options(const wisp_model_options *options, wisp_error *error) {
    if (!wisp_compute_name((size_t)options->compute))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "compute", "%d is no wisp_compute",
                    (int)options->compute);
    if (!wisp_predictor_name((size_t)options->predictor))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "predictor", "%d is no wisp_predictor",
                    (int)options->predictor);
    return WISP_OK;
}

/* The tokenizer has its own copy of the tokens' texts, and in modules that only embed no function
 * returns one. Their memory is used for weights: WebAssembly memory never shrinks. */
#ifdef WISP_EMBED_ONLY
enum { KEEPS_TOKEN_TEXTS = 0 };
#else
enum { KEEPS_TOKEN_TEXTS = 1 };
#endif

/* WebAssembly memory never shrinks. Evicting neurons would not give any back, so cold neurons
 * always have frames there, which are used again. */
#ifdef __wasm__
enum { IN_FRAMES = 1 };
#else
enum { IN_FRAMES = 0 };
#endif

/* In modules that only embed nothing asks for it: JavaScript compares the headers of models by
 * range (js/cold.js). */
#ifdef WISP_EMBED_ONLY
enum { HEADER_MAY_BE_PINNED = 0 };
#else
enum { HEADER_MAY_BE_PINNED = 1 };
#endif

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
                    "%.80s: %zu hexadecimal digits of lower case belong here",
                    options->header_sha256, sizeof hex - 1);
    if (!chunks->digests)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "header_sha256",
                    "the file has no digests of its chunks, and so its header says nothing of the "
                    "other bytes");
    TRY(chunks_hash_header(&model->dir, chunks, digest, error));
    sha256_text(digest, hex);
    if (strcmp(hex, options->header_sha256) != 0)
        return fail(error, WISP_ERROR_FORMAT, model->dir.file, "header_sha256",
                    "the header's SHA-256 is %s, and not %s", hex, options->header_sha256);
    const bool from_beginning = options->hot_only && model->dir.sources[0].available > 0;
    return chunks_verify(&model->dir, chunks, options->hot_only ? chunks->n_hot : 0,
                         from_beginning ? chunks->n_hot : chunks->n, error);
}

/* Divides `memory` (0: no limit), of which the rest of the model has taken its part, between cold
 * neurons and tokens in proportion to what all of them would take. */
static wisp_status reserve_cold(wisp_model *model, uint64_t memory, wisp_error *error) {
    struct network *network = &model->network;
    const uint64_t row_bytes = network->tokens.tensor->row_bytes + COLD_SLOT_BYTES;
    uint64_t frame_bytes;
    size_t least_frames, frames = neuron_cold_count(&network->neurons, &least_frames, &frame_bytes);
    size_t tokens = token_embedding_cold(&network->tokens);
    const size_t least_tokens = smaller(tokens, LEAST_COLD_TOKENS);
    const size_t all_frames = frames;
    wisp_model_info info;
    wisp_model_get_info(model, &info);
    const uint64_t least =
        info.resident_bytes + least_frames * frame_bytes + least_tokens * row_bytes;
    model->least_memory = least;
    const uint64_t others =
        (frames - least_frames) * frame_bytes + (tokens - least_tokens) * row_bytes;
    if (memory > 0 && memory < least)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "memory",
                    "the least is %llu bytes", (unsigned long long)least);
    if (memory > 0 && memory - least < others) {
        const uint64_t rest = memory - least; /* the products below are smaller than 2^64 */
        frames = least_frames + (size_t)(rest * (frames - least_frames) / others);
        tokens = least_tokens + (size_t)(rest * (tokens - least_tokens) / others);
    }
    frames = smaller(frames, MOST_FRAMES);
    model->cold_limited = frames < all_frames || tokens < token_embedding_cold(&network->tokens);
    if (model->dir.lacks_neurons)
        TRY(neuron_cold_reserve(&network->neurons, frames, frames < all_frames, error));
    return tokens > 0 ? token_embedding_reserve(&network->tokens, tokens, error) : WISP_OK;
}

static wisp_status load(wisp_model *model, const wisp_model_options *options, wisp_error *error) {
    const struct kernels *kernels;
    TRY(check_options(options, error));
    /* The architecture comes first: where wisp does not know it, no other error would make
     * sense. */
    TRY(network_open(&model->network, &model->dir, error));
    if (options->hot_only && !COLD_NEURONS_MAY_BE_ABSENT)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "hot_only",
                    "this build opens models with all of their neurons");
    if (options->portable && options->compute == WISP_COMPUTE_F32)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "portable",
                    "results are portable in int8 only, and f32 was asked for");
    if (options->portable && !model->network.architecture->embeds)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "portable",
                    "only embeddings are portable, and this model generates");
    if (options->hot_only && !model->network.architecture->embeds)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "hot_only",
                    "only models that make embeddings open without their cold neurons");
    if (!IN_FRAMES && options->memory > 0 && !options->hot_only)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "memory",
                    "only models opened with hot_only have a limit");
    TRY(choose_kernels(options, &kernels, error));
    if (options->header_sha256 && !HEADER_MAY_BE_PINNED)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "header_sha256",
                    "this build compares no header");
    const bool pinned = HEADER_MAY_BE_PINNED && options->header_sha256;
    if (COLD_NEURONS_MAY_BE_ABSENT || pinned)
        TRY(chunks_read(&model->dir, &model->chunks, error));
    if (pinned)
        TRY(check_header(model, options, error));
    if (COLD_NEURONS_MAY_BE_ABSENT && options->hot_only) {
        uint64_t hot_bytes;
        TRY(neurons_hot_bytes(&model->dir, &hot_bytes, error));
        const wisp_source *source = &model->dir.sources[0];
        const uint64_t available = source->available;
        if (available > 0 && available < hot_bytes)
            return fail(error, WISP_ERROR_IO, model->dir.file, NULL,
                        "bytes %llu to %llu are missing, before the first cold neuron",
                        (unsigned long long)available, (unsigned long long)hot_bytes - 1);
        TRY(chunks_verify(&model->dir, &model->chunks, 0, model->chunks.n_hot, error));
        model->dir.hot_only = true;
        model->dir.lacks_neurons = neurons_are_cold(&model->dir);
        model->dir.cold_framed =
            IN_FRAMES || (options->memory > 0 && available > 0 && !source_reads_again(source));
        /* Frames say that one session alone uses what may be given up; a module has one. */
        model->limit_due = !IN_FRAMES && options->memory > 0 && !model->dir.cold_framed;
        if (!IN_FRAMES && model->dir.cold_framed && !model->dir.lacks_neurons)
            return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "memory",
                        "the file has no cold neurons, which could be given up");
    }
    if (model->network.architecture->embeds)
        TRY(tokenizer_open(&model->dir, &model->tokenizer, error));
    if (!KEEPS_TOKEN_TEXTS || (options->hot_only && options->memory > 0))
        directory_drop_vocabulary(&model->dir);
    if (model->network.architecture->generates)
        TRY(model->network.architecture->open_codec(&model->dir, &model->codec, error));
    model->int8 = options->portable || wants_int8(&model->dir, options->compute);
    if (options->memory > 0 && !options->in_memory && model_may_rest(model)) {
        const uint64_t others = model_other_bytes(model);
        TRY(rest_open(&model->network, options->memory > others ? options->memory - others : 0,
                      error));
    }
    TRY(load_network(model, options, kernels, error));
    const size_t words = model->tokenizer ? tokenizer_vocabulary_size(model->tokenizer)
                                          : codec_vocabulary_size(model->codec);
    const uint32_t rows = model->network.config.vocabulary_size;
    /* A generating model may choose any row, so each must have a text. */
    if (words > rows || (model->codec && words < rows))
        return fail(error, WISP_ERROR_FORMAT, model->dir.file, TENSOR_TOKENS,
                    "%u rows for a vocabulary of %zu tokens", rows, words);
    TRY(read_max_tokens(model, error));
    TRY(read_dimensions(model, error));
    TRY(read_default_prompt(model, error));
    if (COLD_NEURONS_MAY_BE_ABSENT && model->dir.cold_framed)
        TRY(reserve_cold(model, options->memory, error));
    else if (COLD_NEURONS_MAY_BE_ABSENT && token_embedding_cold(&model->network.tokens) > 0)
        TRY(token_embedding_reserve(&model->network.tokens,
                                    token_embedding_cold(&model->network.tokens), error));
    if (options->in_memory)
        directory_close_sources(&model->dir);
    if (!IN_FRAMES && model->dir.hot_only && !model->dir.cold_framed) {
        wisp_model_info info;
        wisp_model_get_info(model, &info);
        model->least_memory = info.resident_bytes - model->dir.vocabulary.total -
                              (model_may_rest(model) ? rest_saves(&model->network) : 0);
    }
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
    if (status == WISP_OK && !IN_FRAMES && options && options->hot_only && options->memory > 0 &&
        source->available == 0)
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

bool wisp_model_get_cold_stats(const wisp_model *model, wisp_cold_stats *stats) {
    *stats = (wisp_cold_stats){0};
    if (!COLD_NEURONS_MAY_BE_ABSENT || !model->dir.hot_only)
        return false;
    if (model->network.neurons.cold)
        neuron_cold_stats(&model->network.neurons, stats);
    stats->tokens = token_embedding_provided(&model->network.tokens);
    stats->least_memory = model->least_memory;
    return true;
}

bool wisp_model_get_neurons(const wisp_model *model, size_t layer, wisp_layer_neurons *about,
                            uint64_t *present, uint64_t *needed) {
    const struct neuron_store *neurons = &model->network.neurons;
    if (!COLD_NEURONS_MAY_BE_ABSENT || !neurons->cold || layer >= neurons->shape.layers)
        return false;
    *about = neuron_cold_layer(neurons, layer, present, needed);
    return true;
}

void wisp_model_close(wisp_model *model) {
    if (!model)
        return;
    network_release(&model->network);
    tokenizer_close(model->tokenizer);
    codec_close(model->codec);
    directory_release(&model->dir);
    free(model);
}

bool model_may_rest(const wisp_model *model) {
    const struct directory *dir = &model->dir;
    return WEIGHTS_MAY_REST && dir->hot_only && !dir->cold_framed && dir->n_sources == 1 &&
           dir->sources[0].lasting;
}

uint64_t model_other_bytes(const wisp_model *model) {
    return model->dir.arena.total + (KEEPS_TOKEN_TEXTS ? model->dir.vocabulary.total : 0) +
           (model->tokenizer ? tokenizer_resident_bytes(model->tokenizer) : 0) +
           (model->codec ? codec_resident_bytes(model->codec) : 0);
}

static uint64_t count_parameters(const struct directory *dir) {
    uint64_t total = 0;
    for (size_t i = 0; i < dir->n_tensors; i++)
        total += dir->tensors[i].rows * dir->tensors[i].dims[0];
    return total;
}

bool model_has_thresholds(const wisp_model *model) {
    return model->predictor == WISP_PREDICTOR_LOWRANK ||
           model->predictor == WISP_PREDICTOR_SENTENCE;
}

float model_default_sparsity(const wisp_model *model) {
    return 1 - model->plan.share;
}

void wisp_model_get_info(const wisp_model *model, wisp_model_info *info) {
    const struct model_config *config = &model->network.config;
    const struct metadata *name = directory_find_metadata(&model->dir, "general.name");
    const uint64_t token_row_bytes = model->network.tokens.tensor->row_bytes;
    wisp_cold_stats cold;
    wisp_model_get_cold_stats(model, &cold);
    *info = (wisp_model_info){
        .name = name && name->type == VALUE_STRING ? name->as.text.bytes : "",
        .architecture = model->network.architecture->name,
        .compute = wisp_compute_name(model->int8 ? WISP_COMPUTE_INT8 : WISP_COMPUTE_F32),
        .kernels = model->network.kernels->name,
        .predictor = wisp_predictor_name(model->predictor),
        .sparsity = model_has_thresholds(model) ? model_default_sparsity(model) : 0,
        .pooling = !model->network.architecture->embeds ? ""
                   : config->pooling == POOLING_CLS     ? "cls"
                                                        : "mean",
        .hidden_size = config->hidden_size,
        .intermediate_size = config->intermediate_size,
        .layers = config->layers,
        .heads = config->heads,
        .vocabulary_size = config->vocabulary_size,
        .max_tokens = model->max_tokens,
        .parameters = count_parameters(&model->dir),
        .resident_bytes = model->network.resident_bytes + cold.warm_bytes +
                          cold.tokens * token_row_bytes + model_other_bytes(model),
    };
}

size_t wisp_model_dimensions(const wisp_model *model) {
    return model->dimensions;
}

const char *wisp_model_prompt(const wisp_model *model, const char *name) {
    char key[KEY_BYTES];
    if (!name)
        return model->default_prompt;
    const int length = snprintf(key, sizeof key, KEY_PROMPT_PREFIX "%s", name);
    if (length < 0 || (size_t)length >= sizeof key)
        return NULL;
    const struct metadata *entry = directory_find_metadata(&model->dir, key);
    return entry && entry->type == VALUE_STRING ? entry->as.text.bytes : NULL;
}

bool wisp_model_get_weights(const wisp_model *model, size_t index, wisp_weights *weights) {
    const struct weight_tally *tally = model->network.tally;
    if (index >= MAX_WEIGHT_KINDS || !tally[index].kind)
        return false;
    *weights = (wisp_weights){.kind = tally[index].kind->name, .bytes = tally[index].bytes};
    return true;
}

bool wisp_model_get_assumption(const wisp_model *model, size_t index, wisp_assumption *assumption) {
    return assumption_get(&model->dir, index, assumption);
}

bool wisp_model_metadata(const wisp_model *model, size_t index, const char **key, char *value,
                         size_t capacity) {
    if (index >= model->dir.n_metadata)
        return false;
    const struct metadata *entry = &model->dir.metadata[index];
    *key = entry->key;
    metadata_format(entry, value, capacity);
    return true;
}

wisp_status wisp_tokenize(const wisp_model *model, wisp_text text, int32_t *ids, size_t capacity,
                          size_t *count, wisp_error *error) {
    TRY(require(model, "model", error));
    TRY(require(count, "count", error));
    if (capacity > 0)
        TRY(require(ids, "ids", error));
    TRY(require_texts(&text, 1, error));
    if (model->codec) {
        struct token_list list = {0};
        const wisp_status status = codec_encode(model->codec, text, true, &list, error);
        *count = list.count;
        if (status == WISP_OK && capacity > 0 && list.count > 0)
            memcpy(ids, list.ids, (*count < capacity ? *count : capacity) * sizeof *ids);
        free(list.ids);
        return status;
    }
    const size_t bytes = model->max_tokens * sizeof(int32_t);
    int32_t *all = malloc(bytes);
    if (!all)
        return fail_memory(error, bytes);
    *count = tokenizer_encode(model->tokenizer, text, model->max_tokens, all, NULL);
    if (capacity > 0)
        memcpy(ids, all, (*count < capacity ? *count : capacity) * sizeof *ids);
    free(all);
    return WISP_OK;
}

wisp_status wisp_count_tokens(const wisp_model *model, wisp_text text, size_t *count,
                              wisp_error *error) {
    TRY(require(model, "model", error));
    if (model->codec)
        return wisp_tokenize(model, text, NULL, 0, count, error);
    TRY(require(count, "count", error));
    TRY(require_texts(&text, 1, error));
    *count = tokenizer_encode(model->tokenizer, text, SIZE_MAX, NULL, NULL);
    return WISP_OK;
}
