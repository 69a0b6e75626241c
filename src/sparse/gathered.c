/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse/gathered.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/half.h"
#include "base/memory.h"
#include "base/product.h"
#include "formats/residency.h"
#include "formats/schema.h"

bool gathered_sizes_fit(size_t hidden_size, size_t intermediate_size) {
    return hidden_size % GATHER_BLOCK == 0 && intermediate_size % GATHER_BLOCK == 0 &&
           intermediate_size <= UINT16_MAX;
}

/* ---- loading ------------------------------------------------------------------------------- */

/* The types whose numbers are kept. */
static const struct {
    enum block_type type;
    enum gather_code code;
} codes[] = {{BLOCK_Q4_0, GATHER_Q4_0}, {BLOCK_Q4_1, GATHER_Q4_1}, {BLOCK_Q8_0, GATHER_Q8_0}};

static bool find_code(const struct tensor *tensor, enum gather_code *code) {
    *code = GATHER_Q8_0;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (tensor->format->id == codes[i].type) {
            *code = codes[i].code;
            return true;
        }
    return false;
}

/* Rows of a matrix as blocks of a code, one at a time. */
struct row_reader {
    const struct directory *dir;
    struct tensor_cache *cache;
    const struct tensor *tensor;
    bool as_stored;
    void *stored;
    float *values;
    unsigned char *blocks; /* of Q8_0, unless rows are taken as they are stored */
};

static wisp_status open_reader(struct row_reader *r, const struct directory *dir,
                               struct tensor_cache *cache, size_t layer, const char *matrix,
                               size_t rows, size_t columns, enum gather_code *code,
                               wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    *r = (struct row_reader){.dir = dir, .cache = cache};
    TRY(directory_require_tensor(dir, layer_tensor_name(name, layer, matrix, TENSOR_WEIGHT),
                                 columns, rows, &r->tensor, error));
    r->as_stored = find_code(r->tensor, code);
    r->stored = memory_allocate((size_t)r->tensor->row_bytes);
    r->values = memory_allocate(columns * sizeof *r->values);
    r->blocks = memory_allocate(columns * 2);
    return r->stored && r->values && r->blocks
               ? WISP_OK
               : fail_memory(error, columns * (sizeof *r->values + 2));
}

static void close_reader(struct row_reader *r) {
    memory_free(r->stored);
    memory_free(r->values);
    memory_free(r->blocks);
}

/* Reads a row: its blocks, and its values to r->values. */
static wisp_status read_row(struct row_reader *r, size_t row, const unsigned char **blocks,
                            wisp_error *error) {
    const void *stored;
    TRY(directory_rows(r->dir, r->tensor, row, 1, r->cache, r->stored, &stored, error));
    TRY(directory_expand(r->dir, r->tensor, row, 1, stored, r->values, error));
    *blocks = stored;
    if (r->as_stored)
        return WISP_OK;
    block_format_by_id(BLOCK_Q8_0)->quantise(r->values, (size_t)r->tensor->dims[0], r->blocks);
    *blocks = r->blocks;
    return WISP_OK;
}

/* Loads the rows of a matrix [intermediate_size, hidden_size]. */
static wisp_status load_rows(struct gathered_ffn *ffn, const struct directory *dir, size_t layer,
                             struct tensor_cache *cache, const char *matrix, enum gather_code *code,
                             unsigned char **packed, wisp_error *error) {
    const size_t neurons = ffn->intermediate_size, k = ffn->hidden_size;
    struct row_reader r;
    const unsigned char *blocks;
    wisp_status status = open_reader(&r, dir, cache, layer, matrix, neurons, k, code, error);
    const size_t row = gather_row_bytes(*code, k), bytes = neurons * row + GATHER_SLACK;
    if (status == WISP_OK && !(*packed = memory_allocate_zeros(bytes)))
        status = fail_memory(error, bytes);
    for (size_t i = 0; i < neurons && status == WISP_OK; i++) {
        status = read_row(&r, i, &blocks, error);
        if (status == WISP_OK)
            gather_pack_row(*code, blocks, k, *packed + i * row);
    }
    close_reader(&r);
    ffn->bytes += bytes;
    return status;
}

/* Loads W_down, and makes the weights of scores the lengths of its columns. */
static wisp_status load_down(struct gathered_ffn *ffn, const struct directory *dir, size_t layer,
                             struct tensor_cache *cache, wisp_error *error) {
    const size_t neurons = ffn->intermediate_size, size = ffn->hidden_size;
    struct row_reader r;
    const unsigned char *blocks;
    wisp_status status =
        open_reader(&r, dir, cache, layer, TENSOR_FFN_DOWN, size, neurons, &ffn->down_code, error);
    const size_t bytes = neurons / GATHER_BLOCK * gather_group_bytes(ffn->down_code, size);
    ffn->weights = memory_allocate_zeros(neurons * sizeof *ffn->weights);
    if (status == WISP_OK && (!(ffn->down = memory_allocate_zeros(bytes)) || !ffn->weights))
        status = fail_memory(error, bytes);
    for (size_t c = 0; c < size && status == WISP_OK; c++) {
        status = read_row(&r, c, &blocks, error);
        if (status != WISP_OK)
            break;
        gather_pack_output(ffn->down_code, blocks, neurons, size, c, ffn->down);
        for (size_t i = 0; i < neurons; i++)
            ffn->weights[i] += r.values[i] * r.values[i];
    }
    for (size_t i = 0; i < neurons && status == WISP_OK; i++)
        ffn->weights[i] = sqrtf(ffn->weights[i]);
    close_reader(&r);
    ffn->bytes += bytes + neurons * sizeof *ffn->weights;
    return status;
}

static wisp_status load_calibration(struct gathered_ffn *ffn, const struct directory *dir,
                                    const struct sparse_plan *plan, size_t layer,
                                    wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    float *weights = NULL;
    const wisp_status status =
        directory_load_floats(dir, layer_tensor_name(name, layer, TENSOR_GATE_WEIGHTS, ""), 1,
                              ffn->intermediate_size, &weights, error);
    if (status == WISP_OK)
        memcpy(ffn->weights, weights, ffn->intermediate_size * sizeof *weights);
    memory_free(weights);
    TRY(status);
    for (size_t i = 0; i < ffn->intermediate_size; i++)
        if (!(ffn->weights[i] >= 0))
            return fail(error, WISP_ERROR_FORMAT, dir->file, name, "weight %zu is below 0", i);
    ffn->bytes += plan->levels * sizeof *ffn->levels;
    return directory_load_floats(dir, layer_tensor_name(name, layer, TENSOR_GATE_LEVELS, ""), 1,
                                 plan->levels, &ffn->levels, error);
}

wisp_status gathered_load(struct gathered_ffn *ffn, const struct directory *dir,
                          const struct sparse_plan *plan, const struct kernels *kernels,
                          size_t hidden_size, size_t intermediate_size, size_t index,
                          struct tensor_cache *cache, wisp_error *error) {
    *ffn = (struct gathered_ffn){.kernels = kernels->gather,
                                 .hidden_size = hidden_size,
                                 .intermediate_size = intermediate_size};
    if (TEXT_IS_PREDICTED && plan->predicts)
        TRY(load_rows(ffn, dir, index, cache, TENSOR_FFN_GATE, &ffn->gate_code, &ffn->gate, error));
    TRY(load_rows(ffn, dir, index, cache, TENSOR_FFN_UP, &ffn->up_code, &ffn->up, error));
    TRY(load_down(ffn, dir, index, cache, error));
    return plan->levels > 0 && !plan->predicts ? load_calibration(ffn, dir, plan, index, error)
                                               : WISP_OK;
}

void gathered_release(struct gathered_ffn *ffn) {
    memory_free_zeros(ffn->gate);
    memory_free_zeros(ffn->up);
    memory_free_zeros(ffn->down);
    memory_free_zeros(ffn->weights);
    memory_free(ffn->levels);
    *ffn = (struct gathered_ffn){0};
}

/* ---- which neurons -------------------------------------------------------------------------- */

static float score_of(const struct gathered_ffn *ffn, const float *values, size_t i) {
    return fabsf(values[i]) * ffn->weights[i];
}

struct gate_limit gathered_limit(const struct gathered_ffn *ffn, const struct sparse_plan *plan,
                                 float share, bool by_number) {
    size_t above = 0;
    if (by_number)
        return (struct gate_limit){
            .most = (uint32_t)fmaxf(roundf(share * (float)ffn->intermediate_size), 1)};
    while (above + 1 < plan->levels && plan->shares[above] < share)
        above++;
    if (share >= 1)
        return (struct gate_limit){0};
    const size_t below = above > 0 ? above - 1 : 0;
    const float low = plan->shares[below], high = plan->shares[above];
    const float part = high > low ? fminf(fmaxf((share - low) / (high - low), 0), 1) : 0;
    const float from = ffn->levels[below], to = ffn->levels[above];
    return (struct gate_limit){.least = from + part * (to - from)};
}

/* Finds it by the digits of the bits of floats, which are in the same order. */
float gathered_select(const float *values, size_t n, size_t most) {
    enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };
    uint32_t known = 0, mask = 0;
    for (int shift = 24; shift >= 0; shift -= DIGIT_BITS) {
        uint32_t count[DIGITS] = {0};
        uint32_t digit = DIGITS - 1;
        for (size_t i = 0; i < n; i++) {
            const uint32_t bits = bits_of_float(values[i]);
            if ((bits & mask) == known)
                count[bits >> shift & (DIGITS - 1)]++;
        }
        for (; digit > 0 && count[digit] < most; digit--)
            most -= count[digit];
        known |= digit << shift;
        mask |= (uint32_t)(DIGITS - 1) << shift;
    }
    return float_of_bits(known);
}

float gathered_least(const struct gathered_ffn *ffn, struct gate_limit limit, const float *values,
                     float *scores) {
    if (limit.most == 0 || limit.most >= ffn->intermediate_size)
        return limit.least;
    for (size_t i = 0; i < ffn->intermediate_size; i++)
        scores[i] = score_of(ffn, values, i);
    return fmaxf(gathered_select(scores, ffn->intermediate_size, limit.most), limit.least);
}

/* ---- the layer ------------------------------------------------------------------------------ */

struct scratch {
    struct gather_input x;
    uint16_t *list; /* [neurons]: those that are computed */
    float *up;      /* [neurons]: their w_up x, then their values */
};

static void take_scratch(struct scratch *s, struct workspace *space, size_t hidden_size,
                         size_t neurons) {
    const size_t blocks = gather_scales(hidden_size);
    s->x.q = workspace_take(space, blocks, GATHER_BLOCK, 1);
    s->x.scale = workspace_take(space, blocks, GATHER_LANES, sizeof *s->x.scale);
    s->x.sum = workspace_take(space, blocks, GATHER_LANES, sizeof *s->x.sum);
    s->x.first = workspace_take(space, blocks, GATHER_LANES, sizeof *s->x.first);
    s->list = workspace_take(space, 1, neurons, sizeof *s->list);
    s->up = workspace_take(space, 1, neurons, sizeof *s->up);
}

size_t gathered_workspace_bytes(size_t hidden_size, size_t intermediate_size) {
    struct workspace measured = {0};
    struct scratch s;
    take_scratch(&s, &measured, hidden_size, intermediate_size);
    return measured.used;
}

void gathered_gates(const struct gathered_ffn *ffn, const float *x, const uint16_t *list, size_t n,
                    float *gates, struct workspace space) {
    struct scratch s;
    take_scratch(&s, &space, ffn->hidden_size, ffn->intermediate_size);
    gather_quantise(x, ffn->hidden_size, ffn->gate_code, &s.x);
    ffn->kernels->rows(&s.x, ffn->gate_code, ffn->gate, list, n, ffn->hidden_size, gates);
}

size_t gathered_apply(const struct gathered_ffn *ffn, const float *x, const float *values,
                      float least, size_t first, size_t n, struct gather_active *active,
                      struct workspace space) {
    struct scratch s;
    size_t count = 0, done = 0;
    take_scratch(&s, &space, ffn->hidden_size, ffn->intermediate_size);
    for (size_t i = first; i < first + n; i++) {
        const float score = score_of(ffn, values, i);
        s.list[count] = (uint16_t)i;
        count += score >= least && score > 0;
        count += isnan(score) ? 1 : 0; /* NaN is an error of the logits, which must not be hidden */
    }
    gather_quantise(x, ffn->hidden_size, ffn->up_code, &s.x);
    if (WEIGHTS_MAY_REST && ffn->frames)
        ffn->products->rows(ffn, &s.x, s.list, count, space, s.up);
    else
        ffn->kernels->rows(&s.x, ffn->up_code, ffn->up, s.list, count, ffn->hidden_size, s.up);
    for (size_t i = 0; i < count; i++)
        s.up[i] *= values[s.list[i]];
    for (size_t g = first / GATHER_BLOCK; g < (first + n) / GATHER_BLOCK; g++)
        done += gather_activate(s.up + done, s.list + done, count - done, g, &active[g]);
    return count;
}

void gathered_outputs(const struct gathered_ffn *ffn, const struct gather_active *active,
                      size_t first, size_t end, float *y) {
    memset(y + first, 0, (end - first) * sizeof *y);
    if (WEIGHTS_MAY_REST && ffn->frames) {
        ffn->products->columns(ffn, active, first, end, y);
        return;
    }
    ffn->kernels->columns(active, ffn->intermediate_size / GATHER_BLOCK, ffn->down_code, ffn->down,
                          ffn->hidden_size, first, end, y);
}
