/* SPDX-License-Identifier: Apache-2.0
 * The set of avx_vnni.c with the bits of all portable sets (kernels.h). */
#define VECTOR_PORTABLE
#define WISP_EMBED_ONLY
#include "kernels/x86_64/avx_vnni.h"

const struct kernels kernels_avx_vnni_portable = KERNELS_WITH_NARROW("avx-vnni-portable");
