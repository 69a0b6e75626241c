/* SPDX-License-Identifier: Apache-2.0 */
#include "quant/i2_s.h"

enum { RESERVED = 3 };

size_t i2_s_expand(const unsigned char *blocks, size_t n, float scale, float *out) {
    for (size_t i = 0; i < n; i++) {
        const size_t in = i % I2_S_BLOCK;
        const int code = blocks[i / I2_S_BLOCK * I2_S_BYTES + in % 32] >> (6 - in / 32 * 2) & 3;
        if (code == RESERVED)
            return i;
        out[i] = (float)(code - 1) * scale;
    }
    return n;
}
