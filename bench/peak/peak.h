/* SPDX-License-Identifier: Apache-2.0
 * What one core can multiply and add at most with each instruction that kernels here are built on:
 * registers only, no memory. */
#ifndef WISP_BENCH_PEAK_H
#define WISP_BENCH_PEAK_H

#include <stdint.h>

/* Adds to each of CHAINS accumulators `steps` times and returns how many multiply-adds that was.
 * The sums go to *sink, so that nothing can be left out. */
typedef double probe(uint64_t steps, volatile int32_t *sink);

probe peak_avx2_madd;    /* 16-bit products summed in pairs, then added: exact for bytes */
probe peak_avx2_maddubs; /* 8-bit products summed in pairs in 16 bits, which may saturate */
probe peak_avx_vnni;     /* vpdpbusd on 256 bits, in its VEX form */
probe peak_avx512_vnni;  /* vpdpbusd on 512 bits */
probe peak_amx;          /* tdpbusd on tiles of 16 rows of 64 bytes */
probe peak_neon_dot;     /* sdot */
probe peak_neon_i8mm;    /* smmla: two rows of 8 bytes by two others */
probe peak_wasm_i16;     /* i32x4.dot_i16x8_s, then added */
probe peak_wasm_relaxed; /* i32x4.relaxed_dot_i8x16_i7x16_add_s */

/* Twelve accumulators in variables of their own, since compilers keep arrays in memory: with the
 * factors they fit sixteen registers. DO(i) is what is written for chain i. Natively each step says
 * that an accumulator is in a register, or gcc moves them about. */
#define EACH_CHAIN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
enum { CHAINS = 12 };

#endif
