/* SPDX-License-Identifier: Apache-2.0 */
#define PROBE peak_neon_i8mm
#define INSTRUCTION vmmlaq_s32
#define PRODUCT_MACS 32
#include "neon_probe.h"
