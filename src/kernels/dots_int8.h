/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_KERNELS_DOTS_INT8_H
#define WISP_KERNELS_DOTS_INT8_H

#include <stddef.h>
#include <stdint.h>

/* Does what dots_int8 of kernels.h says. It is one plain loop for all sets: sums of integers are
 * exact in any order, so compilers turn it into the multiply-add of 16-bit numbers of each
 * instruction set, and memory is slower than that. */
static inline void dots_int8(const int16_t *x, const int8_t *w, size_t ldw, size_t n, size_t k,
                             int32_t *sums) {
    for (size_t j = 0; j < n; j++, w += ldw) {
        int32_t sum = 0;
        for (size_t c = 0; c < k; c++)
            sum += x[c] * w[c];
        sums[j] = sum;
    }
}

#endif
