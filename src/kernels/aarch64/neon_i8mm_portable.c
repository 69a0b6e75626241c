/* SPDX-License-Identifier: Apache-2.0
 * The set of neon_i8mm.c with the bits of all portable sets (kernels.h). */
#define VECTOR_PORTABLE
#define WISP_EMBED_ONLY
#include "kernels/aarch64/neon_i8mm.h"

const struct kernels kernels_neon_i8mm_portable = KERNELS_WITH_NARROW_SIGNED("neon-i8mm-portable");
