/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_BASE_COSINE_H
#define WISP_BASE_COSINE_H

#include <math.h>
#include <stddef.h>

/* Returns the cosine of two rows of n values, normalised or not; 0 if one of them is all zeros.
 */
static inline double cosine(const float *a, const float *b, size_t n) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa * bb > 0 ? ab / sqrt(aa * bb) : 0;
}

#endif
