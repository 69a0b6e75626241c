/* SPDX-License-Identifier: Apache-2.0
 * Probes that measure how many multiply-adds one core does at most with each instruction that
 * wisp's kernels use. They work in registers and touch no memory. */
#ifndef WISP_BENCH_PEAK_H
#define WISP_BENCH_PEAK_H

#include <stdint.h>

/* Adds products to each of CHAINS accumulators `steps` times and returns the number of
 * multiply-adds. Writes the sums to *sink, so that the compiler cannot remove any of them. */
typedef double probe(uint64_t steps, volatile int32_t *sink);

probe peak_avx2_madd;    /* 16-bit products summed in pairs, then added: exact for bytes */
probe peak_avx2_maddubs; /* 8-bit products summed in pairs in 16 bits, which may saturate */
probe peak_avx2_narrow;  /* narrow products (kernels.h): two such sums added up in 16 bits */
probe peak_avx_vnni;     /* vpdpbusd on 256 bits, in its VEX form */
probe peak_avx512_vnni;  /* vpdpbusd on 512 bits */
probe peak_amx;          /* tdpbusd on tiles of 16 rows of 64 bytes */
probe peak_neon_dot;     /* sdot */
probe peak_neon_i8mm;    /* smmla: two rows of 8 bytes by two others */
probe peak_wasm_i16;     /* i32x4.dot_i16x8_s, then added */
probe peak_wasm_narrow;  /* narrow products by i16x8.relaxed_dot_i8x16_i7x16_s */
probe peak_wasm_relaxed; /* i32x4.relaxed_dot_i8x16_i7x16_add_s */

/* Repeats DO(i), the code of chain i, for twelve accumulators. Each accumulator is a variable,
 * because compilers keep arrays in memory; with the factors they fit sixteen registers. In native
 * code each step forces an accumulator into a register, because gcc would otherwise move them. */
#define EACH_CHAIN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
enum { CHAINS = 12 };

#endif
