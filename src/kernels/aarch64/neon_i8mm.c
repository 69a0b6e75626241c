/* SPDX-License-Identifier: Apache-2.0
 * The NEON set with the int8 product on matrix multiply instructions. It has the packed weights and
 * the operations of the NEON set, and integer sums are exact, so the results have the same bits. */
#include "kernels/aarch64/neon_i8mm.h"

const struct kernels kernels_neon_i8mm = KERNELS_WITH_SIGNED("neon-i8mm");
