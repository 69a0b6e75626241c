// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

#include <cstring>

uint16_t emulated_half(float x) {
    const _Float16 half = static_cast<_Float16>(x);
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

float emulated_float(uint16_t half) {
    _Float16 x;
    memcpy(&x, &half, sizeof x);
    return static_cast<float>(x);
}

static const emulated_matrices &matrices_of(void **operands, int lane) {
    return *static_cast<const emulated_matrices *>(operands[lane]);
}

void emulated_run_load(unsigned, void **operands) {
    for (int m = 0; m < 4; m++)
        for (int lane = 0; lane < 32; lane++) {
            const auto *row = static_cast<const unsigned char *>(matrices_of(operands, 8 * m + lane / 4).row);
            memcpy(&matrices_of(operands, lane).r[m], row + 4 * (lane % 4), 4);
        }
}

void emulated_run_load_transposed(unsigned, void **operands) {
    for (int m = 0; m < 4; m++)
        for (int lane = 0; lane < 32; lane++) {
            uint16_t column[2];
            for (int i = 0; i < 2; i++) {
                const auto *row = static_cast<const unsigned char *>(matrices_of(operands, 8 * m + 2 * (lane % 4) + i).row);
                memcpy(&column[i], row + 2 * (lane / 4), 2);
            }
            memcpy(&matrices_of(operands, lane).r[m], column, 4);
        }
}

// Collects the rows of a [16][32 bytes] and b [8][32 bytes] from the lanes' registers.
static void collect(void **operands, unsigned char a[16][32], unsigned char b[8][32]) {
    for (int lane = 0; lane < 32; lane++) {
        const auto *own = static_cast<const emulated_mma *>(operands[lane]);
        const int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 4; i++)
            memcpy(&a[g + 8 * (i % 2)][4 * t + 16 * (i / 2)], &own->a[i], 4);
        for (int i = 0; i < 2; i++)
            memcpy(&b[g][4 * t + 16 * i], &own->b[i], 4);
    }
}

template <class BYTE> static void multiply_bytes(void **operands) {
    alignas(4) unsigned char a[16][32], b[8][32];
    collect(operands, a, b);
    for (int lane = 0; lane < 32; lane++) {
        auto *d = static_cast<int32_t *>(static_cast<emulated_mma *>(operands[lane])->d);
        for (int i = 0; i < 4; i++) {
            const unsigned char *row = a[lane / 4 + 8 * (i / 2)], *column = b[2 * (lane % 4) + i % 2];
            int sum = 0;
            for (int k = 0; k < 32; k++)
                sum += static_cast<BYTE>(row[k]) * static_cast<int8_t>(column[k]);
            d[i] += sum;
        }
    }
}

void emulated_run_mma_u8(unsigned, void **operands) { multiply_bytes<uint8_t>(operands); }
void emulated_run_mma_s8(unsigned, void **operands) { multiply_bytes<int8_t>(operands); }

void emulated_run_mma_f16(unsigned, void **operands) {
    alignas(4) unsigned char a[16][32], b[8][32];
    float fa[16][16], fb[8][16];
    collect(operands, a, b);
    for (int k = 0; k < 16; k++) {
        uint16_t bits;
        for (int row = 0; row < 16; row++) {
            memcpy(&bits, &a[row][2 * k], 2);
            fa[row][k] = emulated_float(bits);
        }
        for (int row = 0; row < 8; row++) {
            memcpy(&bits, &b[row][2 * k], 2);
            fb[row][k] = emulated_float(bits);
        }
    }
    for (int lane = 0; lane < 32; lane++) {
        auto *d = static_cast<float *>(static_cast<emulated_mma *>(operands[lane])->d);
        for (int i = 0; i < 4; i++) {
            const float *row = fa[lane / 4 + 8 * (i / 2)], *column = fb[2 * (lane % 4) + i % 2];
            for (int k = 0; k < 16; k++)
                d[i] += row[k] * column[k];
        }
    }
}
