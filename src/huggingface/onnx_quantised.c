/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/onnx_quantised.h"

#include <stdio.h>
#include <string.h>

#include "base/byte_order.h"
#include "huggingface/tensor_names.h"
#include "huggingface/transposed.h"

enum { NAME_BYTES = 1100 };

const char onnx_product_of_nibbles[] = "MatMulNBits";

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Bytes that stand for (byte - zero) * scale. */
struct quantised {
    struct tensor stored; /* [inputs, outputs] if `transposed`, else as the tensor is */
    float *scales;        /* [count]: one for all, or one for each output */
    int32_t *zeros;
    uint64_t count;
    bool is_signed, transposed;
};

static float value_of(const struct quantised *q, unsigned char byte, uint64_t output) {
    const int32_t number = q->is_signed && byte > 127 ? byte - 256 : byte;
    const uint64_t i = q->count == 1 ? 0 : output;
    return (float)(number - q->zeros[i]) * q->scales[i];
}

static wisp_status make_dequantised(const struct directory *dir, const struct tensor *tensor,
                                    uint64_t first, uint64_t rows, struct tensor_cache *cache,
                                    void *buffer, const void **bytes, wisp_error *error) {
    const struct quantised *q = tensor->maker;
    const size_t size = (size_t)tensor->dims[0];
    const unsigned char *data;
    float *out = buffer;
    TRY(hf_stored_bytes(dir, &q->stored, cache, &data, error));
    for (uint64_t r = first; r < first + rows; r++)
        for (size_t k = 0; k < size; k++) {
            const uint64_t at = q->transposed ? k * q->stored.dims[0] + r : r * size + k;
            *out++ = value_of(q, data[at], r);
        }
    swap_file_numbers(buffer, (size_t)rows * size, sizeof *out); /* as they would be stored */
    *bytes = buffer;
    return WISP_OK;
}

/* Finds the scales and zero points of the bytes NAME_quantized, as onnxruntime names them. */
static wisp_status find_scales(struct directory *dir, const struct onnx_graph *graph,
                               const struct onnx_value *value, struct quantised *q,
                               wisp_error *error) {
    static const char ending[] = "_quantized";
    char name[NAME_BYTES];
    const int stem = (int)(strlen(value->name) - (sizeof ending - 1));
    if (!hf_ends_with(value->name, ending))
        return onnx_refuse(dir, value->source, value->name,
                           "bytes that are not named as onnxruntime names them", error);
    snprintf(name, sizeof name, "%.*s_scale", stem, value->name);
    const struct onnx_value *scale = onnx_find(graph, name);
    snprintf(name, sizeof name, "%.*s_zero_point", stem, value->name);
    const struct onnx_value *zero = onnx_find(graph, name);
    if (!scale || scale->n_dims > 1 || (zero && (zero->type != value->type || zero->n_dims > 1)))
        return onnx_refuse(dir, value->source, value->name,
                           "quantised weights without a scale and zero point of theirs", error);
    q->count = scale->n_dims == 1 ? scale->dims[0] : 1;
    if (q->count != 1 && (!q->transposed || q->count != q->stored.dims[0]))
        return onnx_refuse(dir, scale->source, scale->name,
                           "neither one scale nor one for each output", error);
    ARENA_TAKE(&dir->arena, q->scales, (size_t)q->count, error);
    ARENA_TAKE(&dir->arena, q->zeros, (size_t)q->count, error);
    TRY(onnx_numbers(dir, scale, q->count, NULL, q->scales, error));
    return zero ? onnx_numbers(dir, zero, q->count, q->zeros, NULL, error) : WISP_OK;
}

wisp_status onnx_dequantise_bytes(struct directory *dir, const struct onnx_graph *graph,
                                  const struct onnx_value *value, bool transposed,
                                  struct tensor *tensor, wisp_error *error) {
    struct quantised *q;
    ARENA_TAKE(&dir->arena, q, 1, error);
    *q = (struct quantised){
        .stored = *tensor, .is_signed = value->type == ONNX_INT8, .transposed = transposed};
    TRY(find_scales(dir, graph, value, q, error));
    tensor->format = block_format_by_id(BLOCK_F32);
    if (transposed) {
        tensor->dims[0] = q->stored.dims[1];
        tensor->dims[1] = q->stored.dims[0];
    }
    tensor->make = make_dequantised;
    tensor->maker = q;
    return directory_measure_tensor(dir, tensor, error);
}

/* ---- nibbles -------------------------------------------------------------------------------- */

/* Nibbles that stand for (nibble - zero) * scale, the lower half of a byte first. */
struct nibbles {
    struct tensor stored; /* bytes [outputs, blocks * block_size / 2] */
    float *scales;        /* [outputs, blocks] */
    unsigned char *zeros; /* [outputs, (blocks + 1) / 2], likewise; NULL: all are 8 */
    uint64_t blocks, block_size;
};

static unsigned nibble_of(const unsigned char *bytes, uint64_t i) {
    return bytes[i / 2] >> (i % 2 * 4) & 15u;
}

static wisp_status make_of_nibbles(const struct directory *dir, const struct tensor *tensor,
                                   uint64_t first, uint64_t rows, struct tensor_cache *cache,
                                   void *buffer, const void **bytes, wisp_error *error) {
    const struct nibbles *q = tensor->maker;
    const uint64_t size = tensor->dims[0], zero_bytes = (q->blocks + 1) / 2;
    const unsigned char *data;
    float *out = buffer;
    TRY(hf_stored_bytes(dir, &q->stored, cache, &data, error));
    for (uint64_t r = first; r < first + rows; r++)
        for (uint64_t k = 0; k < size; k++) {
            const uint64_t block = k / q->block_size;
            const unsigned zero = q->zeros ? nibble_of(q->zeros + r * zero_bytes, block) : 8;
            *out++ = (float)((int)nibble_of(data + r * q->stored.dims[0], k) - (int)zero) *
                     q->scales[r * q->blocks + block];
        }
    swap_file_numbers(buffer, (size_t)(rows * size), sizeof *out); /* as they would be stored */
    *bytes = buffer;
    return WISP_OK;
}

static wisp_status read_zeros(struct directory *dir, const struct onnx_value *zeros, uint64_t n,
                              struct nibbles *q, wisp_error *error) {
    if (zeros->type != ONNX_UINT8 || zeros->packed || zeros->bytes != n * ((q->blocks + 1) / 2))
        return onnx_refuse(dir, zeros->source, zeros->name,
                           "zero points that are not 4-bit numbers", error);
    ARENA_TAKE(&dir->arena, q->zeros, (size_t)zeros->bytes, error);
    return source_read(&dir->sources[zeros->source], zeros->name, zeros->offset, q->zeros,
                       (size_t)zeros->bytes, error);
}

wisp_status onnx_dequantise_nibbles(struct directory *dir, const struct onnx_graph *graph,
                                    const struct onnx_node *node, const struct onnx_value *value,
                                    struct tensor *tensor, wisp_error *error) {
    const struct onnx_value *scales = onnx_find(graph, node->inputs[2]);
    const struct onnx_value *zeros = onnx_find(graph, node->inputs[3]);
    const uint64_t k = node->k, n = node->n, block_size = node->block_size;
    struct nibbles *q;
    if (node->bits != 4 || !scales || (*node->inputs[3] && !zeros) ||
        node->n_inputs > ONNX_NODE_INPUTS)
        return onnx_refuse(dir, value->source, node->name,
                           "only 4-bit weights with scales and zero points are read, not those in "
                           "another order",
                           error);
    if (k == 0 || k > UINT32_MAX || n == 0 || n > UINT32_MAX || block_size < 2 ||
        block_size > UINT32_MAX || block_size % 2 != 0)
        return onnx_refuse(dir, value->source, node->name,
                           "a matrix without rows, columns or blocks of an even size", error);
    ARENA_TAKE(&dir->arena, q, 1, error);
    *q = (struct nibbles){
        .stored = *tensor, .blocks = (k + block_size - 1) / block_size, .block_size = block_size};
    const uint64_t row_bytes = q->blocks * (block_size / 2);
    if (value->type != ONNX_UINT8 || value->bytes / row_bytes != n || value->bytes % row_bytes != 0)
        return fail(error, WISP_ERROR_FORMAT, dir->sources[value->source].name, value->name,
                    "%llu bytes, but %llu rows of %llu 4-bit numbers need %llu each",
                    (unsigned long long)value->bytes, (unsigned long long)n, (unsigned long long)k,
                    (unsigned long long)row_bytes);
    q->stored.n_dims = tensor->n_dims = 2;
    q->stored.dims[0] = row_bytes;
    q->stored.dims[1] = tensor->dims[1] = n;
    TRY(directory_measure_tensor(dir, &q->stored, error));
    ARENA_TAKE(&dir->arena, q->scales, (size_t)(n * q->blocks), error);
    TRY(onnx_numbers(dir, scales, n * q->blocks, NULL, q->scales, error));
    if (zeros)
        TRY(read_zeros(dir, zeros, n, q, error));
    tensor->format = block_format_by_id(BLOCK_F32);
    tensor->dims[0] = k;
    tensor->make = make_of_nibbles;
    tensor->maker = q;
    return directory_measure_tensor(dir, tensor, error);
}
