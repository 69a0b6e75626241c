// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

#include <cstring>
#include <vector>

uint16_t emulated_half(float x) {
    const _Float16 half = static_cast<_Float16>(x);
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

float emulated_float(uint16_t half) {
    static const std::vector<float> all = [] { // converting is slow without an instruction
        std::vector<float> values(1 << 16);
        for (unsigned bits = 0; bits < values.size(); bits++) {
            const auto own = static_cast<uint16_t>(bits);
            _Float16 x;
            memcpy(&x, &own, sizeof x);
            values[bits] = static_cast<float>(x);
        }
        return values;
    }();
    return all[half];
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

// Copies bytes [0, 32) of a row from where the descriptor says, after the PTX manual: rows of 128 bytes in groups of 8,
// which are so many bytes apart, with bits 4 to 6 of the address xor bits 7 to 9.
static void read_row(const unsigned char *shared, uint64_t descriptor, int row, unsigned char bytes[32]) {
    const unsigned start = static_cast<unsigned>(descriptor & 0x3fff) << 4;
    const unsigned groups_apart = static_cast<unsigned>(descriptor >> 32 & 0x3fff) << 4;
    for (unsigned i = 0; i < 32; i += 16) {
        unsigned address = start + static_cast<unsigned>(row / 8) * groups_apart + static_cast<unsigned>(row % 8) * 128 + i;
        address ^= (address >> 7 & 7) << 4;
        memcpy(bytes + i, shared + address, 16);
    }
}

void emulated_run_collect(unsigned, void **operands) {
    for (int lane = 0; lane < 32; lane++)
        for (int t = 0; t < 4; t++)
            for (int i = 0; i < 4; i++) {
                const auto *from = static_cast<const emulated_fragment *>(operands[lane / 4 * 4 + t]);
                auto *to = static_cast<emulated_fragment *>(operands[lane]);
                memcpy(&to->rows.bytes[i % 2][4 * t + 16 * (i / 2)], &from->a[i], 4);
            }
}

static void floats_of(const unsigned char bytes[32], float values[16]) {
    for (int i = 0; i < 16; i++)
        values[i] = emulated_float(static_cast<uint16_t>(bytes[2 * i] | bytes[2 * i + 1] << 8));
}

void emulated_run_product(const emulated_product &p, const unsigned char *shared, unsigned thread) {
    const int lane = static_cast<int>(thread % 32), row0 = static_cast<int>(thread / 32 % 4) * 16 + lane / 4;
    emulated_rows a = p.rows;
    float a_halves[2][16] = {};
    for (int i = 0; i < 2; i++) {
        if (!p.registers)
            read_row(shared, p.a, row0 + 8 * i, a.bytes[i]);
        if (p.halves)
            floats_of(a.bytes[i], a_halves[i]);
    }
    for (int at = 0; at < 32; at++) {
        unsigned char b[32];
        float b_halves[16];
        read_row(shared, p.b, at / 2 * 8 + 2 * (lane % 4) + at % 2, b);
        if (p.halves)
            floats_of(b, b_halves);
        for (int i = 0; i < 2; i++) {
            const int e = at / 2 * 4 + 2 * i + at % 2;
            if (p.halves) {
                float &d = static_cast<float *>(p.d)[e];
                d = p.add ? d : 0;
                for (int k = 0; k < 16; k++)
                    d += a_halves[i][k] * b_halves[k];
            } else {
                int32_t &d = static_cast<int32_t *>(p.d)[e];
                d = p.add ? d : 0;
                for (int k = 0; k < 32; k++)
                    d += a.bytes[i][k] * static_cast<int8_t>(b[k]);
            }
        }
    }
}
