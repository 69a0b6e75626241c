/* SPDX-License-Identifier: Apache-2.0
 * One pass over a packed batch: which kernels run, in their order. */
#include <math.h>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/encoder.h"
#include "kernels/cuda/warpgroups.h"

/* Calls WHAT(groups, ...) for a hidden size of `groups` times 128 values. */
#define FOR_GROUPS(groups, WHAT, ...)                                                                                    \
    switch (groups) {                                                                                                    \
    case 1: WHAT(1, __VA_ARGS__); break;                                                                                 \
    case 2: WHAT(2, __VA_ARGS__); break;                                                                                 \
    case 3: WHAT(3, __VA_ARGS__); break;                                                                                 \
    case 4: WHAT(4, __VA_ARGS__); break;                                                                                 \
    case 6: WHAT(6, __VA_ARGS__); break;                                                                                 \
    default: WHAT(8, __VA_ARGS__); break;                                                                                \
    }

static unsigned blocks_of(size_t items, size_t each) { return (unsigned)((items + each - 1) / each); }

static hidden_rows hidden_of(const device_encoder *e, const device_lane *lane) {
    hidden_rows out = {lane->x, e->shape.int8 ? lane->q : NULL, lane->q_scale};
    return out;
}

static norm_weights norm_of(const device_encoder *e, const device_norm &norm) {
    norm_weights n = {norm.weight, norm.bias, e->shape.norm_epsilon};
    return n;
}

#define RUN_ROWS(GROUPS, kernel, blocks, arguments)                                                                      \
    run_kernel<kernel<GROUPS>>(dim3(blocks), ROW_WARPS *WARP, 0, 0, lane->stream, arguments)

static void embed(const device_encoder *e, const device_lane *lane, const device_pass *pass) {
    const embed_arguments a = {pass->ids, pass->position, e->tokens, e->positions, norm_of(e, e->embedding_norm),
                               hidden_of(e, lane), (int)pass->tokens};
    FOR_GROUPS(e->shape.hidden_size / GROUP, RUN_ROWS, embed_rows, blocks_of(pass->tokens, ROW_WARPS), a);
}

static void pool(const device_encoder *e, const device_lane *lane, const device_pass *pass) {
    const pool_arguments a = {lane->x,    pass->starts,          pass->skipped,  lane->rows,
                              (int)pass->dimensions, e->shape.first, (int)pass->normalize};
    FOR_GROUPS(e->shape.hidden_size / GROUP, RUN_ROWS, pool_rows, (unsigned)pass->texts, a);
}

template <int SIZE>
static void attend_size(const device_encoder *e, const device_lane *lane, const device_pass *pass) {
    const attention_arguments a = {lane->qkv, lane->context, pass->tile, pass->starts, (int)e->shape.heads,
                                   1.4426950408889634f / sqrtf((float)SIZE)};
    run_kernel<attend<SIZE>>(dim3((unsigned)pass->tiles, e->shape.heads), ATTENTION_WARPS * WARP,
                             attention_layout<SIZE>::SHARED_BYTES, e->most_shared_bytes, lane->stream, a);
}

static void attention(const device_encoder *e, const device_lane *lane, const device_pass *pass) {
    switch (e->shape.hidden_size / e->shape.heads) {
    case 32: attend_size<32>(e, lane, pass); break;
    case 64: attend_size<64>(e, lane, pass); break;
    case 96: attend_size<96>(e, lane, pass); break;
    default: attend_size<128>(e, lane, pass); break;
    }
}

/* How many of `most` blocks share each of `columns` tiles of columns: at most one for each tile of rows. */
static unsigned blocks_sharing(unsigned most, unsigned columns, unsigned rows) {
    const unsigned sharing = most > columns ? most / columns : 1;
    return rows < sharing ? rows : sharing;
}

template <class OPERAND, int RESULT, int ACTIVATION>
static void tiles(const device_encoder *e, const device_lane *lane, const product_arguments &p) {
    const unsigned columns = (unsigned)p.columns / TILE_COLUMNS;
    const int stages = p.k_bytes / TILE_BYTES;
    const size_t shared = warpgroup_tiles_shared_bytes<3, 3>(stages);
    if (e->warpgroups && shared <= e->most_shared_bytes) {
        const dim3 grid(columns, blocks_sharing(e->multiprocessors, columns, blocks_of(p.rows, 3 * WARPGROUP_ROWS)));
        run_kernel<warpgroup_tiles<OPERAND, RESULT, ACTIVATION, 3, 3>>(grid, 3 * WARPGROUP, shared, e->most_shared_bytes,
                                                                       lane->stream, p);
        return;
    }
    const dim3 grid(columns, blocks_sharing(e->tile_blocks, columns, blocks_of(p.rows, TILE_ROWS)));
    const bool bytes = OPERAND::BYTES == 1; /* of halves no k that matters is so short */
    if (bytes && stages <= TILE_STAGES)
        run_kernel<product_tiles<OPERAND, RESULT, ACTIVATION, bytes>>(grid, TILE_WARPS * WARP, TILE_SHARED_BYTES,
                                                                      e->most_shared_bytes, lane->stream, p);
    else
        run_kernel<product_tiles<OPERAND, RESULT, ACTIVATION, false>>(grid, TILE_WARPS * WARP, TILE_SHARED_BYTES,
                                                                      e->most_shared_bytes, lane->stream, p);
}

template <class OPERAND, int RESULT>
static void tiles_activated(const device_encoder *e, const device_lane *lane, const product_arguments &p) {
    switch (e->shape.activation) {
    case DEVICE_RELU: tiles<OPERAND, RESULT, DEVICE_RELU>(e, lane, p); break;
    case DEVICE_GELU_TANH: tiles<OPERAND, RESULT, DEVICE_GELU_TANH>(e, lane, p); break;
    default: tiles<OPERAND, RESULT, DEVICE_GELU>(e, lane, p); break;
    }
}

/* The strips of product_rows, widest first: its template's WARPS and TILES. */
static const struct {
    unsigned columns;
    size_t (*shared_bytes)(int pipeline_stages, int stages);
} strip_kinds[] = {{384, product_rows_shared_bytes<8, 6>},
                   {256, product_rows_shared_bytes<8, 4>},
                   {128, product_rows_shared_bytes<4, 4>}};

template <class OPERAND, int WARPS, int TILES, int STAGES, bool NORM>
static void strips(const device_encoder *e, const device_lane *lane, const product_arguments &p) {
    run_kernel<product_rows<OPERAND, WARPS, TILES, STAGES, NORM>>(
        dim3((unsigned)p.columns / (WARPS * TILES * 8), blocks_of(p.rows, STRIP_ROWS)), WARPS * WARP,
        product_rows_shared_bytes<WARPS, TILES>(STAGES, p.k_bytes / TILE_BYTES), e->most_shared_bytes, lane->stream, p);
}

template <class OPERAND, int WARPS, int TILES>
static void strips_of(const device_encoder *e, const device_lane *lane, const product_arguments &p) {
    if (e->pipeline_stages >= 3)
        e->fused_norm ? strips<OPERAND, WARPS, TILES, 3, true>(e, lane, p)
                      : strips<OPERAND, WARPS, TILES, 3, false>(e, lane, p);
    else
        e->fused_norm ? strips<OPERAND, WARPS, TILES, 2, true>(e, lane, p)
                      : strips<OPERAND, WARPS, TILES, 2, false>(e, lane, p);
}

/* Computes a product in strips by wgmma. Returns false if a block would need more shared memory than there is. */
template <class OPERAND, int WARPGROUPS>
static bool warpgroup_strips(const device_encoder *e, const device_lane *lane, const product_arguments &p) {
    const size_t shared = warpgroup_rows_shared_bytes<WARPGROUPS, 3>(p.k_bytes / TILE_BYTES);
    const dim3 grid((unsigned)p.columns / (WARPGROUPS * WARPGROUP_COLUMNS), blocks_of(p.rows, WARPGROUP_ROWS));
    if (!e->warpgroups || shared > e->most_shared_bytes)
        return false;
    if (e->fused_norm)
        run_kernel<warpgroup_rows<OPERAND, WARPGROUPS, 3, true>>(grid, WARPGROUPS * WARPGROUP, shared, e->most_shared_bytes,
                                                                 lane->stream, p);
    else
        run_kernel<warpgroup_rows<OPERAND, WARPGROUPS, 3, false>>(grid, WARPGROUPS * WARPGROUP, shared,
                                                                  e->most_shared_bytes, lane->stream, p);
    return true;
}

/* x = layer_norm(x + a b^T + bias), and its form in bytes. */
template <class OPERAND>
static void end_block(const device_encoder *e, const device_lane *lane, const device_pass *pass, const unsigned char *a,
                      const device_matrix &b, size_t inputs, const device_norm &norm) {
    product_arguments p = {};
    p.a = a;
    p.b = b.weights;
    p.a_step = lane->inner_step;
    p.a_shift = e->shape.activation == DEVICE_RELU ? activation_shift<DEVICE_RELU>() : activation_shift<DEVICE_GELU>();
    p.b_scale = b.scale;
    p.b_total = b.sums;
    p.bias = b.bias;
    p.rows = (int)pass->tokens;
    p.columns = (int)e->shape.hidden_size;
    p.k_bytes = (int)(inputs * OPERAND::BYTES);
    p.residual = lane->x;
    p.norm = norm_of(e, norm);
    p.out = hidden_of(e, lane);
    if (!e->fused_norm)
        p.out.x = lane->y;
    switch (e->strip_columns) {
    case 384: warpgroup_strips<OPERAND, 3>(e, lane, p) ? void() : strips_of<OPERAND, 8, 6>(e, lane, p); break;
    case 256: warpgroup_strips<OPERAND, 2>(e, lane, p) ? void() : strips_of<OPERAND, 8, 4>(e, lane, p); break;
    default: warpgroup_strips<OPERAND, 1>(e, lane, p) ? void() : strips_of<OPERAND, 4, 4>(e, lane, p); break;
    }
    if (e->fused_norm)
        return;
    const norm_arguments n = {lane->y, p.norm, hidden_of(e, lane), p.rows};
    FOR_GROUPS(e->shape.hidden_size / GROUP, RUN_ROWS, norm_rows, blocks_of(pass->tokens, ROW_WARPS), n);
}

template <class OPERAND>
static void run_layer(const device_encoder *e, const device_lane *lane, const device_pass *pass, const device_layer &l) {
    const size_t hidden_size = e->shape.hidden_size, inner_size = e->shape.intermediate_size;
    product_arguments p = {};
    p.a = OPERAND::BYTES == 1 ? (const unsigned char *)lane->q : (const unsigned char *)lane->x;
    p.a_scale = lane->q_scale;
    p.rows = (int)pass->tokens;
    p.k_bytes = (int)(hidden_size * OPERAND::BYTES);
    p.b = l.qkv.weights;
    p.b_scale = l.qkv.scale;
    p.b_sums = l.qkv.sums;
    p.bias = l.qkv.bias;
    p.columns = (int)(3 * hidden_size);
    p.halves = lane->qkv;
    tiles<OPERAND, RESULT_HALVES, DEVICE_RELU>(e, lane, p);
    attention(e, lane, pass);
    end_block<operand_f16>(e, lane, pass, (const unsigned char *)lane->context, l.output, hidden_size,
                           l.attention_norm);
    p.b = l.up.weights;
    p.b_scale = l.up.scale;
    p.b_sums = l.up.sums;
    p.bias = l.up.bias;
    p.columns = (int)inner_size;
    p.halves = (uint16_t *)lane->inner;
    p.q = (uint8_t *)lane->inner;
    p.q_step = lane->inner_step;
    tiles_activated<OPERAND, OPERAND::BYTES == 1 ? RESULT_QUANTISED : RESULT_ACTIVATED>(e, lane, p);
    end_block<OPERAND>(e, lane, pass, lane->inner, l.down, inner_size, l.output_norm);
}

device_status encoder_run(const device_encoder *e, const device_lane *lane, const device_pass *pass,
                          char message[DEVICE_MESSAGE_BYTES]) {
    embed(e, lane, pass);
    for (uint32_t i = 0; i < e->shape.layers; i++)
        if (e->shape.int8)
            run_layer<operand_s8>(e, lane, pass, e->layers[i]);
        else
            run_layer<operand_f16>(e, lane, pass, e->layers[i]);
    pool(e, lane, pass);
    return runtime_check(cudaGetLastError(), "starting a kernel", message);
}

device_status encoder_plan(device_encoder *e, char message[DEVICE_MESSAGE_BYTES]) {
    const device_shape *s = &e->shape;
    const uint32_t head_size = s->heads > 0 ? s->hidden_size / s->heads : 0;
    static const uint32_t hidden_sizes[] = {128, 256, 384, 512, 768, 1024}; /* FOR_GROUPS has them */
    bool known = false;
    for (uint32_t size : hidden_sizes)
        known |= size == s->hidden_size;
    if (!known || s->intermediate_size % GROUP != 0 || s->intermediate_size == 0) {
        snprintf(message, DEVICE_MESSAGE_BYTES,
                 "hidden size %u, intermediate size %u: the kernels have hidden sizes of 128, 256, 384, 512, 768 and 1,024, "
                 "and intermediate sizes that are multiples of %d",
                 s->hidden_size, s->intermediate_size, GROUP);
        return DEVICE_UNSUPPORTED;
    }
    if (head_size * s->heads != s->hidden_size || head_size % 32 != 0 || head_size > 128) {
        snprintf(message, DEVICE_MESSAGE_BYTES, "%u heads of %u values: the kernels have heads of 32, 64, 96 and 128 values",
                 s->heads, head_size);
        return DEVICE_UNSUPPORTED;
    }
    const int most = (int)(s->intermediate_size * (s->int8 ? 1 : 2) / TILE_BYTES);
    for (const auto &kind : strip_kinds)
        for (int stages = 3; s->hidden_size % kind.columns == 0 && stages > 1; stages--)
            if (kind.shared_bytes(stages, most) <= e->most_shared_bytes) {
                e->strip_columns = kind.columns;
                e->pipeline_stages = stages;
                e->fused_norm = s->hidden_size == kind.columns;
                return DEVICE_OK;
            }
    snprintf(message, DEVICE_MESSAGE_BYTES, "the kernels need more shared memory than a block of this GPU has, %zu bytes",
             e->most_shared_bytes);
    return DEVICE_UNSUPPORTED;
}
