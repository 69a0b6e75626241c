/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86_64/avx2.h"

const struct kernels kernels_avx2 = KERNELS_WITH_NARROW("avx2");
