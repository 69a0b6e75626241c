/* SPDX-License-Identifier: Apache-2.0
 * The kernels of a decoder's step, in their order. */
#include <algorithm>

#include "kernels/cuda/decoder.h"
#include "kernels/cuda/decoder_prompt.h"
#include "kernels/cuda/decoder_sparse.h"
#include "kernels/cuda/decoder_tiles.h"
#include "kernels/cuda/decoder_warpgroups.h"

/* Products of up to 16 rows take wider tiles of columns if so many blocks of threads are busy with them. */
enum { MOST_COLUMN_TILES = 4, WIDEST_BLOCKS = 512, WIDE_BLOCKS = 128 };

/* Shared by the kernels of a step. */
struct run {
    const device_context *context;
    const step_plan *plan;
    attention_texts texts;
    attention_sizes sizes;
    /* Returns the rows that a product of so many reads, in the form that it takes. */
    decoder_rows input(size_t rows) const {
        const step_memory &m = context->memory;
        if (context->decoder->warpgroups && rows > MMA_ROWS)
            return {NULL, NULL, m.staged, true};
        return m.x;
    }
};

/* Starts a kernel of the step, as soon as the one before lets it. */
template <auto KERNEL, class ARGUMENTS>
static void start(const run &r, dim3 grid, unsigned threads, const ARGUMENTS &arguments, size_t shared_bytes = 0) {
    run_dependent_kernel<KERNEL>(grid, threads, shared_bytes, r.context->stream, r.context->decoder->overlaps, arguments);
}

template <int SIZE> static void run_split(const run &r, dim3 grid, const split_arguments &arguments) {
    start<attend_split<SIZE>>(r, grid, SPLIT_THREADS, arguments);
}

template <int SIZE> static void run_prompt(const run &r, dim3 grid, const prompt_arguments &arguments) {
    start<attend_prompt<SIZE>>(r, grid, ATTENTION_WARPS * WARP, arguments, attention_layout<SIZE>::SHARED_BYTES);
}

/* Attention for each size of heads. Without a kernel of their own, prompts take that of single tokens. */
static const struct attention_kernels {
    uint32_t head_size;
    void (*split)(const run &r, dim3 grid, const split_arguments &arguments);
    void (*prompt)(const run &r, dim3 grid, const prompt_arguments &arguments);
} attention_kernels[] = {{32, run_split<32>, run_prompt<32>},
                         {64, run_split<64>, run_prompt<64>},
                         {96, run_split<96>, run_prompt<96>},
                         {128, run_split<128>, run_prompt<128>},
                         {256, run_split<256>, NULL}};

static const struct attention_kernels *find_attention(uint32_t head_size) {
    for (const auto &kernels : attention_kernels)
        if (kernels.head_size == head_size)
            return &kernels;
    return NULL;
}

device_status decoder_check(const device_decoder_shape *s, char message[DEVICE_MESSAGE_BYTES]) {
    if (!find_attention(s->head_size) || s->heads == 0 || s->kv_heads == 0 || s->heads % s->kv_heads != 0 ||
        s->heads / s->kv_heads > MOST_GROUP) {
        snprintf(message, DEVICE_MESSAGE_BYTES,
                 "%u heads of %u values on %u key-value heads: the device has heads of 32, 64, 96, 128 and 256 values, at "
                 "most %d on a key-value head",
                 s->heads, s->head_size, s->kv_heads, MOST_GROUP);
        return DEVICE_UNSUPPORTED;
    }
    if (s->hidden_size == 0 || s->hidden_size % VALUES != 0 || s->intermediate_size == 0 ||
        s->intermediate_size % VALUES != 0 || s->layers == 0 || s->rotary_size % 2 != 0 || s->rotary_size > s->head_size) {
        snprintf(message, DEVICE_MESSAGE_BYTES,
                 "hidden and intermediate sizes of %u and %u: the device computes multiples of 32", s->hidden_size,
                 s->intermediate_size);
        return DEVICE_UNSUPPORTED;
    }
    if (s->sparse && s->halves)
        return device_fail(DEVICE_UNSUPPORTED, message, "sparse layers of halves: the device computes those that are quantised");
    return DEVICE_OK;
}

/* multiply_few for numbers of rows. */
template <int FORMAT> static void run_few(const run &r, dim3 grid, const decoder_product_arguments &p) {
    if (p.rows == 1)
        start<multiply_few<FORMAT, 1>>(r, grid, PRODUCT_WARPS * WARP, p);
    else if (p.rows == 2)
        start<multiply_few<FORMAT, 2>>(r, grid, PRODUCT_WARPS * WARP, p);
    else
        start<multiply_few<FORMAT, MOST_FEW_ROWS>>(r, grid, PRODUCT_WARPS * WARP, p);
}

static unsigned blocks_of(const decoder_product_arguments &p, int column_tiles) {
    int blocks = 0;
    for (int i = 0; i < p.parts; i++)
        blocks += part_blocks(p.part[i], column_tiles);
    return (unsigned)blocks;
}

template <int FORMAT, int ROW_TILES, int COLUMN_TILES> static void run_tiles(const run &r, const decoder_product_arguments &p) {
    typedef product_layout<FORMAT, ROW_TILES, COLUMN_TILES> layout;
    const unsigned rows = ((unsigned)p.rows + layout::ROWS - 1) / layout::ROWS;
    start<decoder_product<FORMAT, ROW_TILES, COLUMN_TILES>>(r, dim3(rows, blocks_of(p, COLUMN_TILES)), PRODUCT_WARPS * WARP, p,
                                                            sizeof(typename layout::memory));
}

template <int FORMAT, int WARPGROUPS> static dim3 many_grid(const decoder_product_arguments &p) {
    return dim3(((unsigned)p.rows + MANY_ROWS - 1) / MANY_ROWS, blocks_of(p, many_layout<FORMAT, WARPGROUPS>::COLUMNS / MMA_COLUMNS));
}

template <int FORMAT, int WARPGROUPS> static void run_many(const run &r, const decoder_product_arguments &p) {
    typedef many_layout<FORMAT, WARPGROUPS> layout;
    start<multiply_many<FORMAT, WARPGROUPS>>(r, many_grid<FORMAT, WARPGROUPS>(p), layout::THREADS, p, layout::SHARED_BYTES);
}

/* Products of many rows. Two warpgroups to a block read less, unless one to a block leaves fewer multiprocessors idle. */
template <int FORMAT> static void run_many(const run &r, const decoder_product_arguments &p) {
    const unsigned at_once = r.context->decoder->multiprocessors;
    const auto turns = [at_once](dim3 grid) { return (grid.x * grid.y + at_once - 1) / at_once; };
    if (2 * turns(many_grid<FORMAT, 2>(p)) <= turns(many_grid<FORMAT, 1>(p)))
        run_many<FORMAT, 2>(r, p);
    else
        run_many<FORMAT, 1>(r, p);
}

template <int FORMAT> static void run_product(const run &r, const decoder_product_arguments &p) {
    if (p.a.staged)
        return run_many<FORMAT>(r, p);
    if constexpr (FORMAT != DEVICE_F16)
        if (p.rows <= MOST_FEW_ROWS)
            return run_few<FORMAT>(r, dim3(blocks_of(p, 1)), p);
    if (p.rows > MMA_ROWS)
        run_tiles<FORMAT, 4, MOST_COLUMN_TILES>(r, p);
    else if (blocks_of(p, MOST_COLUMN_TILES) >= WIDEST_BLOCKS)
        run_tiles<FORMAT, 1, MOST_COLUMN_TILES>(r, p);
    else if (blocks_of(p, 2) >= WIDE_BLOCKS)
        run_tiles<FORMAT, 1, 2>(r, p);
    else
        run_tiles<FORMAT, 1, 1>(r, p);
}

static void product(const run &r, device_format format, const decoder_product_arguments &p) {
    if (format == DEVICE_F16)
        run_product<DEVICE_F16>(r, p);
    else if (format == DEVICE_Q8_0)
        run_product<DEVICE_Q8_0>(r, p);
    else
        run_product<DEVICE_Q4_0>(r, p);
}

/* Products of the same rows: out[i] = x W_i^T, the columns of all beside each other in rows of `stride`. Those of one
 * format run together. */
static void products(const run &r, const decoder_matrix *const *matrices, const float *const *biases, int count, size_t rows,
                     float *out, size_t stride, bool add) {
    decoder_product_arguments p = {};
    p.a = r.input(rows);
    p.rows = (int)rows;
    p.k = (int)matrices[0]->columns;
    p.stride = (int)stride;
    p.add = add;
    for (int i = 0; i < count; i++) {
        const decoder_matrix *m = matrices[i];
        p.part[p.parts++] = {m->values, m->scale, biases ? biases[i] : NULL, out, (int)m->rows};
        out += m->rows;
        if (i + 1 == count || matrices[i + 1]->format != m->format) {
            product(r, m->format, p);
            p.parts = 0;
        }
    }
}

static void norm(const run &r, const float *weight, const int32_t *map, size_t rows) {
    const device_decoder_shape &s = r.context->decoder->shape;
    const step_memory &m = r.context->memory;
    const rms_norm_arguments a = {m.h, map, weight, s.norm_epsilon, (int)s.hidden_size, r.input(rows)};
    start<rms_norm_rows>(r, dim3((unsigned)rows), ROW_THREADS, a);
}

/* Attention of all rows: of prompts by tiles, else as many rows at a time as there is room for partial results. */
static void attend(const run &r, uint32_t layer) {
    const device_decoder_shape &s = r.context->decoder->shape;
    const step_memory &m = r.context->memory;
    const struct attention_kernels *kernels = find_attention(s.head_size);
    if (kernels->prompt && r.plan->rows > MMA_ROWS && r.plan->rows > r.plan->texts) {
        const int2 *tiles = (const int2 *)(m.index + m.tiles_at());
        const prompt_arguments prompt = {m.qkv, tiles, r.texts, r.sizes, (int)layer, r.input(r.plan->rows)};
        return kernels->prompt(r, dim3((unsigned)r.plan->tiles, s.heads), prompt);
    }
    const int slots = (int)r.plan->splits, rows = (int)r.plan->rows, most = (int)m.split_rows / slots;
    for (int first = 0; first < rows; first += most) {
        const unsigned count = (unsigned)std::min(rows - first, most);
        const split_arguments split = {m.qkv, r.texts, r.sizes, (int)layer, first, slots, m.part, m.state};
        kernels->split(r, dim3((unsigned)slots, s.kv_heads, count), split);
        const merge_arguments merge = {m.part, m.state, r.texts.position, r.sizes, first, slots, r.input(r.plan->rows)};
        start<merge_splits>(r, dim3(count), ROW_THREADS, merge);
    }
}

static void attention_block(const run &r, uint32_t layer) {
    const device_decoder *d = r.context->decoder;
    const device_decoder_shape &s = d->shape;
    const decoder_layer &l = d->layers[layer];
    const step_memory &m = r.context->memory;
    const decoder_matrix *qkv[] = {&l.q, &l.k, &l.v}, *output = &l.output;
    const float *biases[] = {l.q_bias, l.k_bias, l.v_bias};
    const unsigned heads = s.heads + 2 * s.kv_heads;
    norm(r, l.attention_norm, NULL, r.plan->rows);
    products(r, qkv, biases, 3, r.plan->rows, m.qkv, heads * s.head_size, false);
    const rotate_arguments rotate = {m.qkv, r.texts, r.sizes, l.q_norm, l.k_norm, d->rotations, (int)layer, (int)s.rotary_size,
                                     s.neighbours, s.norm_epsilon,
                                     /* times log2(e), because powers of 2 are what the GPU computes */
                                     s.attention_scale * 1.4426950408889634f};
    start<rotate_heads>(r, dim3((heads + HEAD_WARPS - 1) / HEAD_WARPS, (unsigned)r.plan->rows), HEAD_WARPS * WARP, rotate);
    attend(r, layer);
    products(r, &output, NULL, 1, r.plan->rows, m.h, s.hidden_size, true);
}

/* ---- layers that leave out neurons ---------------------------------------------------------- */

enum { GATHER_BLOCKS = 256 }; /* of sum_neurons, at least, if there are neurons for them: two for each multiprocessor */

/* Returns the neurons of a block of sum_neurons. */
static unsigned gather_neurons_each(const device_decoder_shape *s) {
    unsigned each = VALUES;
    while (each > NEURON_WARPS && s->intermediate_size / each < GATHER_BLOCKS)
        each /= 2;
    return each;
}

size_t gather_slices(const device_decoder_shape *s) { return s->intermediate_size / gather_neurons_each(s); }

static neuron_choice choice_of(const run &r, uint32_t layer) {
    const device_decoder_shape &s = r.context->decoder->shape;
    const step_memory &m = r.context->memory;
    return {r.context->decoder->layers[layer].neuron_weights,
            r.plan->limited ? (const float *)(m.index + m.limits_at()) + layer : NULL, (int)s.intermediate_size,
            (int)r.plan->neurons, s.gate};
}

template <int FORMAT> static void gather_values(const run &r, const neuron_arguments &a) {
    const dim3 grid((unsigned)(a.choice.neurons / a.each));
    if (a.choice.least)
        return start<sum_neurons<FORMAT, false>>(r, grid, NEURON_THREADS, a);
    start<open_gates<FORMAT>>(r, dim3((unsigned)a.choice.neurons / NEURON_WARPS), NEURON_THREADS, a);
    start<sum_neurons<FORMAT, true>>(r, grid, NEURON_THREADS, a);
}

/* Adds the neurons that the gates choose to the hidden states of the one row. */
static void gather_neurons(const run &r, uint32_t layer) {
    const device_decoder_shape &s = r.context->decoder->shape;
    const step_memory &m = r.context->memory;
    const decoder_layer &l = r.context->decoder->layers[layer];
    const neuron_choice choice = choice_of(r, layer);
    const neuron_arguments a = {m.x, l.gate, l.up, l.down_neurons, choice, (int)s.hidden_size, (int)gather_neurons_each(&s),
                                m.gate_up, m.bins, m.slices, m.computed + layer};
    if (l.gate.format == DEVICE_Q8_0)
        gather_values<DEVICE_Q8_0>(r, a);
    else
        gather_values<DEVICE_Q4_0>(r, a);
    const slices_arguments sum = {m.slices, (int)gather_slices(&s), (int)s.hidden_size, choice.least ? NULL : m.bins, m.h};
    start<add_slices>(r, dim3(s.hidden_size / VALUES), NEURON_THREADS, sum);
}

device_status decoder_copy_columns(const decoder_layer *l, size_t first, size_t rows, char message[DEVICE_MESSAGE_BYTES]) {
    const columns_arguments a = {l->down, l->down_neurons, (int)first, (int)rows};
    const dim3 grid((unsigned)((rows + ROW_THREADS - 1) / ROW_THREADS), (unsigned)(l->down.columns / VALUES));
    run_kernel<copy_columns>(grid, ROW_THREADS, 0, 0, 0, a);
    return runtime_check(cudaGetLastError(), "copying weights by neuron", message);
}

static void feed_forward_block(const run &r, uint32_t layer) {
    const device_decoder *d = r.context->decoder;
    const device_decoder_shape &s = d->shape;
    const decoder_layer &l = d->layers[layer];
    const step_memory &m = r.context->memory;
    const decoder_matrix *gate_up[] = {&l.gate, &l.up}, *down = &l.down;
    const size_t chunks = r.plan->rows * (s.intermediate_size / 4);
    norm(r, l.ffn_norm, NULL, r.plan->rows);
    if (r.plan->leaves_out() && r.plan->rows == 1 && l.gate.format == l.up.format)
        return gather_neurons(r, layer);
    products(r, gate_up, NULL, 2, r.plan->rows, m.gate_up, 2 * s.intermediate_size, false);
    if (r.plan->leaves_out()) {
        const mask_arguments mask = {m.gate_up, choice_of(r, layer), m.computed + layer};
        start<mask_gates>(r, dim3((unsigned)r.plan->rows), NEURON_THREADS, mask);
    }
    const gate_arguments gate = {m.gate_up, (int)r.plan->rows, (int)s.intermediate_size, s.gate, r.input(r.plan->rows)};
    start<gate_rows>(r, dim3((unsigned)((chunks + ROW_THREADS - 1) / ROW_THREADS)), ROW_THREADS, gate);
    products(r, &down, NULL, 1, r.plan->rows, m.h, s.hidden_size, true);
}

static void run_kernels(const device_context *c, const step_plan *plan) {
    const device_decoder *d = c->decoder;
    const device_decoder_shape &s = d->shape;
    const step_memory &m = c->memory;
    const run r = {c, plan,
                   {m.index + m.rows, m.index + 2 * m.rows, m.pages, (int)m.page_slots},
                   {(int)s.heads, (int)s.kv_heads, (int)s.head_size}};
    const look_up_arguments look_up = {m.index, d->tokens, m.h};
    start<look_up_rows>(r, dim3((unsigned)plan->rows), ROW_THREADS, look_up);
    for (uint32_t layer = 0; layer < s.layers; layer++) {
        attention_block(r, layer);
        feed_forward_block(r, layer);
    }
    const decoder_matrix *logits = d->logits.values ? &d->logits : &d->tokens;
    norm(r, d->output_norm, m.index + 3 * m.rows, plan->logit_rows);
    products(r, &logits, NULL, 1, plan->logit_rows, m.logits, s.vocabulary_size, false);
}

/* ---- graphs --------------------------------------------------------------------------------- */

void graphs_release(device_context *c) {
    for (const step_graph &graph : c->graphs)
        if (graph.exec)
            cudaGraphExecDestroy(graph.exec);
    c->graphs.clear();
}

/* Returns the graph of a step, which may have none yet; NULL if this is the first step of its kind. */
static step_graph *find_graph(device_context *c, const step_plan *plan) {
    for (step_graph &graph : c->graphs)
        if (graph.texts == plan->texts && graph.splits == plan->splits && graph.neurons == plan->neurons &&
            graph.limited == plan->limited)
            return &graph;
    c->graphs.push_back({plan->texts, plan->splits, plan->neurons, plan->limited, NULL});
    return NULL;
}

static device_status make_graph(const device_context *c, const step_plan *plan, cudaGraphExec_t *exec,
                                char message[DEVICE_MESSAGE_BYTES]) {
    cudaGraph_t graph;
    DEVICE_TRY(runtime_check(cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal), "beginning a graph", message));
    run_kernels(c, plan);
    DEVICE_TRY(runtime_check(cudaStreamEndCapture(c->stream, &graph), "ending a graph", message));
    const cudaError_t error = cudaGraphInstantiate(exec, graph, 0);
    cudaGraphDestroy(graph);
    if (error != cudaSuccess)
        *exec = NULL;
    return runtime_check(error, "making a graph", message);
}

device_status decoder_run(device_context *c, const step_plan *plan, char message[DEVICE_MESSAGE_BYTES]) {
    step_graph *graph = plan->rows == plan->texts ? find_graph(c, plan) : NULL;
    if (!graph) {
        run_kernels(c, plan);
        return runtime_check(cudaGetLastError(), "starting a step", message);
    }
    if (!graph->exec)
        DEVICE_TRY(make_graph(c, plan, &graph->exec, message));
    return runtime_check(cudaGraphLaunch(graph->exec, c->stream), "starting a graph", message);
}
