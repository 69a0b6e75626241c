/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse/gathered.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/half.h"
#include "formats/residency.h"

bool gathered_sizes_fit(size_t hidden_size, size_t intermediate_size) {
    return hidden_size % GATHER_BLOCK == 0 && intermediate_size % GATHER_BLOCK == 0 &&
           intermediate_size <= UINT16_MAX;
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
