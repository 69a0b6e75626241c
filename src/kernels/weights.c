/* SPDX-License-Identifier: Apache-2.0
 * These functions see each weight once, when a model is opened. Engines of WebAssembly run their
 * baseline code then, whose time is the number of instructions. So vectors of 16 bytes are written
 * out: GCC's and clang's vector types, of which compilers make the machine's own instructions. */
#include "kernels/weights.h"

#include "base/half.h"
#include "kernels/kernels.h"

typedef float float4 __attribute__((vector_size(16)));
typedef int32_t int4 __attribute__((vector_size(16)));
typedef uint32_t uint4 __attribute__((vector_size(16)));
typedef uint64_t long2 __attribute__((vector_size(16)));

enum { SIGN_OFF = 0x7fffffff };

const float *pad_weights(const float *w, size_t n, float *room) {
    if (n % WEIGHT_STEP == 0)
        return w;
    memset(room + n, 0, (WEIGHT_STEP - n % WEIGHT_STEP) * sizeof *room);
    return memcpy(room, w, n * sizeof *room);
}

/* Returns the larger number in each lane. Compilers know this expression. */
static inline int4 larger_of(int4 a, int4 b) {
    const int4 is_larger = a > b;
    return (a & is_larger) | (b & ~is_larger);
}

/* Returns the largest lane. The bits of floats that are not negative are in the floats' order, with
 * NaN last. */
static inline float largest_lane(int4 bits) {
    int32_t most = bits[0];
    for (int i = 1; i < 4; i++)
        most = bits[i] > most ? bits[i] : most;
    return float_of_bits((uint32_t)most);
}

float largest_magnitude(const float *w, size_t n) {
    int4 most[WEIGHT_STEP / 4] = {
        0}; /* side by side: with one, each step would wait for the last */
    size_t i = 0;
    for (; i + WEIGHT_STEP <= n; i += WEIGHT_STEP) {
        int4 bits[WEIGHT_STEP / 4];
        memcpy(bits, w + i, sizeof bits);
        for (int j = 0; j < WEIGHT_STEP / 4; j++)
            most[j] = larger_of(bits[j] & SIGN_OFF, most[j]);
    }
    for (; i < n; i++)
        most[0] = larger_of((int4){(int32_t)bits_of_float(w[i]) & SIGN_OFF}, most[0]);
    return largest_lane(larger_of(larger_of(most[0], most[1]), larger_of(most[2], most[3])));
}

float narrow_quarter(const float *w, size_t n) {
    int4 most = {0}, largest = {0};
    for (size_t i = 0; i < n; i += 8) {
        float4 x[2], up[2];
        memcpy(x, w + i, sizeof x);
        for (int j = 0; j < 2; j++) {
            x[j] *= 0.25f;
            up[j] = (float4)((int4)x[j] & (x[j] > 0));
            largest = larger_of((int4)x[j] & SIGN_OFF, largest);
        }
        /* The sums of the positive numbers in each lane, and those of the negative ones. */
        const float4 above = up[0] + up[1], below = (up[0] - x[0]) + (up[1] - x[1]);
        /* A shift moves one lane of each pair to the other. The lane that becomes a sum with 0 is
         * not larger than the sum of both. */
        most = larger_of((int4)(above + (float4)((long2)above >> 32)), most);
        most = larger_of((int4)(below + (float4)((long2)below >> 32)), most);
    }
    /* Each of the four weights may be rounded up by 1/2. */
    const float needed = largest_lane(most) * (127.0f / (NARROW_WEIGHTS - 2));
    const float quarter = largest_lane(largest);
    return needed > quarter ? needed : quarter;
}

int32_t round_weights(const float *w, size_t n, float inverse, int offset, unsigned char *to,
                      size_t stride) {
    /* Adding 1.5 * 2^23 to a number of magnitude below 2^22 adds the nearest whole number to the
     * bits of the sum, whose lowest byte is then that of the whole number. */
    const float rounder = 12582912 + (float)offset;
    uint4 sums = {0};
    for (size_t i = 0; i < n; i += WEIGHT_STEP) {
        float4 x[WEIGHT_STEP / 4];
        uint32_t bits[WEIGHT_STEP];
        uint8_t q[WEIGHT_STEP];
        memcpy(x, w + i, sizeof x);
        for (size_t j = 0; j < WEIGHT_STEP / 4; j++) {
            x[j] = x[j] * inverse + rounder;
            sums += (uint4)x[j];
        }
        memcpy(bits, x, sizeof bits);
        for (size_t j = 0; j < WEIGHT_STEP; j++)
            q[j] = (uint8_t)bits[j];
        for (size_t j = 0; j < WEIGHT_STEP; j += 4, to += stride)
            memcpy(to, q + j, 4);
    }
    const uint32_t sum = sums[0] + sums[1] + sums[2] + sums[3];
    return (int32_t)(sum - (uint32_t)n * bits_of_float(rounder));
}

void scale_weights(float *restrict w, const float *restrict factors, size_t n) {
    for (size_t i = 0; i < n; i++)
        w[i] *= factors[i];
}

void transpose_weights(const float *restrict rows, size_t n, float *restrict columns, size_t ld) {
    for (size_t i = 0; i < n; i += 4) {
        float4 row[TRANSPOSED_ROWS];
        for (size_t r = 0; r < TRANSPOSED_ROWS; r++)
            memcpy(&row[r], rows + r * n + i, sizeof row[r]);
        for (int j = 0; j < 4; j++, columns += ld) {
            const float4 column = {row[0][j], row[1][j], row[2][j], row[3][j]};
            memcpy(columns, &column, sizeof column);
        }
    }
}
