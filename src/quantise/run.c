/* SPDX-License-Identifier: Apache-2.0 */
#include "quantise/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/half.h"
#include "base/memory.h"
#include "calibrate/matrix.h"
#include "formats/bitnet.h"
#include "formats/schema.h"
#include "native/open_path.h"
#include "quant/codecs.h"
#include "quantise/pad_neurons.h"

wisp_status quantise_advance(struct quantise_run *r, wisp_error *error) {
    const wisp_quantize_options *o = r->options;
    r->done++;
    if (o->progress && !o->progress(o->context, smaller(r->done, r->steps), r->steps))
        return fail(error, WISP_ERROR_CANCELLED, r->input, NULL, "cancelled");
    return WISP_OK;
}

/* ---- items ---------------------------------------------------------------------------------- */

/* Returns the number of an item's tensors, at least 1. */
static size_t item_parts(const struct item *item) {
    size_t n = 1;
    while (!item->name && item->product.names[n])
        n++;
    return n;
}

struct linear *item_linear(const struct network *network, const struct item *item) {
    struct linear_entry all[MOST_LINEARS];
    network_linears(network, item->layer, all);
    return all[item->index].linear;
}

size_t item_names(const struct item *item, const char *suffix,
                  char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES]) {
    const size_t n = item_parts(item);
    for (size_t i = 0; i < n; i++) {
        if (item->name)
            snprintf(names[i], TENSOR_NAME_BYTES, "%s%s", item->name, suffix);
        else
            layer_tensor_name(names[i], item->layer, item->product.names[i], suffix);
    }
    return n;
}

struct tensor *quantised_tensor(struct directory *dir, const char *name) {
    size_t i = 0;
    while (strcmp(dir->tensors[i].name, name) != 0)
        i++;
    return &dir->tensors[i];
}

wisp_status load_item(const struct directory *dir, const struct item *item, size_t rows, size_t k,
                      float *weights, wisp_error *error) {
    char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES];
    const size_t n = item_names(item, TENSOR_WEIGHT, names);
    for (size_t i = 0; i < n; i++) {
        float *loaded = NULL;
        const wisp_status status =
            directory_load_floats(dir, names[i], rows / n, k, &loaded, error);
        if (status == WISP_OK)
            memcpy(weights + i * (rows / n) * k, loaded, rows / n * k * sizeof *weights);
        memory_free(loaded);
        TRY(status);
    }
    return WISP_OK;
}

bool item_has_bias(const struct directory *dir, const struct item *item) {
    char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES];
    item_names(item, TENSOR_BIAS, names);
    return directory_find_tensor(dir, names[0]) != NULL;
}

/* Loads the layer that computes logits, whose weights are an item's. */
static wisp_status use_logits(struct quantise_run *r, const struct directory *dir, const char *name,
                              wisp_error *error) {
    struct network *working = &r->working->network;
    struct linear *logits = network_logits(working);
    const struct linear_source source = {.dir = dir,
                                         .names = &name,
                                         .unbiased = true,
                                         .parts = 1,
                                         .n = working->config.vocabulary_size,
                                         .k = working->config.hidden_size};
    linear_release(logits);
    return linear_load(logits, &source, working->kernels, WISP_COMPUTE_F32, error);
}

/* Gives the working model the position embeddings of a directory, beside those of token type 0. */
static wisp_status use_positions(struct quantise_run *r, const struct directory *dir,
                                 const char *name, wisp_error *error) {
    struct network *working = &r->working->network;
    const struct model_config *c = &working->config;
    const size_t rows = c->max_positions, size = c->hidden_size;
    const struct positions *original = r->original->network.positions;
    float *before = NULL, *after = NULL;
    wisp_status status = directory_load_floats(&r->in, name, rows, size, &before, error);
    if (status == WISP_OK)
        status = directory_load_floats(dir, name, rows, size, &after, error);
    for (size_t i = 0; i < original->n * size && status == WISP_OK; i++)
        working->positions->rows[i] = original->rows[i] + (after[i] - before[i]);
    memory_free(before);
    memory_free(after);
    return status;
}

/* Loads the layer of a product. */
static wisp_status use_product(struct quantise_run *r, const struct directory *dir,
                               const struct item *item, wisp_error *error) {
    char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES];
    const char *parts[LINEAR_MAX_PARTS];
    const size_t all = item_names(item, "", names);
    struct linear *layer = item_linear(&r->working->network, item);
    size_t n = 0;
    do
        parts[n] = names[n];
    while (++n < all);
    const struct linear_source source = {.dir = dir,
                                         .names = parts,
                                         .unbiased = !item_has_bias(dir, item),
                                         .parts = n,
                                         .n = layer->n / n,
                                         .k = layer->k};
    linear_release(layer);
    return linear_load(layer, &source, r->working->network.kernels, WISP_COMPUTE_F32, error);
}

wisp_status use_item(struct quantise_run *r, const struct directory *dir, const struct item *item,
                     wisp_error *error) {
    struct network *working = &r->working->network;
    const struct model_config *c = &working->config;
    if (!item->name)
        return use_product(r, dir, item, error);
    if (strcmp(item->name, "output") == 0)
        return use_logits(r, dir, item->name, error);
    if (strcmp(item->name, "position_embd") == 0)
        return use_positions(r, dir, "position_embd.weight", error);
    token_embedding_release(&working->tokens);
    TRY(token_embedding_load(&working->tokens, dir, c->vocabulary_size, c->hidden_size, error));
    const bool tied = !directory_find_tensor(dir, "output.weight");
    return r->replay.generates && tied ? use_logits(r, dir, item->name, error) : WISP_OK;
}

/* ---- the new file --------------------------------------------------------------------------- */

wisp_status quantise_open_input(const struct quantise_run *r, struct directory *dir,
                                wisp_error *error) {
    TRY(directory_open_path(dir, r->input, error));
    return r->options->pad_neurons ? neurons_pad(dir, PADDED_NEURONS, error) : WISP_OK;
}

wisp_status quantised_open(struct quantised *q, const struct quantise_run *r, size_t capacity,
                           wisp_error *error) {
    *q = (struct quantised){.capacity = capacity};
    TRY(quantise_open_input(r, &q->out, error));
    ARENA_TAKE(&q->out.arena, q->told, q->out.n_tensors, error);
    q->data = malloc(capacity);
    if (!q->data)
        return fail_memory(error, capacity);
    const wisp_source memory = {
        .size = capacity, .data = q->data, .close = free, .context = q->data, .name = "quantised"};
    return directory_add_source(&q->out, &memory, &q->source, error);
}

void quantised_close(struct quantised *q) {
    directory_release(&q->out);
    *q = (struct quantised){0};
}

size_t quantised_capacity(const struct quantise_run *r) {
    size_t bytes = 64;
    for (size_t i = 0; i < r->n_items; i++) {
        const struct item *item = &r->items[i];
        const struct block_format *format = item->format;
        if (format)
            bytes += (size_t)(item->elements / format->elements + LINEAR_MAX_PARTS) * format->bytes;
        if (!item->name)
            bytes += item_linear(&r->original->network, item)->n * sizeof(float);
    }
    return bytes;
}

wisp_status replace_item(struct quantised *q, const struct item *item,
                         const struct block_format *format, size_t offset, wisp_error *error) {
    char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES];
    const size_t n = item_names(item, TENSOR_WEIGHT, names);
    for (size_t i = 0; i < n; i++) {
        struct tensor *tensor = quantised_tensor(&q->out, names[i]);
        uint64_t bytes;
        tensor->format = format;
        tensor->source = q->source;
        tensor->offset = offset;
        tensor->make = NULL;
        if (block_rows_depend(format, tensor->dims[0])) {
            struct tensor *stored;
            ARENA_TAKE(&q->out.arena, stored, 1, error);
            *stored = *tensor;
            TRY(bitnet_make_tensor(&q->out, tensor, stored, error));
        } else {
            TRY(directory_check_tensor(&q->out, tensor, error));
        }
        block_tensor_bytes(format, tensor->dims[0], tensor->rows, &bytes);
        offset += (size_t)bytes;
    }
    return WISP_OK;
}

/* Counts the zeros and scales of BITNET_T158's blocks. */
static void count_ternary(struct told *told, const unsigned char *blocks) {
    const uint64_t weights = told->tensor->rows * told->tensor->dims[0];
    struct t158_stats *s = &told->ternary;
    s->weights = weights;
    s->blocks = (weights + T158_BLOCK - 1) / T158_BLOCK;
    for (uint64_t i = 0; i < s->blocks; i++, blocks += T158_BYTES) {
        const double scale = (double)half_at(blocks + T158_BYTES - 2);
        s->scales += scale;
        s->squared_scales += scale * scale;
        for (uint64_t j = 0; j < T158_BLOCK && i * T158_BLOCK + j < weights; j++)
            s->zeros += (blocks[j / 4] >> j % 4 * 2 & 3) == 1;
    }
}

/* Keeps what is to be reported of an item's tensors, whose bytes begin at `bytes`. */
static void tell_item(struct quantised *q, const struct item *item, const unsigned char *bytes,
                      double plain, double errors) {
    char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES];
    const size_t n = item_names(item, TENSOR_WEIGHT, names);
    for (size_t i = 0; i < n; i++) {
        struct told *told = &q->told[q->n_told++];
        uint64_t size;
        *told = (struct told){.tensor = quantised_tensor(&q->out, names[i]),
                              .format = item->format,
                              .item = item,
                              .plain = plain,
                              .error = errors};
        block_tensor_bytes(item->format, told->tensor->dims[0], told->tensor->rows, &size);
        if (item->format->id == BLOCK_T158)
            count_ternary(told, bytes);
        bytes += size;
    }
}

void quantise_report(const struct quantise_run *r, const struct quantised *q) {
    for (size_t i = 0; i < q->n_told && r->options->tensor; i++) {
        const struct told *t = &q->told[i];
        const struct type_choice *choice = &t->item->choice;
        const double blocks = t->ternary.blocks ? (double)t->ternary.blocks : 1;
        const double mean = t->ternary.scales / blocks;
        wisp_quantized_tensor told = {
            .name = t->tensor->name,
            .type = t->format->name,
            .fits = true,
            .quantised = true,
            .elements = t->tensor->rows * t->tensor->dims[0],
            .cosine = 1,
            .plain_error = t->plain,
            .output_error = t->error,
            .expected_loss = choice->n > 0 ? choice->loss[choice->chosen] : 0,
            .blocks = t->ternary.blocks,
            .scale_mean = mean,
            .scale_deviation = sqrt(fmax(t->ternary.squared_scales / blocks - mean * mean, 0)),
            .sparsity =
                t->ternary.weights ? (double)t->ternary.zeros / (double)t->ternary.weights : 0};
        block_tensor_bytes(t->format, t->tensor->dims[0], t->tensor->rows, &told.bytes);
        r->options->tensor(r->options->context, &told);
    }
}

/* ---- running the two models ----------------------------------------------------------------- */

static void capture_rows(void *context, const float *x, const float *y, size_t m) {
    struct capture *c = context;
    memcpy(c->x + c->rows * c->k, x, m * c->k * sizeof *x);
    memcpy(c->y + c->rows * c->n, y, m * c->n * sizeof *y);
    c->rows += m;
}

/* Runs a block and captures what one of its layers does. */
static wisp_status run_tapped(struct quantise_run *r, struct network *network,
                              const struct item *item, struct capture *capture, size_t first,
                              size_t end, float *state, wisp_error *error) {
    const struct cursor at = {item->layer, item->product.block};
    const struct linear_tap tap = {capture_rows, capture};
    struct linear *layer = item_linear(network, item);
    capture->rows = 0;
    layer->tap = &tap;
    const wisp_status status =
        replay_block(&r->replay, network, at, &r->texts, first, end, state, NULL, error);
    layer->tap = NULL;
    return status;
}

static wisp_status add_rows(const struct quantise_run *r, struct layer_sums *s, const float *x,
                            const float *y, size_t m, double *part, wisp_error *error) {
    const struct kernels *kernels = r->original->network.kernels;
    TRY(matrix_gram(kernels, x, x, part, s->k, s->k, m, error));
    for (size_t i = 0; i < s->k * s->k; i++)
        s->xx[i] += part[i];
    TRY(matrix_gram(kernels, x, y, part, s->k, s->n, m, error));
    for (size_t i = 0; i < s->k * s->n; i++)
        s->xy[i] += part[i];
    for (size_t t = 0; t < m; t++) {
        for (size_t i = 0; i < s->k; i++)
            s->x[i] += (double)x[t * s->k + i];
        for (size_t i = 0; i < s->n; i++)
            s->y[i] += (double)y[t * s->n + i];
    }
    s->tokens += (double)m;
    return WISP_OK;
}

/* For a product that ends a block, the outputs that it should have include the difference between
 * the two models in the hidden states that they are added to. */
wisp_status sum_product(struct quantise_run *r, const struct item *item, struct layer_sums *s,
                        struct arena *scratch, wisp_error *error) {
    struct network *original = &r->original->network, *working = &r->working->network;
    const size_t size = original->config.hidden_size, stride = r->replay.stride;
    struct linear *layer = item_linear(original, item);
    struct capture *a = &r->first, *b = &r->second;
    double *part;
    a->n = b->n = s->n;
    a->k = b->k = s->k;
    ARENA_TAKE(scratch, s->xx, s->k * s->k, error);
    ARENA_TAKE(scratch, s->xy, s->k * s->n, error);
    ARENA_TAKE(scratch, s->x, s->k, error);
    ARENA_TAKE(scratch, s->y, s->n, error);
    ARENA_TAKE(scratch, part, s->k * larger(s->k, s->n), error);
    for (size_t i = 0, end; i < r->texts.n; i = end) {
        end = replay_batch_end(&r->replay, &r->texts, i);
        const size_t m = r->texts.starts[end] - r->texts.starts[i];
        float *x0 = r->x0 + r->texts.starts[i] * stride, *x1 = r->x1 + r->texts.starts[i] * stride;
        const float *inputs = replay_inputs(&r->replay, x1, m);
        if (item->product.role == LINEAR_ENDS) {
            const bool carries = !original->architecture->norms_outputs;
            for (size_t j = 0; j < m * size; j++)
                r->sum[j] = carries ? x0[j] - x1[j] : 0;
            TRY(run_tapped(r, original, item, a, i, end, x0, error));
            for (size_t j = 0; j < m * size; j++)
                a->y[j] += r->sum[j];
            memcpy(r->after, x1, m * stride * sizeof *x1);
            TRY(run_tapped(r, working, item, b, i, end, r->after, error));
            inputs = b->x;
        } else {
            struct workspace *space = &r->replay.space;
            TRY(workspace_reserve(space, linear_workspace_bytes(m, s->k), error));
            linear_apply(layer, replay_inputs(&r->replay, x0, m), m, a->y, *space);
        }
        TRY(add_rows(r, s, inputs, a->y, m, part, error));
        TRY(quantise_advance(r, error));
    }
    return WISP_OK;
}

wisp_status embed_texts(struct quantise_run *r, const struct network *network, float *states,
                        wisp_error *error) {
    for (size_t i = 0, end; i < r->texts.n; i = end) {
        const struct cursor start = {0, PASS_EMBED};
        end = replay_batch_end(&r->replay, &r->texts, i);
        TRY(replay_block(&r->replay, network, start, &r->texts, i, end,
                         states + r->texts.starts[i] * r->replay.stride, NULL, error));
    }
    return WISP_OK;
}

/* ---- quantising ----------------------------------------------------------------------------- */

/* Writes the biases of a product's tensors, which make up for mean errors. */
static wisp_status replace_biases(struct quantised *q, const struct item *item, const float *bias,
                                  size_t rows, wisp_error *error) {
    char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES];
    const size_t n = item_names(item, TENSOR_BIAS, names);
    for (size_t i = 0; i < n; i++) {
        struct tensor *tensor = quantised_tensor(&q->out, names[i]);
        block_format_by_id(BLOCK_F32)->quantise(bias + i * rows, rows, q->data + q->used);
        tensor->format = block_format_by_id(BLOCK_F32);
        tensor->source = q->source;
        tensor->offset = q->used;
        tensor->make = NULL;
        TRY(directory_check_tensor(&q->out, tensor, error));
        q->used += rows * sizeof(float);
    }
    return WISP_OK;
}

/* Quantises the matrices of a product and packs them for the working model. */
static wisp_status quantise_product(struct quantise_run *r, const struct item *item,
                                    struct quantised *q, struct arena *scratch, wisp_error *error) {
    const struct linear *layer = item_linear(&r->original->network, item);
    struct layer_sums s = {.n = layer->n, .k = layer->k};
    char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES];
    const size_t parts = item_names(item, TENSOR_WEIGHT, names);
    struct corrected c = {.format = item->format, .tensor_rows = s.n / parts};
    const size_t offset = q->used;
    uint64_t bytes;
    float *weights;
    ARENA_TAKE(scratch, weights, s.n * s.k, error);
    ARENA_TAKE(scratch, c.values, s.n * s.k, error);
    TRY(load_item(&r->in, item, s.n, s.k, weights, error));
    c.weights = weights;
    if (item_has_bias(&q->out, item))
        ARENA_TAKE(scratch, c.bias, s.n, error);
    block_tensor_bytes(item->format, s.k, s.n / parts, &bytes);
    c.bytes = q->data + offset;
    q->used += parts * (size_t)bytes;
    TRY(sum_product(r, item, &s, scratch, error));
    TRY(correct_matrix(&s, &c, r->team, error));
    if (!isfinite(c.plain) || !isfinite(c.error))
        return fail(error, WISP_ERROR_UNSUPPORTED, r->input, names[parts - 1],
                    "weights so large that outputs on the texts are not finite");
    TRY(replace_item(q, item, item->format, offset, error));
    tell_item(q, item, q->data + offset, c.plain, c.error);
    if (c.bias)
        TRY(replace_biases(q, item, c.bias, s.n / parts, error));
    return use_item(r, &q->out, item, error);
}

wisp_status round_item(struct quantised *q, const struct item *item,
                       const struct block_format *format, const float *importances,
                       wisp_error *error) {
    char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES];
    struct arena scratch = {0};
    const void *bytes;
    void *stored;
    float *values;
    item_names(item, TENSOR_WEIGHT, names);
    const struct tensor *tensor = quantised_tensor(&q->out, names[0]);
    const size_t offset = q->used, n = (size_t)tensor->dims[0];
    stored = arena_allocate(&scratch, (size_t)tensor->row_bytes);
    values = arena_allocate(&scratch, n * sizeof *values);
    wisp_status status =
        stored && values ? WISP_OK : fail_memory(error, (size_t)tensor->row_bytes + 4 * n);
    for (uint64_t row = 0; row < tensor->rows && status == WISP_OK; row++) {
        if (tensor->format == format) {
            status = directory_rows(&q->out, tensor, row, 1, NULL, stored, &bytes, error);
            if (status == WISP_OK)
                memcpy(q->data + q->used, bytes, (size_t)tensor->row_bytes);
        } else {
            status = directory_floats(&q->out, tensor, row, 1, NULL, stored, values, error);
            if (status == WISP_OK)
                grid_quantise(block_grid_of(format->id), values, importances, n, q->data + q->used);
        }
        q->used += n / format->elements * format->bytes;
    }
    arena_release(&scratch);
    return status == WISP_OK ? replace_item(q, item, format, offset, error) : status;
}

void logits_importances(const struct quantise_run *r, const float *states, float *importances) {
    const size_t size = r->original->network.config.hidden_size, stride = r->replay.stride;
    const size_t tokens = r->texts.starts[r->texts.n];
    memset(importances, 0, size * sizeof *importances);
    for (size_t i = 0, end; i < r->texts.n; i = end) {
        end = replay_batch_end(&r->replay, &r->texts, i);
        const size_t first = r->texts.starts[i], m = r->texts.starts[end] - first;
        const float *x = states + first * stride + m * size; /* norms follow the hidden states */
        for (size_t j = 0; j < m * size; j++)
            importances[j % size] += x[j] * x[j];
    }
    for (size_t j = 0; j < size; j++)
        importances[j] = importances[j] / (float)tokens + 1e-9f;
}

/* Rounds a tensor outside of the layers. */
static wisp_status quantise_tensor(struct quantise_run *r, const struct item *item,
                                   const float *importances, struct quantised *q,
                                   wisp_error *error) {
    const struct type_choice *choice = &item->choice;
    const size_t offset = q->used;
    if (item->format && item->format->elements > 1) {
        TRY(round_item(q, item, item->format, importances, error));
        if (choice->n > 0)
            tell_item(q, item, q->data + offset, choice->plain[choice->chosen],
                      choice->errors[choice->chosen]);
    }
    return use_item(r, &q->out, item, error);
}

static wisp_status quantise_layer_item(struct quantise_run *r, const struct item *item,
                                       struct quantised *q, wisp_error *error) {
    struct arena scratch = {0};
    const wisp_status status = quantise_product(r, item, q, &scratch, error);
    arena_release(&scratch);
    TRY(status);
    for (size_t i = 0, end; i < r->texts.n && item->product.role == LINEAR_ENDS; i = end) {
        const struct cursor at = {item->layer, item->product.block};
        end = replay_batch_end(&r->replay, &r->texts, i);
        TRY(replay_block(&r->replay, &r->working->network, at, &r->texts, i, end,
                         r->x1 + r->texts.starts[i] * r->replay.stride, NULL, error));
    }
    return WISP_OK;
}

wisp_status quantise_items(struct quantise_run *r, struct quantised *q, wisp_error *error) {
    float *importances;
    size_t i = 0;
    ARENA_TAKE(&q->out.arena, importances, r->original->network.config.hidden_size, error);
    for (; i < r->n_items && r->items[i].name; i++)
        TRY(quantise_tensor(r, &r->items[i], NULL, q, error));
    TRY(embed_texts(r, &r->original->network, r->x0, error));
    TRY(embed_texts(r, &r->working->network, r->x1, error));
    for (; i < r->n_items && !r->items[i].name; i++)
        TRY(quantise_layer_item(r, &r->items[i], q, error));
    if (i == r->n_items)
        return WISP_OK;
    logits_importances(r, r->x1, importances);
    return quantise_tensor(r, &r->items[i], importances, q, error);
}
