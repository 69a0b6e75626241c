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

void pack_quad_columns(const float *row, const float *factors, size_t quads, size_t c, size_t size,
                       int is_signed, uint8_t *packed) {
    enum { PART = 64 };
    const uint32_t offset = is_signed ? 0 : 0x80808080;
    for (size_t first = 0; first < quads; first += PART) {
        const size_t here = quads - first < PART ? quads - first : PART;
        float scaled[QUAD * PART];
        int8_t bytes[QUAD * PART];
        for (size_t i = 0; i < QUAD * here; i++)
            scaled[i] = row[QUAD * first + i] * factors[QUAD * first + i];
        round_weights(scaled, QUAD * here, 1, bytes);
        for (size_t i = 0; i < here; i++) {
            uint32_t four;
            memcpy(&four, bytes + QUAD * i, sizeof four);
            four ^= offset;
            memcpy(packed + QUAD * ((first + i) * quad_row_bytes(size) + c), &four, sizeof four);
        }
    }
}
