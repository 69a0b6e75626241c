/* SPDX-License-Identifier: Apache-2.0
 * The set of avx512.c with the bits of all portable sets (kernels.h). */
#define VECTOR_PORTABLE
#define WISP_EMBED_ONLY
#include "kernels/x86_64/avx512.h"

const struct kernels kernels_avx512_portable = KERNELS_WITH_NARROW("avx512-portable");
