/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/aarch64/neon.h"

const struct kernels kernels_neon = KERNELS_WITH_SIGNED("neon");
