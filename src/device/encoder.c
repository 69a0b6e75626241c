/* SPDX-License-Identifier: Apache-2.0
 * Opens BERT encoders on a device, and copies their weights there. */
#include "device/encoder.h"

#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "formats/schema.h"

/* Rows of a matrix that are expanded to floats at a time. */
enum { ROWS_AT_ONCE = 1024 };

/* The arguments for copying weights. */
struct upload {
    const struct device *device;
    const struct directory *dir;
    struct tensor_cache cache;
};

/* Reads rows [first, first + rows) of a tensor as floats; the caller frees them. */
static wisp_status read_rows(struct upload *u, const struct tensor *tensor, size_t first,
                             size_t rows, float **values, wisp_error *error) {
    const size_t bytes =
        rows * (size_t)tensor->dims[0] * sizeof(float); /* the tensor was checked to fit */
    void *stored = memory_allocate(rows * (size_t)tensor->row_bytes);
    *values = memory_allocate(bytes);
    const wisp_status status =
        stored && *values
            ? directory_floats(u->dir, tensor, first, rows, &u->cache, stored, *values, error)
            : fail_memory(error, bytes);
    memory_free(stored);
    return status;
}

static wisp_status put(const struct upload *u, enum device_tensor to, uint32_t layer, size_t first,
                       size_t rows, const float *values, wisp_error *error) {
    char message[DEVICE_MESSAGE_BYTES] = "";
    return device_check(
        u->device->library->put(u->device->encoder, to, layer, first, rows, values, message),
        u->dir->file, message, error);
}

/* Copies the tensor `name` [rows, columns] to rows from `before` on of a tensor of the device.
 * `add` (may be NULL) is added to each row. */
static wisp_status copy_matrix(struct upload *u, const char *name, size_t rows, size_t columns,
                               enum device_tensor to, uint32_t layer, size_t before,
                               const float *add, wisp_error *error) {
    const struct tensor *tensor;
    TRY(directory_require_tensor(u->dir, name, columns, rows, &tensor, error));
    for (size_t first = 0; first < rows; first += ROWS_AT_ONCE) {
        const size_t n = smaller(rows - first, ROWS_AT_ONCE);
        float *values = NULL;
        wisp_status status = read_rows(u, tensor, first, n, &values, error);
        for (size_t i = 0; add && status == WISP_OK && i < n * columns; i++)
            values[i] += add[i % columns];
        if (status == WISP_OK)
            status = put(u, to, layer, before + first, n, values, error);
        memory_free(values);
        TRY(status);
    }
    return WISP_OK;
}

/* The tensors of a layer but those of queries, keys and values, which become one. */
static const struct {
    const char *name;
    enum device_tensor tensor, bias;
    bool wide_outputs, wide_inputs, vector; /* intermediate_size of them; one row */
} layer_tensors[] = {
    {"attn_output", DEVICE_OUTPUT, DEVICE_OUTPUT_BIAS, false, false, false},
    {"attn_output_norm", DEVICE_ATTENTION_NORM, DEVICE_ATTENTION_NORM_BIAS, false, false, true},
    {TENSOR_FFN_UP, DEVICE_UP, DEVICE_UP_BIAS, true, false, false},
    {TENSOR_FFN_DOWN, DEVICE_DOWN, DEVICE_DOWN_BIAS, false, true, false},
    {"layer_output_norm", DEVICE_OUTPUT_NORM, DEVICE_OUTPUT_NORM_BIAS, false, false, true},
};

/* Copies the matrices of queries, keys and values below one another, and their biases behind one
 * another. */
static wisp_status copy_qkv(struct upload *u, const struct model_config *c, uint32_t layer,
                            wisp_error *error) {
    static const char *const parts[] = {"attn_q", "attn_k", "attn_v"};
    const size_t size = c->hidden_size;
    char name[TENSOR_NAME_BYTES];
    float *bias = memory_allocate(3 * size * sizeof *bias);
    wisp_status status = bias ? WISP_OK : fail_memory(error, 3 * size * sizeof *bias);
    for (size_t i = 0; i < 3 && status == WISP_OK; i++) {
        float *part = NULL;
        status = copy_matrix(u, layer_tensor_name(name, layer, parts[i], TENSOR_WEIGHT), size, size,
                             DEVICE_QKV, layer, i * size, NULL, error);
        if (status == WISP_OK)
            status =
                directory_load_floats(u->dir, layer_tensor_name(name, layer, parts[i], TENSOR_BIAS),
                                      1, size, &part, error);
        if (status == WISP_OK)
            memcpy(bias + i * size, part, size * sizeof *bias);
        memory_free(part);
    }
    if (status == WISP_OK)
        status = put(u, DEVICE_QKV_BIAS, layer, 0, 1, bias, error);
    memory_free(bias);
    return status;
}

static wisp_status copy_layer(struct upload *u, const struct model_config *c, uint32_t layer,
                              wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    TRY(copy_qkv(u, c, layer, error));
    for (size_t i = 0; i < sizeof layer_tensors / sizeof *layer_tensors; i++) {
        const size_t outputs =
            layer_tensors[i].wide_outputs ? c->intermediate_size : c->hidden_size;
        const size_t inputs = layer_tensors[i].wide_inputs ? c->intermediate_size : c->hidden_size;
        TRY(copy_matrix(u, layer_tensor_name(name, layer, layer_tensors[i].name, TENSOR_WEIGHT),
                        layer_tensors[i].vector ? 1 : outputs, inputs, layer_tensors[i].tensor,
                        layer, 0, NULL, error));
        TRY(copy_matrix(u, layer_tensor_name(name, layer, layer_tensors[i].name, TENSOR_BIAS), 1,
                        outputs, layer_tensors[i].bias, layer, 0, NULL, error));
    }
    return WISP_OK;
}

static wisp_status copy_all(struct upload *u, const struct model_config *c, wisp_error *error) {
    const size_t size = c->hidden_size;
    float *types = NULL;
    wisp_status status =
        directory_load_floats(u->dir, "token_types.weight", c->token_types, size, &types, error);
    if (status == WISP_OK) /* every token has type 0 */
        status = copy_matrix(u, "position_embd.weight", c->max_positions, size, DEVICE_POSITIONS, 0,
                             0, types, error);
    memory_free(types);
    TRY(status);
    TRY(copy_matrix(u, "token_embd.weight", c->vocabulary_size, size, DEVICE_TOKENS, 0, 0, NULL,
                    error));
    TRY(copy_matrix(u, "token_embd_norm.weight", 1, size, DEVICE_EMBEDDING_NORM, 0, 0, NULL,
                    error));
    TRY(copy_matrix(u, "token_embd_norm.bias", 1, size, DEVICE_EMBEDDING_NORM_BIAS, 0, 0, NULL,
                    error));
    for (uint32_t l = 0; l < c->layers; l++)
        TRY(copy_layer(u, c, l, error));
    return WISP_OK;
}

/* Finds the activation function in the device's list. */
static bool find_activation(enum activation activation, enum device_activation *found) {
    static const enum device_activation same[] = {[ACTIVATION_GELU] = DEVICE_GELU,
                                                  [ACTIVATION_RELU] = DEVICE_RELU,
                                                  [ACTIVATION_GELU_TANH] = DEVICE_GELU_TANH};
    if ((size_t)activation >= sizeof same / sizeof *same)
        return false;
    *found = same[activation];
    return true;
}

wisp_status device_encoder_open(struct device *device, const char *name,
                                const struct network *network, bool int8, wisp_error *error) {
    const struct model_config *c = &network->config;
    char message[DEVICE_MESSAGE_BYTES] = "";
    struct device_shape shape = {.hidden_size = c->hidden_size,
                                 .intermediate_size = c->intermediate_size,
                                 .layers = c->layers,
                                 .heads = c->heads,
                                 .vocabulary_size = c->vocabulary_size,
                                 .positions = c->max_positions,
                                 .norm_epsilon = c->norm_epsilon,
                                 .int8 = int8,
                                 .first = c->pooling == POOLING_CLS};
    if (c->pooling != POOLING_CLS && c->pooling != POOLING_MEAN)
        return fail(error, WISP_ERROR_UNSUPPORTED, network->dir->file, "device",
                    "%s computes dense embeddings, and this model %s: use the device cpu", name,
                    c->pooling == POOLING_RANK     ? "scores pairs of texts"
                    : c->pooling == POOLING_SPLADE ? "makes sparse vectors"
                    : c->pooling == POOLING_LAST   ? "pools the last token of a text"
                                                   : "makes vectors of tokens");
    if (!network->architecture->on_devices || !find_activation(c->activation, &shape.activation))
        return fail(error, WISP_ERROR_UNSUPPORTED, network->dir->file, "device",
                    "%s does not compute %s of the architecture %.40s: use the device cpu", name,
                    network->architecture->on_devices ? "this activation" : "encoders",
                    network->architecture->name);
    return device_check(device->library->open(&shape, &device->encoder, message),
                        network->dir->file, message, error);
}

wisp_status device_encoder_load(struct device *device, const struct network *network,
                                wisp_error *error) {
    struct upload u = {.device = device, .dir = network->dir};
    const wisp_status status = copy_all(&u, &network->config, error);
    tensor_cache_release(&u.cache);
    return status;
}
