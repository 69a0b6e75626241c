/* SPDX-License-Identifier: Apache-2.0
 * What PTX's warp instructions compute, from the operands of all lanes: scalar arithmetic after the
 * PTX manual. The emulator runs kernels with it, and on a GPU test_wrappers.cu compares it with the
 * instructions. */
#ifndef WISP_TESTS_CUDA_LANES_H
#define WISP_TESTS_CUDA_LANES_H

#include <cstdint>

uint16_t emulated_half(float x);
float emulated_float(uint16_t half);

struct emulated_matrices {
    const void *row;
    uint32_t *r;
};
void emulated_run_load(unsigned mask, void **operands);
void emulated_run_load_transposed(unsigned mask, void **operands);

struct emulated_mma {
    void *d;
    const uint32_t *a;
    uint32_t b[2];
};
void emulated_run_mma_u8(unsigned mask, void **operands);
void emulated_run_mma_s8(unsigned mask, void **operands);
void emulated_run_mma_f16(unsigned mask, void **operands);

/* Two rows of 32 bytes. */
struct emulated_rows {
    unsigned char bytes[2][32];
};

/* The rows of a that a lane's results are of, from the registers of a warp. */
struct emulated_fragment {
    const uint32_t *a;
    emulated_rows rows;
};
void emulated_run_collect(unsigned mask, void **operands);

/* A product of a warpgroup from tiles in shared memory, which descriptors say where to find. If
 * `registers` is not NULL, a is in registers instead: there, and `rows` were its rows. */
struct emulated_product {
    void *d;
    uint64_t a, b;
    bool halves, add;
    const uint32_t *registers;
    emulated_rows rows;
};
/* Computes the 64 results of one of its 128 threads. */
void emulated_run_product(const emulated_product &product, const unsigned char *shared,
                          unsigned thread);

#endif
