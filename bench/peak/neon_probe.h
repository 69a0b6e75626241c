/* SPDX-License-Identifier: Apache-2.0
 * Defines the probe of one NEON product of bytes. The including file defines PROBE, the probe's
 * name; INSTRUCTION, the intrinsic; and PRODUCT_MACS, the multiply-adds of one product. */
#include <arm_neon.h>

#define VECTOR int32x4_t
#define SPLAT vdupq_n_s32
#define ADD vaddq_s32
#define NUMBER vaddvq_s32
#define KEEP_IN "+w"

#define FACTORS const int8x16_t x = vdupq_n_s8((int8_t)(*sink | 3)), w = vdupq_n_s8(5);
#define PRODUCT(c) INSTRUCTION(c, x, w)
#include "probe.h"
