/* SPDX-License-Identifier: Apache-2.0
 * How weights of IQ4_NL, IQ4_XS and MXFP4 are laid out in a panel. All have codes of 4 bits for 16
 * levels, which are whole numbers, and a scale for each Q4_BLOCK of them. kernels.h describes the
 * panels.
 */
#ifndef WISP_KERNELS_LEVEL_LAYOUT_H
#define WISP_KERNELS_LEVEL_LAYOUT_H

#include <stddef.h>

enum level_scales {
    LEVEL_HALVES,  /* 16-bit floats */
    LEVEL_BFLOATS, /* bfloats, which have all powers of two that MXFP4 has */
    LEVEL_BYTES /* the number of 0 to 63, less LEVEL_CENTRE, by which a block's d is multiplied */
};

enum { LEVEL_CENTRE = 32 };

struct level_layout {
    const signed char *levels; /* [16] */
    enum level_scales scales;
    /* The bytes for each row of a panel: of a block without its parts, and of a part. */
    size_t header_bytes, part_bytes;
};

extern const struct level_layout layout_iq4_nl, layout_iq4_xs, layout_mxfp4;

/* Returns the bytes that n packed rows of k weights take. */
size_t packed_level_bytes(const struct level_layout *layout, size_t n, size_t k, size_t panel);

#endif
