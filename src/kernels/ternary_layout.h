/* SPDX-License-Identifier: Apache-2.0
 * How ternary weights are laid out in a panel. Layouts differ in `scaled`, the number of weights of
 * a row that share a scale: K_BLOCK, INT8_BLOCK, TERNARY_LEAST or, if it is 0, the whole row.
 * kernels.h describes them. */
#ifndef WISP_KERNELS_TERNARY_LAYOUT_H
#define WISP_KERNELS_TERNARY_LAYOUT_H

#include "kernels/kernels.h"

/* Returns the number of weights of a part, which have a sum. */
static inline size_t ternary_part(size_t scaled) {
    return scaled == TERNARY_LEAST ? TERNARY_LEAST : INT8_BLOCK;
}

/* Returns whether each part has a scale of its own. */
static inline bool ternary_parts_scaled(size_t scaled) {
    return scaled == TERNARY_LEAST || scaled == INT8_BLOCK;
}

/* Return the bytes for each row of a panel: of a scale, and of a part without it. */
static inline size_t ternary_scale_bytes(size_t scaled) {
    return scaled == 0 ? sizeof(float) : 2;
}

static inline size_t ternary_part_bytes(size_t scaled) {
    return 2 + ternary_part(scaled) / 4;
}

/* Returns the bytes for each row of a panel of `length` weights that share a scale. */
static inline size_t ternary_bytes(size_t scaled, size_t length) {
    return ternary_scale_bytes(scaled) + length / ternary_part(scaled) * ternary_part_bytes(scaled);
}

#endif
