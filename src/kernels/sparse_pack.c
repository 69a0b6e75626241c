/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "kernels/sparse.h"

static float largest_of(const float *values, size_t n) {
    float largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(values[i]));
    return largest;
}

/* The comparison also sends NaN, which a malformed file may hold, to 0. */
static int8_t round_int8(float scaled) {
    return fabsf(scaled) <= 127.5f ? (int8_t)lrintf(scaled) : 0;
}

void pack_quad_rows(const float *const rows[QUAD], size_t k, int8_t *packed,
                    struct quad_parameters *parameters) {
    memset(packed, 0, QUAD * quad_row_bytes(k));
    for (size_t j = 0; j < QUAD; j++) {
        const float largest = largest_of(rows[j], k), inverse = largest > 0 ? 127 / largest : 0;
        int32_t sum = 0;
        for (size_t c = 0; c < k; c++) {
            const int8_t q = round_int8(rows[j][c] * inverse);
            packed[(c / QUAD_CHUNK * QUAD + j) * QUAD_CHUNK + c % QUAD_CHUNK] = q;
            sum += q;
        }
        parameters->scale[j] = largest / 127;
        parameters->sum[j] = (float)sum;
    }
}

void pack_quad_columns(const float *const columns[QUAD], size_t size, int is_signed,
                       uint8_t *packed, struct quad_parameters *parameters) {
    const uint8_t offset = is_signed ? 0 : 0x80;
    memset(packed, offset, QUAD * quad_row_bytes(size));
    for (size_t j = 0; j < QUAD; j++) {
        const float largest = largest_of(columns[j], size),
                    inverse = largest > 0 ? 127 / largest : 0;
        for (size_t c = 0; c < size; c++)
            packed[c * QUAD + j] = (uint8_t)round_int8(columns[j][c] * inverse) ^ offset;
        parameters->weight[j] = largest / 127;
    }
}
