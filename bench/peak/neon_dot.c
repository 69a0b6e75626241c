/* SPDX-License-Identifier: Apache-2.0 */
#define PROBE peak_neon_dot
#define INSTRUCTION vdotq_s32
#define PRODUCT_MACS 16
#include "neon_probe.h"
