/* SPDX-License-Identifier: Apache-2.0
 * Opens decoders of Llama's family on a device, and copies their weights there: as they are stored
 * if the device computes that, else quantised to Q8_0 or rounded to halves. */
#include "device/decoder.h"

#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "formats/schema.h"
#include "quant/blocks.h"

/* Rows of a matrix that are copied at a time. */
enum { ROWS_AT_ONCE = 1024 };

static const struct {
    enum activation activation;
    enum device_gate gate;
} gates[] = {{ACTIVATION_GATED_SILU, DEVICE_GATE_SILU},
             {ACTIVATION_GATED_RELU, DEVICE_GATE_RELU},
             {ACTIVATION_GATED_RELU_SQUARED, DEVICE_GATE_RELU_SQUARED}};

/* Returns what of a decoder the device does not compute, or NULL. */
static const char *find_missing(const struct model_config *c, enum device_gate *gate) {
    bool gated = false;
    for (size_t i = 0; i < sizeof gates / sizeof *gates; i++)
        if (gates[i].activation == c->activation) {
            *gate = gates[i].gate;
            gated = true;
        }
    return config_embeds(c)       ? "decoders that embed"
           : c->experts.count > 0 ? "layers of experts"
           : !gated               ? "feed-forward layers of this activation"
           : c->window > 0        ? "windows of attention"
           : c->long_after > 0    ? "LongRoPE"
           : c->has_bias          ? "biases"
                                  : NULL;
}

wisp_status device_decoder_open(struct device *device, const char *name,
                                const struct network *network, bool int8, bool sparse,
                                wisp_error *error) {
    const struct model_config *c = &network->config;
    char message[DEVICE_MESSAGE_BYTES] = "";
    struct device_decoder_shape shape = {.hidden_size = c->hidden_size,
                                         .intermediate_size = c->intermediate_size,
                                         .layers = c->layers,
                                         .heads = c->heads,
                                         .kv_heads = c->kv_heads,
                                         .head_size = c->head_size,
                                         .vocabulary_size = c->vocabulary_size,
                                         .positions = c->max_positions,
                                         .rotary_size = c->rotary_size,
                                         .neighbours = c->rope_pairs == ROPE_NEIGHBOURS,
                                         .qkv_bias = c->has_qkv_bias,
                                         .qk_norm = c->has_qk_norm,
                                         .halves = !int8 && !sparse,
                                         .sparse = sparse,
                                         .norm_epsilon = c->norm_epsilon,
                                         .attention_scale = c->attention_scale};
    if (!network->architecture->on_devices)
        return fail(error, WISP_ERROR_UNSUPPORTED, network->dir->file, "device",
                    "%s does not compute decoders of the architecture %.40s: use the device cpu",
                    name, network->architecture->name);
    const char *missing = find_missing(c, &shape.gate);
    if (missing)
        return fail(error, WISP_ERROR_UNSUPPORTED, network->dir->file, "device",
                    "%s does not compute %s: use the device cpu", name, missing);
    return device_check(device->library->decoder.open(&shape, &device->decoder, message),
                        network->dir->file, message, error);
}

/* ---- weights -------------------------------------------------------------------------------- */

/* The arguments for copying weights. */
struct upload {
    const struct device *device;
    const struct network *network;
    bool halves;
    struct tensor_cache cache;
};

static wisp_status put(const struct upload *u, enum device_decoder_tensor to, uint32_t layer,
                       enum device_format format, size_t first, size_t rows, const void *stored,
                       wisp_error *error) {
    char message[DEVICE_MESSAGE_BYTES] = "";
    return device_check(u->device->library->decoder.put(u->device->decoder, to, layer, format,
                                                        first, rows, stored, message),
                        u->network->dir->file, message, error);
}

/* Returns the device's name for a format in which the device takes matrices as they are stored. */
static bool takes_stored(const struct upload *u, const struct block_format *format,
                         enum device_format *taken) {
    static const struct {
        enum block_type type;
        enum device_format format;
    } same[] = {{BLOCK_F16, DEVICE_F16}, {BLOCK_Q8_0, DEVICE_Q8_0}, {BLOCK_Q4_0, DEVICE_Q4_0}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (same[i].type == format->id && (same[i].format == DEVICE_F16) == u->halves) {
            *taken = same[i].format;
            return true;
        }
    return false;
}

/* Reads rows [first, first + n) of a matrix, which are whole blocks, in the form that the device
 * takes. `stored`, `values` and `converted` have room for them; *rows points to one of them, or
 * into the source. */
static wisp_status read_rows(struct upload *u, const struct tensor *tensor, size_t first, size_t n,
                             void *stored, float *values, void *converted, const void **rows,
                             enum device_format *format, wisp_error *error) {
    const struct block_format *made = block_format_by_id(u->halves ? BLOCK_F16 : BLOCK_Q8_0);
    const struct directory *dir = u->network->dir;
    if (takes_stored(u, tensor->format, format))
        return directory_rows(dir, tensor, first, n, &u->cache, stored, rows, error);
    TRY(directory_floats(dir, tensor, first, n, &u->cache, stored, values, error));
    made->quantise(values, n * (size_t)tensor->dims[0], converted);
    *rows = converted;
    *format = u->halves ? DEVICE_F16 : DEVICE_Q8_0;
    return WISP_OK;
}

static wisp_status copy_matrix(struct upload *u, const char *name, size_t rows, size_t columns,
                               enum device_decoder_tensor to, uint32_t layer, wisp_error *error) {
    const struct tensor *tensor;
    TRY(directory_require_tensor(u->network->dir, name, columns, rows, &tensor, error));
    const size_t most = smaller(rows, ROWS_AT_ONCE), values_bytes = most * columns * sizeof(float);
    void *stored = memory_allocate(most * (size_t)tensor->row_bytes);
    float *values = memory_allocate(values_bytes);
    void *converted = memory_allocate(values_bytes);
    wisp_status status =
        stored && values && converted ? WISP_OK : fail_memory(error, 3 * values_bytes);
    for (size_t first = 0; first < rows && status == WISP_OK; first += most) {
        const size_t n = smaller(rows - first, most);
        const void *bytes = NULL;
        enum device_format format = DEVICE_F32;
        status = read_rows(u, tensor, first, n, stored, values, converted, &bytes, &format, error);
        if (status == WISP_OK)
            status = put(u, to, layer, format, first, n, bytes, error);
    }
    memory_free(stored);
    memory_free(values);
    memory_free(converted);
    return status;
}

static wisp_status copy_vector(const struct upload *u, const char *name, size_t size,
                               enum device_decoder_tensor to, uint32_t layer, wisp_error *error) {
    float *values = NULL;
    wisp_status status = directory_load_floats(u->network->dir, name, 1, size, &values, error);
    if (status == WISP_OK)
        status = put(u, to, layer, DEVICE_F32, 0, 1, values, error);
    memory_free(values);
    return status;
}

/* Copies cosines and sines of all positions. */
static wisp_status copy_rotations(const struct upload *u, wisp_error *error) {
    const struct model_config *c = &u->network->config;
    struct rope rope;
    u->network->architecture->rope(u->network, &rope);
    const size_t bytes = (size_t)c->max_positions * c->head_size * sizeof(float);
    float *table = memory_allocate(bytes);
    if (!table)
        return fail_memory(error, bytes);
    memset(table, 0, bytes);
    fill_rope_table(&rope, c->head_size, c->max_positions, table);
    const wisp_status status =
        put(u, DECODER_ROTATIONS, 0, DEVICE_F32, 0, c->max_positions, table, error);
    memory_free(table);
    return status;
}

enum place { EVERYWHERE, WITH_QKV_BIAS, WITH_QK_NORM };

/* Sizes of tensors, in the order of `sizes` below. */
enum size { ONE, HIDDEN, INNER, QUERIES, KEYS, HEAD, SIZES };

static const struct {
    const char *name, *suffix;
    enum device_decoder_tensor tensor;
    enum size rows, columns;
    enum place place;
} layer_tensors[] = {
    {"attn_norm", TENSOR_WEIGHT, DECODER_ATTENTION_NORM, ONE, HIDDEN, EVERYWHERE},
    {"attn_q", TENSOR_WEIGHT, DECODER_Q, QUERIES, HIDDEN, EVERYWHERE},
    {"attn_k", TENSOR_WEIGHT, DECODER_K, KEYS, HIDDEN, EVERYWHERE},
    {"attn_v", TENSOR_WEIGHT, DECODER_V, KEYS, HIDDEN, EVERYWHERE},
    {"attn_q", TENSOR_BIAS, DECODER_Q_BIAS, ONE, QUERIES, WITH_QKV_BIAS},
    {"attn_k", TENSOR_BIAS, DECODER_K_BIAS, ONE, KEYS, WITH_QKV_BIAS},
    {"attn_v", TENSOR_BIAS, DECODER_V_BIAS, ONE, KEYS, WITH_QKV_BIAS},
    {"attn_q_norm", TENSOR_WEIGHT, DECODER_Q_NORM, ONE, HEAD, WITH_QK_NORM},
    {"attn_k_norm", TENSOR_WEIGHT, DECODER_K_NORM, ONE, HEAD, WITH_QK_NORM},
    {"attn_output", TENSOR_WEIGHT, DECODER_OUTPUT, HIDDEN, QUERIES, EVERYWHERE},
    {"ffn_norm", TENSOR_WEIGHT, DECODER_FFN_NORM, ONE, HIDDEN, EVERYWHERE},
    {TENSOR_FFN_GATE, TENSOR_WEIGHT, DECODER_GATE, INNER, HIDDEN, EVERYWHERE},
    {TENSOR_FFN_UP, TENSOR_WEIGHT, DECODER_UP, INNER, HIDDEN, EVERYWHERE},
    {TENSOR_FFN_DOWN, TENSOR_WEIGHT, DECODER_DOWN, HIDDEN, INNER, EVERYWHERE},
};

static wisp_status copy_layer(struct upload *u, uint32_t layer, wisp_error *error) {
    const struct model_config *c = &u->network->config;
    const size_t sizes[SIZES] = {[ONE] = 1,
                                 [HIDDEN] = c->hidden_size,
                                 [INNER] = c->intermediate_size,
                                 [QUERIES] = (size_t)c->heads * c->head_size,
                                 [KEYS] = (size_t)c->kv_heads * c->head_size,
                                 [HEAD] = c->head_size};
    const bool has[] = {
        [EVERYWHERE] = true, [WITH_QKV_BIAS] = c->has_qkv_bias, [WITH_QK_NORM] = c->has_qk_norm};
    for (size_t i = 0; i < sizeof layer_tensors / sizeof *layer_tensors; i++) {
        const size_t columns = sizes[layer_tensors[i].columns];
        char name[TENSOR_NAME_BYTES];
        layer_tensor_name(name, layer, layer_tensors[i].name, layer_tensors[i].suffix);
        if (!has[layer_tensors[i].place])
            continue;
        TRY(layer_tensors[i].rows == ONE
                ? copy_vector(u, name, columns, layer_tensors[i].tensor, layer, error)
                : copy_matrix(u, name, sizes[layer_tensors[i].rows], columns,
                              layer_tensors[i].tensor, layer, error));
    }
    return WISP_OK;
}

/* Copies what scores of gates are multiplied by, of a network that chooses neurons by them. */
static wisp_status copy_neuron_weights(const struct upload *u, uint32_t layer, wisp_error *error) {
    const float *weights = u->network->feed_forward[layer].gathered.weights;
    return weights ? put(u, DECODER_NEURON_WEIGHTS, layer, DEVICE_F32, 0, 1, weights, error)
                   : WISP_OK;
}

static wisp_status copy_all(struct upload *u, wisp_error *error) {
    static const char logits[] = "output" TENSOR_WEIGHT;
    const struct model_config *c = &u->network->config;
    TRY(copy_matrix(u, TENSOR_TOKENS, c->vocabulary_size, c->hidden_size, DECODER_TOKENS, 0,
                    error));
    if (directory_find_tensor(u->network->dir, logits))
        TRY(copy_matrix(u, logits, c->vocabulary_size, c->hidden_size, DECODER_LOGITS, 0, error));
    TRY(copy_vector(u, "output_norm" TENSOR_WEIGHT, c->hidden_size, DECODER_OUTPUT_NORM, 0, error));
    TRY(copy_rotations(u, error));
    for (uint32_t l = 0; l < c->layers; l++) {
        TRY(copy_layer(u, l, error));
        TRY(copy_neuron_weights(u, l, error));
    }
    return WISP_OK;
}

wisp_status device_decoder_load(struct device *device, const struct network *network,
                                wisp_error *error) {
    struct upload u = {
        .device = device, .network = network, .halves = network->compute != WISP_COMPUTE_INT8};
    const wisp_status status = copy_all(&u, error);
    tensor_cache_release(&u.cache);
    return status;
}
