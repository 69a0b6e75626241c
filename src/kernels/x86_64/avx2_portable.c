/* SPDX-License-Identifier: Apache-2.0
 * The set of avx2.c with the bits of all portable sets (kernels.h). */
#define VECTOR_PORTABLE
#define WISP_EMBED_ONLY
#include "kernels/x86_64/avx2.h"

const struct kernels kernels_avx2_portable = KERNELS_WITH_NARROW("avx2-portable");
