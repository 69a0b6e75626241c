/* SPDX-License-Identifier: Apache-2.0
 * What every vector_*.h provides, under the same names, for the templates:
 *
 *   vf, vi          vectors of VF_LANES floats and of as many 32-bit integers
 *   vf_*_n          loads and stores of the first n lanes, 0 < n <= VF_LANES;
 *                   a load sets the rest to 0
 *   vf_fma(a,b,c)   a b + c, rounded once where the instruction set can
 *   vf_first(x,n,y) the first n lanes of x, then those of y
 *   vf_zip          a0 b0 a1 b1 ..., in two vectors
 *   vi_round        to the nearest whole number, ties to even; magnitudes below 2^22
 *   vi_bits         the bits of floats
 *   vf_scale2(x,n)  x 2^n for exponents that stay normal; of n only the low 9 bits count
 *   vi_store_u8     each lane clamped to 0..255, VF_LANES bytes
 *   vi_store_u8_4   the same for four vectors in a row
 *   vi_dot(s,x,w)   s + the dot product of each lane's four bytes of x (activations, the same
 *                   four in each lane) and of w (weights), exact
 *
 * Sets with VECTOR_Q4 multiply 4-bit weights (gemm_q4_template.h) and have
 *
 *   vf_load_halves      loads VF_LANES 16-bit floats, which are neither infinite nor NaN
 *   Q4_FACTOR           by which the weights below are larger than they should be
 *   vq_load_nibbles     weights of VF_LANES outputs: the low nibbles of 4 bytes each, and the high
 *   vq_load_activations, vq_dot(s,x,w)   as vi_load_activations and vi_dot, for sums vq of one part
 *   vq_sum(s)           its sums, as vi
 *
 * Sets that multiply two rows of 8 bytes by two others have in addition:
 *
 *   vi_load_activation_pair  8 bytes of each of two rows
 *   vi_load_weight_pairs     8 bytes of each of 4 outputs, as two vectors of two
 *   vi_dot_pairs(s,x,w)      s + the dot products of x's first row with both of w, then the
 * second's vi_first_row(a,b)        the first row's sums of a, then of b; vi_second_row alike
 *
 * Sets that have no such dot product have these instead, on 16-bit numbers:
 *
 *   vi_widen_weights    2 VF_LANES signed bytes; vi_widen_row: n unsigned ones, to memory
 *   vi_repeat4          4 numbers, repeated
 *   vi_dot_wide(s,x,w)  s + the dot product of the two numbers in each lane, exact
 *   vi_join(a,b)        the sums of neighbouring lanes of a, then of b
 *
 * Sets with VECTOR_I16 have vi_dot_wide in any case, and
 *
 *   vi_pair(a,b)        the low halves of a's and b's lanes, a's low
 *   vi_store_i16        each lane clamped to 16 bits, VF_LANES numbers; vi_store_i16_2: of two
 *
 * and for the sparse kernels:
 *
 *   vi_load_all_activations  as many bytes as fill a vector
 *   vi_store_sums            the sums of all lanes of each of 4 vectors, 4 numbers
 *   vf_load_groups           4 floats from each of VF_LANES / 4 places
 *   vf_transpose4            lane i of each 4 of vector j becomes lane j of vector i
 *   vf_above(a,b)            a bit for each lane in which a > b
 *   vi_narrow                the lanes of four vectors as signed bytes, in a row
 *   vi_nonzero_bytes         a bit for each byte that is not 0; or, where VECTOR_COMPRESSES is
 *                            defined as that is faster,
 *   append_lanes(x,list,i,bytes,kept)
 *                            the lanes of x that are not 0 as bytes, and of those lanes list[lane],
 *                            or i + lane where list is NULL; how many; writes up to VF_LANES
 *   vi_load_four             4 bytes, as vi_add_columns wants them
 *   vi_add_columns           adds to 4 vectors, the sums of 4 VF_LANES outputs, the products of a
 *                            vi_four with four neurons' columns, laid out as column_place says;
 *                            VECTOR_SIGNED_COLUMNS says whether their bytes are signed
 */
#ifndef WISP_KERNELS_VECTOR_H
#define WISP_KERNELS_VECTOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

enum { CACHE_LINE = 64 }; /* or less than it is */

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define MAYBE_UNUSED __attribute__((unused)) static

/* UNROLL_IN_CLANG is for loops that touch an array of another loop: unrolled, clang keeps that
 * array in registers, where gcc would lose the registers of both. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define UNROLL_NOT _Pragma("clang loop unroll(disable)")
#define UNROLL_IN_CLANG UNROLL
#else
#define UNROLL _Pragma("GCC unroll 64")
#define UNROLL_NOT _Pragma("GCC unroll 1")
#define UNROLL_IN_CLANG _Pragma("GCC unroll 1")
#endif

/* Into the second-level cache. WebAssembly has no instruction for it, but a load whose result
 * nobody waits for does the same. */
ALWAYS_INLINE void prefetch(const unsigned char *p) {
#ifdef __wasm__
    (void)*(const volatile unsigned char *)p;
#else
    __builtin_prefetch(p, 0, 2);
#endif
}

/* An array of constants, for vf_set1, as is fastest to load from. In WebAssembly those that the
 * compiler sees become v128.const, for which V8 emits four instructions at each use: hidden from
 * it, they are loaded. */
ALWAYS_INLINE const float *vf_table(const float *constants) {
#ifdef __wasm__
    __asm__("" : "+r"(constants));
#endif
    return constants;
}

#endif
