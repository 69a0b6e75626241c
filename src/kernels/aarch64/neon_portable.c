/* SPDX-License-Identifier: Apache-2.0
 * The set of neon.c with the bits of all portable sets (kernels.h). */
#define VECTOR_PORTABLE
#define WISP_EMBED_ONLY
#include "kernels/aarch64/neon.h"

const struct kernels kernels_neon_portable = KERNELS_WITH_NARROW_SIGNED("neon-portable");
