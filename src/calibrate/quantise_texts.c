/* SPDX-License-Identifier: Apache-2.0
 * wisp_quantize_for_texts: quantises an encoder matrix by matrix, each against what the original
 * model computes from the texts. Two copies of the model run side by side: the original, and the
 * one whose earlier matrices are quantised already. So each matrix also makes up for errors that
 * come from those before it. Native only. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "base/random.h"
#include "calibrate/correct.h"
#include "calibrate/matrix.h"
#include "convert/calibration_tensors.h"
#include "convert/plan.h"
#include "convert/write_model.h"
#include "engine/model.h"
#include "formats/schema.h"
#include "host/file.h"
#include "models/bert.h"
#include "models/pass.h"
#include "native/open_path.h"

enum { DEFAULT_TOKENS = 32768, LEAST_TOKENS = 64, BATCH_TOKENS = 256 };

/* The products of one layer's matrices with the same inputs. */
struct product {
    const char *parts[LINEAR_MAX_PARTS + 1]; /* the names of the matrices that are stacked */
    enum block block;
    bool ends_block; /* its output is added to the block's input */
};

static const struct product with_three[] = {
    {{"attn_q", "attn_k", "attn_v"}, BLOCK_ATTENTION, false},
    {{"attn_output"}, BLOCK_ATTENTION, true},
    {{TENSOR_FFN_UP}, BLOCK_FEED_FORWARD, false},
    {{TENSOR_FFN_DOWN}, BLOCK_FEED_FORWARD, true},
    {{NULL}, BLOCK_END, false}};
static const struct product with_gate[] = {
    {{"attn_qkv"}, BLOCK_ATTENTION, false},        {{"attn_output"}, BLOCK_ATTENTION, true},
    {{TENSOR_FFN_UP}, BLOCK_FEED_FORWARD, false},  {{TENSOR_FFN_GATE}, BLOCK_FEED_FORWARD, false},
    {{TENSOR_FFN_DOWN}, BLOCK_FEED_FORWARD, true}, {{NULL}, BLOCK_END, false}};

/* Rows that a layer has seen and computed for one batch. */
struct capture {
    float *x, *y; /* [rows, k], [rows, n] */
    size_t n, k, rows;
};

struct run {
    const wisp_quantize_options *options;
    const struct block_format *type, *ffn_type, *embedding_type;
    const struct block_format *position_type; /* NULL: floats */
    wisp_model *original, *working;
    struct directory out; /* the file that is written; its tensors become quantised one by one */
    struct pool *team;
    struct arena arena;
    struct workspace space;
    const struct product *products;
    int32_t *ids;   /* tokens of all texts, one after the other */
    size_t *starts; /* [texts + 1]: text i is ids[starts[i] .. starts[i + 1]) */
    size_t texts, longest_batch;
    float *x0, *x1; /* [tokens, hidden_size]: the inputs of the next block: original, working */
    struct capture first, second; /* of the two models */
    float *sum;                   /* [longest_batch, hidden_size] */
    unsigned char *data;          /* [capacity]: a source of `out`, with what was quantised */
    size_t used, capacity;
    uint32_t source;
    size_t done, steps; /* batches that went through a product */
};

/* ---- running the two models ----------------------------------------------------------------- */

static size_t batch_end(const struct run *r, size_t first) {
    size_t end = first + 1;
    while (end < r->texts && end - first < BATCH_TOKENS &&
           r->starts[end + 1] - r->starts[first] <= BATCH_TOKENS)
        end++;
    return end;
}

static wisp_status advance(struct run *r, wisp_error *error) {
    const wisp_quantize_options *o = r->options;
    r->done++;
    if (o->progress && !o->progress(o->context, r->done, r->steps))
        return fail(error, WISP_ERROR_CANCELLED, r->out.file, NULL, "cancelled");
    return WISP_OK;
}

/* Runs one block for texts [first, end): x [tokens, hidden_size] becomes its output. */
static wisp_status run_block(struct run *r, const struct network *network, struct cursor at,
                             size_t first, size_t end, float *x, wisp_error *error) {
    const size_t tokens = r->starts[end] - r->starts[first];
    const size_t values = tokens * network->config.hidden_size;
    const struct pass_size most = {
        .texts = end - first, .tokens = tokens, .longest = tokens, .members = 1};
    size_t starts[BATCH_TOKENS + 1];
    for (size_t i = 0; i <= end - first; i++)
        starts[i] = r->starts[first + i] - r->starts[first];
    TRY(workspace_reserve(&r->space, pass_workspace_bytes(network, &most), error));
    struct pass pass = {
        .network = network,
        .batch = {.texts = end - first, .ids = r->ids + r->starts[first], .starts = starts}};
    pass_begin(&pass, &r->space);
    if (at.block != BLOCK_EMBED)
        memcpy(pass.x, x, values * sizeof *x);
    TRY(network->architecture->step(&pass, 0, at, error));
    memcpy(x, pass.x, values * sizeof *x);
    return WISP_OK;
}

static void capture_rows(void *context, const float *x, const float *y, size_t m) {
    struct capture *c = context;
    memcpy(c->x + c->rows * c->k, x, m * c->k * sizeof *x);
    memcpy(c->y + c->rows * c->n, y, m * c->n * sizeof *y);
    c->rows += m;
}

/* Runs a block and captures what one of its layers does. */
static wisp_status run_tapped(struct run *r, struct network *network, struct linear *layer,
                              struct capture *capture, struct cursor at, size_t first, size_t end,
                              float *x, wisp_error *error) {
    const struct linear_tap tap = {capture_rows, capture};
    capture->rows = 0;
    layer->tap = &tap;
    const wisp_status status = run_block(r, network, at, first, end, x, error);
    layer->tap = NULL;
    return status;
}

static struct linear *linear_of(struct network *network, size_t l, const struct product *p) {
    const struct bert_weights *weights = network->weights;
    struct feed_forward *f = &network->feed_forward[l];
    if (p->block == BLOCK_ATTENTION)
        return p->ends_block ? &weights->layer[l].output : &weights->layer[l].qkv;
    return p->ends_block ? &f->down : strcmp(p->parts[0], TENSOR_FFN_GATE) == 0 ? &f->gate : &f->up;
}

/* ---- sums ----------------------------------------------------------------------------------- */

static wisp_status add_rows(const struct run *r, struct layer_sums *s, const float *x,
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

/* Adds up a product over all texts. Its inputs are those of the working model, its outputs should
 * be those of the original. Where it ends a block, the output also takes up the difference between
 * the two models in what it is added to. The original then moves on to the next block. */
static wisp_status add_product(struct run *r, size_t l, const struct product *p,
                               struct layer_sums *s, struct arena *scratch, wisp_error *error) {
    struct network *original = &r->original->network, *working = &r->working->network;
    const size_t size = original->config.hidden_size;
    struct linear *layer = linear_of(original, l, p);
    struct capture *a = &r->first, *b = &r->second;
    double *part;
    a->n = b->n = s->n;
    a->k = b->k = s->k;
    ARENA_TAKE(scratch, part, s->k * larger(s->k, s->n), error);
    for (size_t i = 0, end; i < r->texts; i = end) {
        end = batch_end(r, i);
        const size_t m = r->starts[end] - r->starts[i], at = r->starts[i] * size;
        const struct cursor block = {(uint32_t)l, p->block};
        float *x0 = r->x0 + at, *x1 = r->x1 + at;
        const float *inputs = x1;
        if (p->ends_block) {
            for (size_t j = 0; j < m * size; j++)
                r->sum[j] = x0[j] - x1[j];
            TRY(run_tapped(r, original, layer, a, block, i, end, x0, error));
            for (size_t j = 0; j < m * size; j++)
                a->y[j] += r->sum[j];
            memcpy(r->sum, x1, m * size * sizeof *x1);
            TRY(run_tapped(r, working, linear_of(working, l, p), b, block, i, end, r->sum, error));
            inputs = b->x;
        } else {
            TRY(workspace_reserve(&r->space, linear_workspace_bytes(m, s->k), error));
            linear_apply(layer, x0, m, a->y, r->space);
        }
        TRY(add_rows(r, s, inputs, a->y, m, part, error));
        TRY(advance(r, error));
    }
    return WISP_OK;
}

/* ---- tensors -------------------------------------------------------------------------------- */

static struct tensor *find_tensor(struct run *r, const char *name) {
    for (size_t i = 0; i < r->out.n_tensors; i++)
        if (strcmp(r->out.tensors[i].name, name) == 0)
            return &r->out.tensors[i];
    return NULL;
}

/* Lets a tensor be the bytes at r->data + offset. */
static wisp_status replace(struct run *r, struct tensor *tensor, const struct block_format *format,
                           size_t offset, wisp_error *error) {
    tensor->format = format;
    tensor->source = r->source;
    tensor->offset = offset;
    tensor->make = NULL;
    return directory_check_tensor(&r->out, tensor, error);
}

static void report(const struct run *r, const struct tensor *tensor, const struct corrected *c) {
    const wisp_quantized_tensor told = {.name = tensor->name,
                                        .type = tensor->format->name,
                                        .fits = true,
                                        .quantised = true,
                                        .elements = tensor->rows * tensor->dims[0],
                                        .bytes = tensor->bytes,
                                        .cosine = 1,
                                        .plain_error = c->plain,
                                        .output_error = c->error};
    if (r->options->tensor)
        r->options->tensor(r->options->context, &told);
}

/* Quantises the matrices of a product and packs them for the working model. */
static wisp_status quantise_product(struct run *r, size_t l, const struct product *p,
                                    struct arena *scratch, wisp_error *error) {
    struct network *working = &r->working->network;
    struct linear *layer = linear_of(working, l, p);
    const bool has_bias = working->config.has_bias;
    struct layer_sums s = {.n = layer->n, .k = layer->k};
    const struct block_format *type = p->block == BLOCK_ATTENTION ? r->type : r->ffn_type;
    struct corrected c = {.format = type};
    char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES], name[TENSOR_NAME_BYTES];
    const char *parts[LINEAR_MAX_PARTS];
    float *weights;
    size_t n_parts = 0;
    while (p->parts[n_parts])
        n_parts++;
    const size_t rows = s.n / n_parts;
    const size_t bytes = rows * (s.k / type->elements) * type->bytes;
    ARENA_TAKE(scratch, s.xx, s.k * s.k, error);
    ARENA_TAKE(scratch, s.xy, s.k * s.n, error);
    ARENA_TAKE(scratch, s.x, s.k, error);
    ARENA_TAKE(scratch, s.y, s.n, error);
    ARENA_TAKE(scratch, weights, s.n * s.k, error);
    ARENA_TAKE(scratch, c.values, s.n * s.k, error);
    for (size_t i = 0; i < n_parts; i++) {
        float *loaded = NULL;
        layer_tensor_name(names[i], l, p->parts[i], "");
        layer_tensor_name(name, l, p->parts[i], TENSOR_WEIGHT);
        parts[i] = names[i];
        const wisp_status status = directory_load_floats(&r->out, name, rows, s.k, &loaded, error);
        if (status == WISP_OK)
            memcpy(weights + i * rows * s.k, loaded, rows * s.k * sizeof *weights);
        memory_free(loaded);
        TRY(status);
    }
    c.weights = weights;
    if (has_bias)
        ARENA_TAKE(scratch, c.bias, s.n, error);
    c.bytes = r->data + r->used;
    r->used += n_parts * bytes;
    TRY(add_product(r, l, p, &s, scratch, error));
    TRY(correct_matrix(&s, &c, r->team, error));
    if (!isfinite(c.plain) || !isfinite(c.error))
        return fail(error, WISP_ERROR_UNSUPPORTED, r->out.file, name,
                    "weights so large that outputs on the texts are not finite");
    for (size_t i = 0; i < n_parts; i++) {
        layer_tensor_name(name, l, p->parts[i], TENSOR_WEIGHT);
        struct tensor *tensor = find_tensor(r, name);
        TRY(replace(r, tensor, type, (size_t)(c.bytes - r->data) + i * bytes, error));
        report(r, tensor, &c);
        if (!has_bias)
            continue;
        layer_tensor_name(name, l, p->parts[i], TENSOR_BIAS);
        block_format_by_id(BLOCK_F32)->quantise(c.bias + i * rows, rows, r->data + r->used);
        TRY(replace(r, find_tensor(r, name), block_format_by_id(BLOCK_F32), r->used, error));
        r->used += rows * sizeof(float);
    }
    const struct linear_source source = {.dir = &r->out,
                                         .names = parts,
                                         .unbiased = !has_bias,
                                         .parts = n_parts,
                                         .n = rows,
                                         .k = s.k};
    linear_release(layer);
    return linear_load(layer, &source, working->kernels, false, error);
}

/* Rounds a tensor outside of the layers, or copies one that has the format. */
static wisp_status round_tensor(struct run *r, const char *name, const struct block_format *format,
                                wisp_error *error) {
    struct tensor *tensor = find_tensor(r, name);
    struct arena scratch = {0};
    const void *bytes;
    void *stored;
    float *values;
    if (!tensor)
        return WISP_OK;
    const size_t offset = r->used, n = (size_t)tensor->dims[0];
    stored = arena_allocate(&scratch, (size_t)tensor->row_bytes);
    values = arena_allocate(&scratch, n * sizeof *values);
    wisp_status status =
        stored && values ? WISP_OK : fail_memory(error, (size_t)tensor->row_bytes + 4 * n);
    for (uint64_t row = 0; row < tensor->rows && status == WISP_OK; row++) {
        if (tensor->format == format) {
            status = directory_rows(&r->out, tensor, row, 1, NULL, stored, &bytes, error);
            if (status == WISP_OK)
                memcpy(r->data + r->used, bytes, (size_t)tensor->row_bytes);
        } else {
            status = directory_floats(&r->out, tensor, row, 1, NULL, stored, values, error);
            if (status == WISP_OK)
                grid_quantise(block_grid_of(format->id), values, n, r->data + r->used);
        }
        r->used += n / format->elements * format->bytes;
    }
    arena_release(&scratch);
    return status == WISP_OK ? replace(r, tensor, format, offset, error) : status;
}

/* Quantises the position embeddings, of the working model too, which has added token type 0. */
static wisp_status round_positions(struct run *r, wisp_error *error) {
    static const char name[] = "position_embd.weight";
    const struct model_config *c = &r->working->network.config;
    const size_t rows = c->max_positions, size = c->hidden_size;
    const struct bert_weights *weights = r->working->network.weights;
    float *before = NULL, *after = NULL;
    wisp_status status = directory_load_floats(&r->out, name, rows, size, &before, error);
    if (status == WISP_OK)
        status = round_tensor(r, name, r->position_type, error);
    if (status == WISP_OK)
        status = directory_load_floats(&r->out, name, rows, size, &after, error);
    for (size_t i = 0; i < weights->positions * size && status == WISP_OK; i++)
        weights->position_embedding[i] += after[i] - before[i];
    memory_free(before);
    memory_free(after);
    return status;
}

/* ---- all together --------------------------------------------------------------------------- */

/* Chooses texts at random, by the seed, until they have about as many tokens as are asked for. */
static wisp_status choose_texts(struct run *r, const wisp_text *texts, size_t n,
                                wisp_error *error) {
    const size_t most = r->original->max_tokens;
    const size_t wanted = r->options->tokens ? r->options->tokens : DEFAULT_TOKENS;
    size_t *order, used = 0;
    uint64_t random = r->options->seed;
    ARENA_TAKE(&r->arena, order, n, error);
    ARENA_TAKE(&r->arena, r->starts, n + 1, error);
    ARENA_TAKE(&r->arena, r->ids, wanted + most, error);
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = 0; i < n && used < wanted; i++) {
        const size_t other = i + (size_t)(random_next(&random) % (n - i)), text = order[other];
        order[other] = order[i];
        const size_t tokens =
            tokenizer_encode(r->original->tokenizer, texts[text], most, r->ids + used, NULL);
        used += tokens;
        r->starts[++r->texts] = used;
    }
    if (used < LEAST_TOKENS)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "texts",
                    "%zu texts with %zu tokens, where at least %d are needed", n, used,
                    LEAST_TOKENS);
    return WISP_OK;
}

/* Takes memory for the states of all texts, and for what is quantised. */
static wisp_status open_memory(struct run *r, wisp_error *error) {
    const struct model_config *c = &r->original->network.config;
    const size_t size = c->hidden_size, tokens = r->starts[r->texts];
    const size_t widest = larger(3 * size, c->intermediate_size);
    size_t batches = 0, products = 0;
    for (size_t i = 0, end; i < r->texts; i = end, batches++) {
        end = batch_end(r, i);
        r->longest_batch = larger(r->longest_batch, r->starts[end] - r->starts[i]);
    }
    while (r->products[products].parts[0])
        products++;
    r->steps = batches * products * c->layers;
    ARENA_TAKE(&r->arena, r->x0, tokens * size, error);
    ARENA_TAKE(&r->arena, r->x1, tokens * size, error);
    ARENA_TAKE(&r->arena, r->sum, r->longest_batch * size, error);
    ARENA_TAKE(&r->arena, r->first.x, r->longest_batch * widest, error);
    ARENA_TAKE(&r->arena, r->first.y, r->longest_batch * widest, error);
    ARENA_TAKE(&r->arena, r->second.x, r->longest_batch * widest, error);
    ARENA_TAKE(&r->arena, r->second.y, r->longest_batch * widest, error);
    for (size_t i = 0; i < r->out.n_tensors; i++) {
        const struct tensor *tensor = &r->out.tensors[i];
        const uint64_t values = tensor->rows * tensor->dims[0];
        const struct block_format *format =
            strcmp(tensor->name, "token_embd.weight") == 0 ? r->embedding_type
            : !is_weight_matrix(tensor)                    ? block_format_by_id(BLOCK_F32)
            : r->type->bytes > r->ffn_type->bytes          ? r->type
                                                           : r->ffn_type;
        r->capacity += (size_t)(values / format->elements * format->bytes) + 4;
    }
    r->data = malloc(r->capacity);
    if (!r->data)
        return fail_memory(error, r->capacity);
    const wisp_source memory = {.size = r->capacity,
                                .data = r->data,
                                .close = free,
                                .context = r->data,
                                .name = "quantised"};
    return directory_add_source(&r->out, &memory, &r->source, error);
}

static wisp_status quantise_layer(struct run *r, size_t l, wisp_error *error) {
    for (const struct product *p = r->products; p->parts[0]; p++) {
        struct arena scratch = {0};
        const wisp_status status = quantise_product(r, l, p, &scratch, error);
        arena_release(&scratch);
        TRY(status);
        for (size_t i = 0, end; i < r->texts && p->ends_block; i = end) {
            end = batch_end(r, i);
            TRY(run_block(r, &r->working->network, (struct cursor){(uint32_t)l, p->block}, i, end,
                          r->x1 + r->starts[i] * r->working->network.config.hidden_size, error));
        }
    }
    return WISP_OK;
}

static wisp_status write_all(struct run *r, const char *output, wisp_error *error) {
    struct gguf_plan plan = {0};
    ARENA_TAKE(&r->arena, plan.formats, r->out.n_tensors, error);
    for (size_t i = 0; i < r->out.n_tensors; i++) {
        const struct tensor *tensor = &r->out.tensors[i];
        const bool floats = tensor->source != r->source && !is_calibration_tensor(tensor->name);
        plan.formats[i] = floats ? block_format_by_id(BLOCK_F32) : tensor->format;
    }
    TRY(put_file_type(&r->out, r->type, error));
    return write_model(&r->out, &plan, NEURONS_PLAIN, output, error);
}

static wisp_status quantise_texts(struct run *r, const char *output, const wisp_text *texts,
                                  size_t n, wisp_error *error) {
    struct network *original = &r->original->network, *working = &r->working->network;
    const size_t size = original->config.hidden_size;
    r->products = original->architecture == &architecture_bert ? with_three : with_gate;
    TRY(choose_texts(r, texts, n, error));
    TRY(open_memory(r, error));
    TRY(round_tensor(r, "token_embd.weight", r->embedding_type, error));
    if (r->position_type)
        TRY(round_positions(r, error));
    token_embedding_release(&working->tokens);
    TRY(token_embedding_load(&working->tokens, &r->out, working->config.vocabulary_size, size,
                             false, error));
    for (size_t i = 0, end; i < r->texts; i = end) {
        const struct cursor start = {0, BLOCK_EMBED};
        end = batch_end(r, i);
        TRY(run_block(r, original, start, i, end, r->x0 + r->starts[i] * size, error));
        TRY(run_block(r, working, start, i, end, r->x1 + r->starts[i] * size, error));
    }
    for (size_t l = 0; l < original->config.layers; l++)
        TRY(quantise_layer(r, l, error));
    return write_all(r, output, error);
}

static wisp_status find_type(const char *option, const char *name, size_t row_length,
                             const struct block_format **format, wisp_error *error) {
    *format = block_format_by_name(name);
    if (!*format || !block_grid_of((*format)->id))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, option,
                    "%.32s is not one of q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl, mxfp4, which "
                    "texts can improve",
                    name);
    if (row_length % (*format)->elements != 0)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, option,
                    "rows of %zu values are not whole blocks of %s, which have %u", row_length,
                    (*format)->name, (*format)->elements);
    return WISP_OK;
}

static wisp_status open_all(struct run *r, const char *input, const char *type, wisp_error *error) {
    const wisp_quantize_options *o = r->options;
    const wisp_model_options dense = {.compute = WISP_COMPUTE_F32,
                                      .predictor = WISP_PREDICTOR_DENSE};
    TRY(wisp_model_open(input, &dense, &r->original, error));
    const struct network *network = &r->original->network;
    if (!network->architecture->embeds)
        return fail(error, WISP_ERROR_UNSUPPORTED, input, "general.architecture",
                    "models of architecture %s cannot be quantised for texts",
                    network->architecture->name);
    TRY(find_type("type", type, network->config.hidden_size, &r->type, error));
    TRY(find_type("type", type, network->config.intermediate_size, &r->type, error));
    TRY(find_type("ffn_type", o->ffn_type ? o->ffn_type : type, network->config.hidden_size,
                  &r->ffn_type, error));
    if (o->position_type && network->config.rope_theta != 0)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "position_type",
                    "the model has no position embeddings");
    if (o->position_type)
        TRY(find_type("position_type", o->position_type, network->config.hidden_size,
                      &r->position_type, error));
    TRY(find_type("embedding_type", o->embedding_type ? o->embedding_type : type,
                  network->config.hidden_size, &r->embedding_type, error));
    TRY(wisp_model_open(input, &dense, &r->working, error));
    TRY(directory_open_path(&r->out, input, error));
    return pool_open(o->threads ? o->threads : 1, &r->team, error);
}

wisp_status wisp_quantize_for_texts(const char *input, const char *output, const char *type,
                                    const wisp_text *texts, size_t n,
                                    const wisp_quantize_options *options, wisp_error *error) {
    const wisp_quantize_options defaults = {0};
    struct run r = {.options = options ? options : &defaults};
    TRY(require(input, "input", error));
    TRY(require(output, "output", error));
    TRY(require(type, "type", error));
    TRY(require_texts(texts, n, error));
    if (r.options->threads > POOL_MAX_THREADS)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "threads", "%u is more than %d",
                    r.options->threads, POOL_MAX_THREADS);
    TRY(file_check_output(output, error));
    wisp_status status = open_all(&r, input, type, error);
    if (status == WISP_OK)
        status = quantise_texts(&r, output, texts, n, error);
    workspace_release(&r.space);
    arena_release(&r.arena);
    if (r.team)
        pool_close(r.team);
    wisp_model_close(r.original);
    wisp_model_close(r.working);
    directory_release(&r.out);
    return status;
}
