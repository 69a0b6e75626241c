/* SPDX-License-Identifier: Apache-2.0
 * AVX2 with the dot product of bytes, for CPUs that have AVX-VNNI without AVX-512. */
#include "kernels/x86_64/avx_vnni.h"

const struct kernels kernels_avx_vnni = KERNELS_WITH_UNSIGNED("avx-vnni");
