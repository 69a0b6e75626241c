/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/onnx_graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "huggingface/json_file.h"
#include "huggingface/source.h"

/* Numbers of fields, and a value of data_location. */
enum { MODEL_GRAPH = 7 };
enum { GRAPH_NODE = 1, GRAPH_INITIALIZER = 5 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_NUMBER = 3 };
enum {
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_FLOATS = 4,
    TENSOR_INT32S = 5,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    TENSOR_EXTERNAL = 13,
    TENSOR_LOCATION = 14
};
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { LOCATION_EXTERNAL = 1 };
enum { MOST_ITEMS = 1 << 18, MOST_TEXT_BYTES = 1024 };

struct reader {
    struct directory *dir;
    const char *folder;
    const char *const *kept, *const *refused;
    uint32_t source, first_external;
    struct protobuf proto;
    struct onnx_graph *graph;
    size_t capacity_values, capacity_nodes;
    wisp_error *error;
};

static wisp_status malformed(const struct reader *r, const char *field, const char *what) {
    return fail(r->error, WISP_ERROR_FORMAT, r->proto.source->name, field, "%s", what);
}

static wisp_status read_text(struct reader *r, struct protobuf_part part, const char **text) {
    const uint64_t length = protobuf_length(part);
    wisp_error *error = r->error;
    char *copy;
    if (length > MOST_TEXT_BYTES)
        return malformed(r, NULL, "a name of more than 1024 bytes");
    ARENA_TAKE(&r->dir->arena, copy, (size_t)length + 1, error);
    TRY(protobuf_copy(&r->proto, part, copy));
    if (strlen(copy) != length)
        return malformed(r, NULL, "a name that holds a NUL");
    *text = copy;
    return WISP_OK;
}

/* ---- initialisers --------------------------------------------------------------------------- */

/* A value of more than 4 dimensions is not a weight. */
static void add_dimension(struct onnx_value *value, uint64_t size) {
    if (value->n_dims < TENSOR_MAX_DIMS)
        value->dims[value->n_dims] = size;
    value->n_dims++;
}

static void read_dimensions(struct reader *r, struct protobuf_field *f, struct onnx_value *value) {
    uint64_t size;
    if (f->kind == PROTOBUF_VARINT)
        add_dimension(value, f->value);
    while (protobuf_next_packed(&r->proto, &f->part, &size))
        add_dimension(value, size);
}

/* Opens the file of weights beside the graph, unless a tensor before has opened it. */
static wisp_status find_external(struct reader *r, const char *name, uint32_t *source) {
    for (uint32_t i = r->first_external; i < r->dir->n_sources; i++) {
        const char *path = r->dir->sources[i].name, *slash = strrchr(path, '/');
        if (strcmp(slash ? slash + 1 : path, name) == 0) {
            *source = i;
            return WISP_OK;
        }
    }
    if (!hf_is_plain_name(name))
        return malformed(r, "location", "expected a file name without folders");
    *source = r->dir->n_sources;
    return hf_add_source(r->dir, r->folder, name, r->error);
}

static bool to_number(const char *text, uint64_t *value) {
    char *end;
    if (*text < '0' || *text > '9' || strlen(text) > 18)
        return false;
    *value = strtoull(text, &end, 10);
    return *end == 0;
}

static wisp_status read_entry(struct reader *r, struct protobuf_part entry,
                              struct onnx_value *value, bool *has_length) {
    const char *key = "", *text = "";
    for (struct protobuf_field f; protobuf_next(&r->proto, &entry, &f);)
        if (f.number == ENTRY_KEY || f.number == ENTRY_VALUE)
            TRY(read_text(r, f.part, f.number == ENTRY_KEY ? &key : &text));
    TRY(r->proto.status);
    if (strcmp(key, "location") == 0)
        return find_external(r, text, &value->source);
    const bool is_length = strcmp(key, "length") == 0;
    if (is_length || strcmp(key, "offset") == 0) {
        *has_length = *has_length || is_length;
        if (!to_number(text, is_length ? &value->bytes : &value->offset))
            return malformed(r, key, "expected a whole number");
    }
    return WISP_OK;
}

static wisp_status check_external(struct reader *r, struct onnx_value *value, bool has_length) {
    const uint64_t size = r->dir->sources[value->source].size;
    if (value->source == r->source)
        return malformed(r, value->name, "weights in another file without a location");
    if (value->offset > size || (has_length && value->bytes > size - value->offset))
        return malformed(r, value->name, "its bytes are not within the file of weights");
    if (!has_length)
        value->bytes = size - value->offset;
    return WISP_OK;
}

static wisp_status read_value(struct reader *r, struct protobuf_part part) {
    struct onnx_value *value = &r->graph->values[r->graph->n_values++];
    bool external = false, has_length = false;
    *value = (struct onnx_value){.name = "", .source = r->source};
    for (struct protobuf_field f; protobuf_next(&r->proto, &part, &f);) {
        if (f.number == TENSOR_DIMS)
            read_dimensions(r, &f, value);
        if (f.number == TENSOR_TYPE)
            value->type = f.value;
        if (f.number == TENSOR_NAME)
            TRY(read_text(r, f.part, &value->name));
        if (f.number == TENSOR_EXTERNAL)
            TRY(read_entry(r, f.part, value, &has_length));
        if (f.number == TENSOR_LOCATION)
            external = f.value == LOCATION_EXTERNAL;
        if (f.number == TENSOR_RAW || (f.number == TENSOR_FLOATS && value->type == ONNX_FLOAT) ||
            f.number == TENSOR_INT32S) {
            value->offset = f.part.at;
            value->bytes = protobuf_length(f.part);
            value->packed = f.number == TENSOR_INT32S;
        }
    }
    TRY(r->proto.status);
    return external ? check_external(r, value, has_length) : WISP_OK;
}

static int32_t whole_number(const struct onnx_value *value, unsigned byte) {
    return value->type == ONNX_INT8 && byte > 127 ? (int32_t)byte - 256 : (int32_t)byte;
}

/* Returns number i of those that are stored as they are in memory. */
static float float_at(const struct onnx_value *value, const unsigned char *bytes, size_t i) {
    if (value->type == ONNX_FLOAT16)
        return float_of_half(load_u16(bytes + 2 * i));
    const uint32_t bits = load_u32(bytes + 4 * i);
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static wisp_status read_packed(const struct directory *dir, const struct onnx_value *value,
                               uint64_t n, int32_t *integers, wisp_error *error) {
    const wisp_source *source = &dir->sources[value->source];
    struct protobuf proto = {.source = source, .field = value->name, .error = error};
    struct protobuf_part part = {value->offset, value->offset + value->bytes};
    for (uint64_t i = 0, number; i < n; i++) {
        if (!protobuf_next_packed(&proto, &part, &number))
            return proto.status != WISP_OK ? proto.status
                                           : fail(error, WISP_ERROR_FORMAT, source->name,
                                                  value->name, "too few numbers");
        integers[i] = whole_number(value, (unsigned)number & 0xff);
    }
    return WISP_OK;
}

wisp_status onnx_numbers(const struct directory *dir, const struct onnx_value *value, uint64_t n,
                         int32_t *integers, float *floats, wisp_error *error) {
    enum { AT_ONCE = 128 };
    const wisp_source *source = &dir->sources[value->source];
    const bool is_float = value->type == ONNX_FLOAT, is_half = value->type == ONNX_FLOAT16;
    const uint64_t element = is_float ? 4 : is_half ? 2 : 1;
    const bool typed = floats ? (is_float || is_half) && !value->packed /* has 32-bit integers */
                              : value->type == ONNX_INT8 || value->type == ONNX_UINT8;
    if (!typed || (!value->packed && value->bytes != n * element))
        return fail(error, WISP_ERROR_FORMAT, source->name, value->name,
                    "not the %llu numbers that are expected", (unsigned long long)n);
    if (value->packed)
        return read_packed(dir, value, n, integers, error);
    for (uint64_t i = 0; i < n; i += AT_ONCE) {
        unsigned char bytes[AT_ONCE * 4];
        const size_t some = n - i < AT_ONCE ? (size_t)(n - i) : AT_ONCE;
        TRY(source_read(source, value->name, value->offset + i * element, bytes,
                        some * (size_t)element, error));
        for (size_t k = 0; k < some; k++)
            if (floats)
                floats[i + k] = float_at(value, bytes, k);
            else
                integers[i + k] = whole_number(value, bytes[k]);
    }
    return WISP_OK;
}

wisp_status onnx_refuse(const struct directory *dir, uint32_t source, const char *name,
                        const char *what, wisp_error *error) {
    return fail(error, WISP_ERROR_UNSUPPORTED, dir->sources[source].name, name, "%s", what);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static bool is_listed(const char *const *list, const char *text) {
    while (*list && strcmp(*list, text) != 0)
        list++;
    return *list != NULL;
}

static wisp_status read_attribute(struct reader *r, struct protobuf_part part,
                                  struct onnx_node *node) {
    const struct {
        const char *name;
        uint64_t *number;
    } known[] = {
        {"K", &node->k}, {"N", &node->n}, {"bits", &node->bits}, {"block_size", &node->block_size}};
    const char *name = "";
    uint64_t number = 0;
    for (struct protobuf_field f; protobuf_next(&r->proto, &part, &f);) {
        if (f.number == ATTRIBUTE_NAME)
            TRY(read_text(r, f.part, &name));
        if (f.number == ATTRIBUTE_NUMBER)
            number = f.value;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0)
            *known[i].number = number;
    return r->proto.status;
}

static wisp_status read_node(struct reader *r, struct protobuf_part part) {
    struct onnx_node *node = &r->graph->nodes[r->graph->n_nodes];
    *node = (struct onnx_node){"", "", "", {"", "", "", ""}, 0, 0, 0, 0, 0};
    for (struct protobuf_field f; protobuf_next(&r->proto, &part, &f);) {
        if (f.number == NODE_INPUT && node->n_inputs < ONNX_NODE_INPUTS)
            TRY(read_text(r, f.part, &node->inputs[node->n_inputs]));
        node->n_inputs += f.number == NODE_INPUT;
        if (f.number == NODE_ATTRIBUTE)
            TRY(read_attribute(r, f.part, node));
        if (f.number == NODE_OUTPUT && !*node->output)
            TRY(read_text(r, f.part, &node->output));
        if (f.number == NODE_NAME)
            TRY(read_text(r, f.part, &node->name));
        if (f.number == NODE_OP)
            TRY(read_text(r, f.part, &node->op));
    }
    TRY(r->proto.status);
    if (is_listed(r->refused, node->op))
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->proto.source->name, node->name,
                    "the weights of the operator %.48s are not read: take the file that was "
                    "exported without optimisation, model.onnx or one quantised to int8",
                    node->op);
    r->graph->n_nodes += is_listed(r->kept, node->op);
    return WISP_OK;
}

/* ---- the graph ------------------------------------------------------------------------------ */

static int compare_values(const void *a, const void *b) {
    return strcmp(((const struct onnx_value *)a)->name, ((const struct onnx_value *)b)->name);
}

const struct onnx_value *onnx_find(const struct onnx_graph *graph, const char *name) {
    const struct onnx_value wanted = {.name = name};
    return bsearch(&wanted, graph->values, graph->n_values, sizeof wanted, compare_values);
}

static wisp_status sort_values(const struct reader *r) {
    const struct onnx_graph *g = r->graph;
    if (g->n_values > 1)
        qsort(g->values, g->n_values, sizeof *g->values, compare_values);
    for (size_t i = 1; i < g->n_values; i++)
        if (strcmp(g->values[i - 1].name, g->values[i].name) == 0)
            return malformed(r, g->values[i].name, "two initialisers have this name");
    return WISP_OK;
}

/* Finds the graph of the model, and counts what is in it. */
static wisp_status find_graph(struct reader *r, struct protobuf_part *graph) {
    struct protobuf_part model = {0, r->proto.source->size}, rest;
    bool found = false;
    for (struct protobuf_field f; protobuf_next(&r->proto, &model, &f);)
        if (f.number == MODEL_GRAPH && f.kind == PROTOBUF_PART) {
            *graph = f.part;
            found = true;
        }
    TRY(r->proto.status);
    if (!found)
        return malformed(r, "graph", "there is none: this is not an ONNX file");
    rest = *graph;
    for (struct protobuf_field f; protobuf_next(&r->proto, &rest, &f);) {
        r->capacity_values += f.number == GRAPH_INITIALIZER;
        r->capacity_nodes += f.number == GRAPH_NODE;
    }
    TRY(r->proto.status);
    return r->capacity_values > MOST_ITEMS || r->capacity_nodes > MOST_ITEMS
               ? malformed(r, "graph", "more than 262144 nodes or initialisers")
               : WISP_OK;
}

wisp_status onnx_graph_read(struct directory *dir, const char *folder, uint32_t index,
                            const char *const *kept, const char *const *refused,
                            struct onnx_graph *graph, wisp_error *error) {
    struct reader r = {.dir = dir,
                       .folder = folder,
                       .kept = kept,
                       .refused = refused,
                       .source = index,
                       .first_external = dir->n_sources,
                       .graph = graph,
                       .error = error};
    const wisp_source source = dir->sources[index];
    struct protobuf_part part;
    r.proto = (struct protobuf){.source = &source, .error = error};
    *graph = (struct onnx_graph){0};
    TRY(find_graph(&r, &part));
    ARENA_TAKE(&dir->arena, graph->values, r.capacity_values + 1, error);
    ARENA_TAKE(&dir->arena, graph->nodes, r.capacity_nodes + 1, error);
    for (struct protobuf_field f; protobuf_next(&r.proto, &part, &f);) {
        if (f.kind == PROTOBUF_PART && f.number == GRAPH_INITIALIZER)
            TRY(read_value(&r, f.part));
        if (f.kind == PROTOBUF_PART && f.number == GRAPH_NODE)
            TRY(read_node(&r, f.part));
    }
    TRY(r.proto.status);
    return sort_values(&r);
}
