/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/sparse.h"
#include "kernels/weights.h"

void pack_quad_rows(const float *const rows[QUAD], size_t k, int8_t *packed,
                    struct quad_parameters *parameters) {
    memset(packed, 0, QUAD * quad_row_bytes(k));
    for (size_t j = 0; j < QUAD; j++) {
        const float largest = largest_magnitude(rows[j], k);
        int32_t sum = 0;
        for (size_t c = 0; c < k; c += QUAD_CHUNK)
            sum += round_weights(rows[j] + c, k - c < QUAD_CHUNK ? k - c : QUAD_CHUNK,
                                 inverse_scale(largest), packed + c * QUAD + j * QUAD_CHUNK);
        parameters->scale[j] = largest / 127;
        parameters->sum[j] = (float)sum;
    }
}

void pack_quad_columns(const float *const columns[QUAD], size_t size, int is_signed,
                       uint8_t *packed, float *scales) {
    const uint8_t offset = is_signed ? 0 : 0x80;
    memset(packed, offset, QUAD * quad_row_bytes(size));
    for (size_t j = 0; j < QUAD; j++) {
        const float largest = largest_magnitude(columns[j], size);
        for (size_t c = 0; c < size; c++) {
            int8_t q;
            round_weights(columns[j] + c, 1, inverse_scale(largest), &q);
            packed[c * QUAD + j] = (uint8_t)q ^ offset;
        }
        scales[j] = largest / 127;
    }
}
