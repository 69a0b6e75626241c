/* SPDX-License-Identifier: Apache-2.0
 * The scalar reference for the kernels of kv_step.h.
 * Compiled for size in WebAssembly. */
#include "kernels/kv_step.h"

#include <math.h>

#include "kernels/kernels.h"
#include "kernels/polynomials.h"

#ifdef DECODER_KERNELS

static void score_int8(const struct int8_queries *x, const int8_t *keys, const float *scales,
                       size_t ld_scales, float *y) {
    const size_t bytes = kv_key_bytes(x->head_size);
    for (size_t i = 0; i < x->rows; i++)
        for (size_t j = 0; j < KV_STEP; j++) {
            float score = 0;
            for (size_t start = 0; start < bytes; start += KV_BLOCK) {
                int32_t sum = 0;
                for (size_t c = start; c < bytes && c < start + KV_BLOCK; c++)
                    sum += x->q[i * bytes + c] * keys[(c / 4 * KV_STEP + j) * 4 + c % 4];
                score += (float)sum * scales[start / KV_BLOCK * ld_scales + j];
            }
            y[i * KV_STEP + j] = score;
        }
}

static void shares(float *scores, size_t first, size_t end, float factor, struct softmax_row *row) {
    float top = row->top, total = 0;
    for (size_t j = first; j < end; j++)
        top = fmaxf(top, scores[j]);
    row->keep = row->top < top ? row->top > -INFINITY ? expf((row->top - top) * factor) : 0 : 1;
    for (size_t j = 0; j < KV_STEP; j++) {
        scores[j] = j >= first && j < end ? expf((scores[j] - top) * factor) : 0;
        total += scores[j];
    }
    row->top = top;
    row->total[0] = row->total[0] * row->keep + total;
}

static void shares_int8(float *scores, size_t rows, size_t first, size_t end, const float *factors,
                        const float *value_scales, struct softmax_row *row, uint8_t *bytes) {
    for (size_t i = 0; i < rows; i++, row++, scores += KV_STEP, bytes += KV_STEP) {
        float most = 0;
        shares(scores, first, end, factors[i], row);
        for (size_t j = 0; j < KV_STEP; j++) {
            scores[j] *= value_scales[j];
            most = fmaxf(most, scores[j]);
        }
        const float inverse = most < 0x1p-100f ? 0 : (float)SHARE_STEPS / most;
        row->scale = most < 0x1p-100f ? 0 : most / (float)SHARE_STEPS;
        for (size_t j = 0; j < KV_STEP; j++)
            bytes[j] = (uint8_t)rintf(scores[j] * inverse);
    }
}

static float mass(const float *scores, float factor) {
    float total = 0;
    for (size_t j = 0; j < KV_STEP; j++)
        total += exp2f(fminf(fmaxf(scores[j] * (factor * LOG2_E), -KV_MASS_BITS), KV_MASS_BITS));
    return total;
}

static void add_up_int8(const uint8_t *bytes, const struct softmax_row *row, const int8_t *values,
                        size_t rows, size_t head_size, float *sum) {
    const size_t channels = kv_channels(head_size);
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < channels; c++) {
            int32_t products = 0;
            for (size_t j = 0; j < KV_STEP; j++)
                products += bytes[i * KV_STEP + j] * values[(j / 4 * channels + c) * 4 + j % 4];
            sum[i * channels + c] =
                sum[i * channels + c] * row[i].keep + (float)products * row[i].scale;
        }
}

static void add_up(const float *y, const struct softmax_row *row, size_t rows, size_t n,
                   float *sum) {
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < n; c++)
            sum[i * n + c] = sum[i * n + c] * row[i].keep + y[i * n + c];
}

const struct kv_kernels kv_scalar = {.score_int8 = score_int8,
                                     .shares = shares,
                                     .shares_int8 = shares_int8,
                                     .mass = mass,
                                     .add_up_int8 = add_up_int8,
                                     .add_up = add_up};

#endif
