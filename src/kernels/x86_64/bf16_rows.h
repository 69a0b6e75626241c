/* SPDX-License-Identifier: Apache-2.0
 * Shared by products of bfloats on AVX-512 and on tiles. */
#ifndef WISP_KERNELS_BF16_ROWS_H
#define WISP_KERNELS_BF16_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* The function `round` of bf16_kernels. */
void bf16_round_avx512(const float *x, size_t m, size_t k, uint16_t *out);

#endif
