/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_64/avx512.h"

const struct kernels kernels_avx512 = KERNELS_WITH_UNSIGNED("avx512");
