/* SPDX-License-Identifier: Apache-2.0
 * Names and shapes of the weights of an ONNX graph. */
#include "huggingface/onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "huggingface/onnx_graph.h"
#include "huggingface/onnx_quantised.h"
#include "huggingface/tensor_names.h"
#include "huggingface/transposed.h"

enum { NAME_BYTES = 1100, MOST_STEPS = 4 };

/* Operators that show what a weight is, and those in which an optimiser has hidden some. */
static const char *const kept[] = {"MatMul", "MatMulInteger", "MatMulNBits", "Identity",
                                   "Cast",   "Mul",           "Add",         NULL};
static const char *const refused[] = {"Attention",
                                      "QAttention",
                                      "MultiHeadAttention",
                                      "EmbedLayerNormalization",
                                      "QEmbedLayerNormalization",
                                      "MatMulIntegerToFloat",
                                      "DynamicQuantizeMatMul",
                                      "GatherBlockQuantized",
                                      "QLinearMatMul",
                                      "QGemm",
                                      "FusedMatMul",
                                      "FusedGemm",
                                      NULL};

/* An input of a node. */
struct use {
    const char *input;
    const struct onnx_node *node;
};

struct weights {
    struct directory *dir;
    struct onnx_graph graph;
    struct use *uses; /* [n_uses], sorted by input */
    size_t n_uses;
    const struct onnx_node **products; /* [values of the graph]: the product of a matrix, or NULL */
    uint32_t source;
    wisp_error *error;
};

static wisp_status refuse(const struct weights *w, const char *name, const char *what) {
    return onnx_refuse(w->dir, w->source, name, what, w->error);
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* Returns the format of a type of ONNX, or NULL. */
static const struct block_format *format_of(uint64_t type) {
    static const struct {
        uint64_t type;
        const char *format;
    } known[] = {{ONNX_FLOAT, "F32"}, {10, "F16"}, {16, "BF16"},      {11, "F64"},
                 {7, "I64"},          {6, "I32"},  {ONNX_INT8, "I8"}, {ONNX_UINT8, "I8"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (type == known[i].type)
            return block_format_by_name(known[i].format);
    return NULL;
}

/* Adds an initialiser as a tensor: the matrix of a product, or, if that is NULL, what the name
 * says.
 */
static wisp_status add(const struct weights *w, const struct onnx_value *value, const char *name,
                       const struct onnx_node *product) {
    const bool is_matrix = product && strcmp(product->op, onnx_product_of_nibbles) != 0;
    wisp_error *error = w->error;
    struct tensor *tensor;
    if (value->n_dims > TENSOR_MAX_DIMS)
        return refuse(w, value->name, "more than 4 dimensions");
    const char *wrapped = strstr(name, "auto_model."); /* of sentence-transformers */
    name = wrapped ? strchr(wrapped, '.') + 1 : name;
    TRY(directory_add_tensor(w->dir, &tensor, error));
    *tensor = (struct tensor){.name = arena_copy_text(&w->dir->arena, name, strlen(name)),
                              .format = format_of(value->type),
                              .n_dims = value->n_dims ? value->n_dims : 1,
                              .dims = {1},
                              .offset = value->offset,
                              .source = value->source};
    if (!tensor->name)
        return fail_memory(error, strlen(name));
    if (!tensor->format)
        return fail(error, WISP_ERROR_UNSUPPORTED, w->dir->sources[w->source].name, value->name,
                    "data of type %llu are not supported", (unsigned long long)value->type);
    for (uint32_t i = 0; i < value->n_dims; i++)
        tensor->dims[i] = value->dims[value->n_dims - 1 - i];
    TRY(directory_check_tensor(w->dir, tensor, error));
    if (value->packed || tensor->bytes != value->bytes)
        return fail(error, WISP_ERROR_FORMAT, w->dir->sources[w->source].name, value->name,
                    "%llu bytes, but its shape and type need %llu as they are in memory",
                    (unsigned long long)value->bytes, (unsigned long long)tensor->bytes);
    if (product && !is_matrix)
        return onnx_dequantise_nibbles(w->dir, &w->graph, product, value, tensor, error);
    if (is_matrix && tensor->n_dims != 2)
        return refuse(w, value->name, "not a matrix");
    if (value->type == ONNX_INT8 || value->type == ONNX_UINT8)
        return onnx_dequantise_bytes(w->dir, &w->graph, value, is_matrix, tensor, error);
    return is_matrix ? hf_transpose(w->dir, tensor, error) : WISP_OK;
}

static bool is_weight(const char *name) {
    static const char *const endings[] = {".weight", ".bias", ".gamma", ".beta"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (hf_ends_with(name, endings[i]))
            return !strchr(name, '/') && !strchr(name, ':');
    return false;
}

/* Writes the name without the ending that quantised weights have. */
static const char *base_name(const char *name, char base[NAME_BYTES]) {
    static const char *const endings[] = {"_quantized", "_Q4"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (hf_ends_with(name, endings[i]))
            length = strlen(name) - strlen(endings[i]);
    snprintf(base, NAME_BYTES, "%.*s", (int)length, name);
    return base;
}

/* ---- names of matrices ---------------------------------------------------------------------- */

static int compare_uses(const void *a, const void *b) {
    return strcmp(((const struct use *)a)->input, ((const struct use *)b)->input);
}

/* Returns the one node of Cast, Mul and Add that has this input, or NULL if there is none or a
 * choice. */
static const struct onnx_node *only_use(const struct weights *w, const char *output) {
    const struct use wanted = {output, NULL};
    const struct use *end = w->uses + w->n_uses;
    const struct use *found = bsearch(&wanted, w->uses, w->n_uses, sizeof wanted, compare_uses);
    if (!found || (found > w->uses && compare_uses(found - 1, found) == 0) ||
        (found + 1 < end && compare_uses(found, found + 1) == 0))
        return NULL;
    return found->node;
}

/* Writes the name by the bias that is added to the product. */
static bool name_by_bias(const struct weights *w, const struct onnx_node *product,
                         char name[NAME_BYTES]) {
    static const char ending[] = ".bias";
    const struct onnx_node *node = product;
    for (int step = 0; step < MOST_STEPS; step++) {
        node = only_use(w, node->output);
        if (!node)
            return false;
        if (strcmp(node->op, "Add") != 0)
            continue;
        for (size_t i = 0; i < ONNX_NODE_INPUTS; i++)
            if (is_weight(node->inputs[i]) && hf_ends_with(node->inputs[i], ending)) {
                const size_t stem = strlen(node->inputs[i]) - (sizeof ending - 1);
                snprintf(name, NAME_BYTES, "%.*s.weight", (int)stem, node->inputs[i]);
                return true;
            }
        return false;
    }
    return false;
}

/* Writes the name by the place of the node: /encoder/layer.0/output/dense/MatMul. */
static bool name_by_place(const struct onnx_node *product, char name[NAME_BYTES]) {
    const char *end = strrchr(product->name, '/');
    if (*product->name != '/' || end == product->name)
        return false;
    snprintf(name, NAME_BYTES, "%.*s.weight", (int)(end - product->name - 1), product->name + 1);
    for (char *c = name; *c; c++)
        *c = *c == '/' ? '.' : *c;
    return true;
}

static wisp_status add_product(const struct weights *w, const struct onnx_value *value,
                               const struct onnx_node *product) {
    char name[NAME_BYTES];
    if (!is_weight(base_name(value->name, name)) && !name_by_place(product, name) &&
        !name_by_bias(w, product, name))
        return refuse(w, value->name, "a matrix of which nothing says what it is");
    return add(w, value, name, product);
}

/* ---- the file ------------------------------------------------------------------------------- */

/* Finds the products of matrices, and what uses the outputs of nodes. */
static wisp_status find_products(struct weights *w) {
    wisp_error *error = w->error;
    ARENA_TAKE(&w->dir->arena, w->uses, ONNX_NODE_INPUTS * w->graph.n_nodes + 1, error);
    ARENA_TAKE(&w->dir->arena, w->products, w->graph.n_values + 1, error);
    for (size_t i = 0; i < w->graph.n_nodes; i++) {
        const struct onnx_node *node = &w->graph.nodes[i];
        if (strncmp(node->op, "MatMul", 6) == 0) {
            const struct onnx_value *value = onnx_find(&w->graph, node->inputs[1]);
            if (value)
                w->products[value - w->graph.values] = node;
            continue;
        }
        for (size_t k = 0; k < node->n_inputs && k < ONNX_NODE_INPUTS; k++)
            w->uses[w->n_uses++] = (struct use){node->inputs[k], node};
    }
    if (w->n_uses > 1)
        qsort(w->uses, w->n_uses, sizeof *w->uses, compare_uses);
    return WISP_OK;
}

wisp_status onnx_read(struct directory *dir, const char *folder, uint32_t index,
                      wisp_error *error) {
    struct weights w = {.dir = dir, .source = index, .error = error};
    char name[NAME_BYTES];
    TRY(onnx_graph_read(dir, folder, index, kept, refused, &w.graph, error));
    TRY(find_products(&w));
    for (size_t i = 0; i < w.graph.n_values; i++) {
        const struct onnx_value *value = &w.graph.values[i];
        if (w.products[i])
            TRY(add_product(&w, value, w.products[i]));
        else if (is_weight(base_name(value->name, name)))
            TRY(add(&w, value, name, NULL));
    }
    /* Exports keep one of several equal weights, and copy it to the names of the others. */
    for (size_t i = 0; i < w.graph.n_nodes; i++) {
        const struct onnx_node *node = &w.graph.nodes[i];
        const struct onnx_value *value = onnx_find(&w.graph, node->inputs[0]);
        if (value && strcmp(node->op, "Identity") == 0 && is_weight(node->output))
            TRY(add(&w, value, node->output, NULL));
    }
    return WISP_OK;
}
