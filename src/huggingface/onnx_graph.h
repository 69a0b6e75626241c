/* SPDX-License-Identifier: Apache-2.0
 * The weights of an ONNX file: the initialisers of its graph, and the nodes that tell what each of
 * them is. The graph is not executed.
 * Source: onnx.proto of ONNX. */
#ifndef WISP_HUGGINGFACE_ONNX_GRAPH_H
#define WISP_HUGGINGFACE_ONNX_GRAPH_H

#include "formats/directory.h"
#include "formats/protobuf.h"

enum { ONNX_FLOAT = 1, ONNX_UINT8 = 2, ONNX_INT8 = 3, ONNX_FLOAT16 = 10, ONNX_NODE_INPUTS = 4 };

/* An initialiser. Its bytes are `bytes` at `offset` of the source, unless it is `packed`: then they
 * are varints. */
struct onnx_value {
    const char *name;
    uint64_t type; /* TensorProto.DataType */
    uint32_t n_dims, source;
    uint64_t dims[TENSOR_MAX_DIMS]; /* the slowest first */
    uint64_t offset, bytes;
    bool packed;
};

/* A node of an operator that onnx_graph_read keeps. */
struct onnx_node {
    const char *op, *name, *output;
    const char *inputs[ONNX_NODE_INPUTS]; /* the first ones; "" past the last */
    size_t n_inputs;
    uint64_t k, n, bits, block_size; /* attributes of MatMulNBits; 0: absent */
};

struct onnx_graph {
    struct onnx_value *values; /* [n_values], sorted by name */
    struct onnx_node *nodes;   /* [n_nodes] */
    size_t n_values, n_nodes;
};

/* Reads the graph of source `index`. Keeps the nodes of the operators in `kept`, which ends with
 * NULL; an operator of `refused` is WISP_ERROR_UNSUPPORTED. Weights in other files of `folder` are
 * found, and these files become sources. All memory is dir's. */
wisp_status onnx_graph_read(struct directory *dir, const char *folder, uint32_t index,
                            const char *const *kept, const char *const *refused,
                            struct onnx_graph *graph, wisp_error *error);

/* Returns the initialiser of a name, or NULL. */
const struct onnx_value *onnx_find(const struct onnx_graph *graph, const char *name);

/* Reads n whole numbers or floats (also of 16 bits) of an initialiser, which must have so many.
 * Only one of the two arrays is given. */
wisp_status onnx_numbers(const struct directory *dir, const struct onnx_value *value, uint64_t n,
                         int32_t *integers, float *floats, wisp_error *error);

/* Fails with WISP_ERROR_UNSUPPORTED and says of a value or node what is not read. */
wisp_status onnx_refuse(const struct directory *dir, uint32_t source, const char *name,
                        const char *what, wisp_error *error);

#endif
