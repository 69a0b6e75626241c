/* SPDX-License-Identifier: Apache-2.0
 * Packing for gather.h, and the quantising of inputs and values, which all sets share. */
#include <float.h>
#include <string.h>

#include "base/half.h"
#include "kernels/gather.h"

/* Quantises n values to -127..127. Returns the scale: 0 if all are too small, and infinity or
 * NaN if some are, whose products then are NaN. */
static float quantise(const float *x, size_t n, int8_t *q, int32_t *sum) {
    const float rounder = 12582912.0f; /* 1.5 * 2^23: a sum with it is a whole number */
    uint32_t bits = 0;
    int32_t total = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t magnitude = bits_of_float(x[i]) & 0x7fffffff;
        bits = magnitude > bits ? magnitude : bits;
    }
    const float most = float_of_bits(bits);
    /* 127 divided by less could overflow. */
    const bool is_zero = !(most >= 0x1p-120f && most <= FLT_MAX);
    const float inverse = is_zero ? 0 : 127 / most;
    for (size_t i = 0; i < n; i++) {
        const float value = is_zero ? 0 : x[i] * inverse;
        q[i] = (int8_t)(value + rounder - rounder);
        total += q[i];
    }
    *sum = total;
    return most < 0x1p-120f ? 0 : most / 127;
}

void gather_quantise(const float *x, size_t k, enum gather_code code,
                     const struct gather_input *input) {
    const size_t blocks = k / GATHER_BLOCK, all = gather_scales(k);
    memset(input->sum, 0, all * GATHER_LANES * sizeof *input->sum);
    memset(input->first, 0, all * GATHER_LANES * sizeof *input->first);
    memset(input->scale, 0, all * GATHER_LANES * sizeof *input->scale);
    memset(input->q + k, 0, (all - blocks) * GATHER_BLOCK);
    for (size_t b = 0; b < blocks; b++) {
        int32_t sum;
        const size_t lane = b * GATHER_LANES, at = b * GATHER_BLOCK;
        const float scale = quantise(x + at, GATHER_BLOCK, input->q + at, &sum);
        for (size_t i = 0; i < GATHER_LANES; i++)
            input->scale[lane + i] = scale;
        input->sum[lane] = scale * (float)sum;
        input->first[lane] = code == GATHER_Q4_0 ? -8 * sum : 0;
    }
}

size_t gather_activate(const float *values, const uint16_t *list, size_t n, size_t group,
                       struct gather_active *active) {
    size_t count = 0;
    for (; count < n && list[count] / GATHER_BLOCK == group; count++)
        active->index[count] = list[count] % GATHER_BLOCK;
    active->n = (uint8_t)count;
    active->scale = quantise(values, count, active->value, &active->total);
    return count;
}

/* ---- packing -------------------------------------------------------------------------------- */

/* Returns the bytes of a stored block, which begins with its scale and, if it has one, its offset.
 */
static size_t header_bytes(enum gather_code code) {
    return gather_has_offsets(code) ? 4 : 2;
}

static size_t block_bytes(enum gather_code code) {
    return header_bytes(code) + GATHER_BLOCK * gather_code_bits(code) / 8;
}

void gather_pack_row(enum gather_code code, const unsigned char *blocks, size_t k,
                     unsigned char *packed) {
    const size_t n = k / GATHER_BLOCK, scales = gather_scales(k), header = header_bytes(code);
    const size_t codes = block_bytes(code) - header;
    memset(packed, 0, scales * header);
    for (size_t b = 0; b < n; b++, blocks += header + codes) {
        memcpy(packed + 2 * b, blocks, 2);
        if (gather_has_offsets(code))
            memcpy(packed + 2 * (scales + b), blocks + 2, 2);
        memcpy(packed + scales * header + b * codes, blocks + header, codes);
    }
}

/* Returns code i of a stored block. */
static unsigned char code_of(enum gather_code code, const unsigned char *codes, size_t i) {
    if (code == GATHER_Q8_0)
        return codes[i];
    return i < GATHER_BLOCK / 2 ? codes[i] & 15 : codes[i - GATHER_BLOCK / 2] >> 4;
}

void gather_pack_output(enum gather_code code, const unsigned char *blocks, size_t neurons,
                        size_t size, size_t output, unsigned char *packed) {
    const size_t length = gather_column_length(size), header = header_bytes(code);
    const size_t column = gather_column_bytes(code, size), half = GATHER_STRIP / 2;
    const size_t place = output / GATHER_STRIP * half + output % half;
    const unsigned shift = output % GATHER_STRIP < half ? 0 : 4;
    for (size_t g = 0; g < neurons / GATHER_BLOCK; g++, blocks += block_bytes(code)) {
        unsigned char *group = packed + g * gather_group_bytes(code, size);
        unsigned char *columns = group + length * header;
        memcpy(group + 2 * output, blocks, 2);
        if (gather_has_offsets(code))
            memcpy(group + 2 * (length + output), blocks + 2, 2);
        for (size_t i = 0; i < GATHER_BLOCK; i++, columns += column) {
            const unsigned char bits = code_of(code, blocks + header, i);
            if (code == GATHER_Q8_0)
                columns[output] = bits;
            else
                columns[place] = (unsigned char)(columns[place] | bits << shift);
        }
    }
}

/* ---- the scalar reference ------------------------------------------------------------------- */

static int code_at(enum gather_code code, const unsigned char *codes, size_t i, size_t half) {
    if (code == GATHER_Q8_0)
        return (signed char)codes[i];
    const size_t byte = i / (2 * half) * half + i % half;
    return i % (2 * half) < half ? codes[byte] & 15 : codes[byte] >> 4;
}

static void rows(const struct gather_input *x, enum gather_code code, const unsigned char *packed,
                 const uint16_t *list, size_t n, size_t k, float *y) {
    const size_t scales = gather_scales(k);
    for (size_t i = 0; i < n; i++) {
        const unsigned char *row = packed + list[i] * gather_row_bytes(code, k);
        const unsigned char *codes = row + scales * header_bytes(code);
        float total = 0;
        for (size_t b = 0; b < k / GATHER_BLOCK; b++) {
            int32_t sum = x->first[b * GATHER_LANES];
            for (size_t c = b * GATHER_BLOCK; c < (b + 1) * GATHER_BLOCK; c++)
                sum += x->q[c] * code_at(code, codes, c, GATHER_BLOCK / 2);
            total += (float)sum * x->scale[b * GATHER_LANES] * float_of_half(load_u16(row + 2 * b));
            if (gather_has_offsets(code))
                total += x->sum[b * GATHER_LANES] * float_of_half(load_u16(row + 2 * (scales + b)));
        }
        y[i] = total;
    }
}

static void columns(const struct gather_active *active, size_t groups, enum gather_code code,
                    const unsigned char *packed, size_t size, size_t first, size_t end, float *y) {
    const size_t length = gather_column_length(size), bytes = gather_column_bytes(code, size);
    for (size_t g = 0; g < groups; g++, packed += gather_group_bytes(code, size)) {
        const struct gather_active *a = &active[g];
        for (size_t c = first; c < end && a->n > 0; c++) {
            const unsigned char *from = packed + length * header_bytes(code);
            int32_t sum = code == GATHER_Q4_0 ? -8 * a->total : 0;
            for (size_t i = 0; i < a->n; i++)
                sum += a->value[i] * code_at(code, from + a->index[i] * bytes, c, GATHER_STRIP / 2);
            y[c] += a->scale * (float)sum * float_of_half(load_u16(packed + 2 * c));
            if (gather_has_offsets(code))
                y[c] +=
                    a->scale * (float)a->total * float_of_half(load_u16(packed + 2 * (length + c)));
        }
    }
}

const struct gather_kernels gather_scalar = {.rows = rows, .columns = columns};
