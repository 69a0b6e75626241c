/* SPDX-License-Identifier: Apache-2.0
 * The operations that every vector_*.h defines under the same names, for the templates:
 *
 *   vf, vi          are vectors of VF_LANES floats and of as many 32-bit integers
 *   vf_*_n          load and store the first n lanes, 0 < n <= VF_LANES;
 *                   a load sets the other lanes to 0
 *   vf_fma(a,b,c)   computes a b + c, rounded once if the instruction set can
 *   vf_first(x,n,y) takes the first n lanes from x and the others from y
 *   vf_zip          interleaves a0 b0 a1 b1 ..., to two vectors
 *   vf_min, vf_max  return b if the lanes compare equal; outside of portable sets some return
 *                   either zero
 *   vf_sum          adds up all lanes, in portable sets the upper half to the lower half until one
 *                   is left; vf_largest and vf_least return the extremes
 *   vf_load_int8    loads VF_LANES signed bytes as floats
 *   vi_round        rounds to whole numbers, ties to even; magnitudes must be below 2^22
 *   vi_bits         returns the bits of floats
 *   vi_max          returns the larger of two signed integers in each lane
 *   vf_scale2(x,n)  computes x 2^n for exponents that stay normal; it uses the low 9 bits of n
 *   vi_store_u8     clamps each lane to 0..255 and stores VF_LANES bytes
 *   vi_store_u8_4   stores four vectors like that, one after the other
 *   vi_dot(s,x,w)   adds to each lane of s the dot product of its four bytes of x (activations, the
 *                   same four in each lane) and of w (weights), exactly
 *
 * Sets with VECTOR_HALVES expand 16-bit weights:
 *
 *   vf_load_halves, vf_load_bfloats   load VF_LANES 16-bit floats or bfloats
 *
 * Sets with VECTOR_Q4 multiply 4-bit weights (gemm_q4_template.h):
 *
 *   vf_load_halves      loads VF_LANES 16-bit floats, which are neither infinite nor NaN
 *   vf_load_bfloats     loads VF_LANES 16-bit bfloats
 *   vf_load_bytes       loads VF_LANES unsigned bytes as floats
 *   Q4_FACTOR           is the factor by which the weights of vq_load_nibbles are too large
 *   vq_load_nibbles     loads weights of VF_LANES outputs: the low nibbles of 4 bytes each, and the
 *                       high nibbles
 *   vq_load_activations, vq_dot(s,x,w)   are vi_load_activations and vi_dot for sums vq of one part
 *   vq_sum(s)           converts the sums of a part to vi
 *   vl_load_table(p)    loads the 16 numbers that codes stand for, signed bytes, as vl_table. In
 *                       sets with VECTOR_NARROW they are -8..7 for vq_dot, -12..12 for vi16_dot
 *   vl_load_levels      does what vq_load_nibbles does, for nibbles that are codes of a vl_table
 *   LEVEL_FACTOR        is the factor by which the weights of vl_load_levels are too large
 *   vl_sum(a,b)         converts sums of upper and lower numbers to vi, as 16 a + b; only in sets
 *                       with VECTOR_NARROW
 *   vk_bits(p,n,mask)   loads a vector of bytes, shifts each right by n bits (left if n < 0) and
 *                       masks them
 *   vk_or               returns the bits of two vectors of codes, vk_codes
 *   vk_centred(c,n)     returns codes minus n, -32..31, as weights of vi_dot, or in sets with
 *                       VECTOR_NARROW of vi16_dot
 *   v2_load(p,i)        loads weights of VF_LANES outputs: the pair of bits i of 4 bytes each, of
 *                       which 0..3 stand for -1..2
 *
 * Sets with VECTOR_CODES multiply one row by the codes of ternary weights. They have vi_keep, which
 * is described below, and:
 *
 *   v2_load_codes(p)    loads the bytes of v2_load; v2_upper_codes moves their pairs 2 and 3 to the
 *                       place of pairs 0 and 1
 *   v2_codes(c,i)       masks pair 0, or pair 1, whose numbers are 4 times as large for their place
 *   v2_sum(s)           adds up the sums of the products with pairs 0 to 3, of at most
 *                       INT8_BLOCK / 4 activations each, and divides those of pairs 1 and 3 by 4
 *
 * Sets that multiply two rows of 8 bytes by two others also have:
 *
 *   vi_load_activation_pair  loads 8 bytes of each of two rows
 *   vi_load_weight_pairs     loads 8 bytes of each of 4 outputs, to two vectors of two outputs
 *   vi_dot_pairs(s,x,w)      adds to s the dot products of x's first row with both rows of w, then
 *                            those of its second row
 *   vi_first_row(a,b)        returns the first row's sums of a, then of b; vi_second_row likewise
 *
 * Sets with VECTOR_NARROW, for gemm_narrow_template.h, have these operations. If they define
 * VECTOR_NARROW_SPARSE, sparse layers use them too, instead of vi_dot:
 *
 *   vi16_load_activations, vi16_load_weights   load bytes as vi_load_activations and
 *                       vi_load_weights do
 *   vi16_dot(x,w)       multiplies them and adds up neighbours, in 16 bits
 *   vi16_add            adds 16-bit numbers
 *   vi16_widen          adds up neighbours among 16-bit numbers, in 32 bits
 *   vi16_widen_by_ones  does so too, in a loop that has a register left for ones
 *   vi_keep             is described below
 *
 * Sets with neither have these operations on 16-bit numbers:
 *
 *   vi_widen_weights    loads 2 VF_LANES signed bytes
 *   vi_widen_row        widens n unsigned bytes in memory
 *   vi_repeat4          loads 4 numbers and repeats them
 *   vi_dot_i16(s,x,w)   adds to each lane of s the dot product of its two numbers, exactly
 *   vi_join(a,b)        returns the sums of neighbouring lanes of a, then of b
 *
 * Sets with VECTOR_I16 (i16_template.h), which all portable sets have, have vi_dot_i16 in any case,
 * and:
 *
 *   vi_pair(a,b)        puts the low halves of the lanes of a (low) and b (high) into one lane
 *   vi_store_i16        clamps each lane to 16 bits and stores VF_LANES numbers; vi_store_i16_2
 *                       stores two vectors
 *
 * Attention over cached bytes (kv_step_template.h) uses, for signed bytes and exactly:
 *
 *   vb_load_four(p)     repeats 4 bytes, of a query or of shares, for all lanes
 *   vb_load_keys, vb_load_values    load 4 bytes for each lane
 *   vb_dot_keys(s,w,x)  adds to each lane of s the dot product of its bytes of w and x, but for
 * what vb_start says vb_start(n)         returns what sums of vb_dot_keys begin with, where n is
 * the sum of the query's bytes vb_dot_values(s,w,x)  adds such a product, for x of 0..127
 *
 * The sparse kernels use:
 *
 *   vi_load_all_activations  loads a vector of bytes
 *   vi_store_sums            stores 4 numbers, the sums of all lanes of each of 4 vectors
 *   vf_load_groups           loads 4 floats from each of VF_LANES / 4 places
 *   vf_transpose4            moves lane i of vector j to lane j of vector i, in each group of 4
 *                            lanes
 *   vf_above(a,b)            returns a bit for each lane in which a > b
 *   vi_narrow                converts the lanes of four vectors to signed bytes
 *   vi_nonzero_bytes         returns a bit for each byte that is not 0; sets with
 *                            VECTOR_COMPRESSES have a faster operation in its place:
 *   append_lanes(x,list,i,bytes,kept)
 *                            stores to kept the lanes of x that are not 0 as bytes, each with its
 *                            list[lane], or i + lane if list is NULL; returns their number; it
 *                            may write up to VF_LANES entries
 *   vi_load_four             loads the values of four neurons, for vi_add_columns
 *   vi_add_columns           adds to 4 vectors, the sums of 4 VF_LANES outputs, the products of the
 *                            values of a vi_four with four neurons' columns, which are as
 *                            column_place says; VECTOR_SIGNED_COLUMNS tells whether their bytes are
 *                            signed
 *
 * Sets with VECTOR_COLUMNS_IN_16_BITS have these operations instead of the last two. The bytes of
 * their columns are signed:
 *
 *   vi_load_two              loads the values of two neurons, column_values of 0..127
 *   vi16_columns(a,b,two,p)  computes p, two vectors of 16-bit numbers: the sums of the products of
 *                            the values with 4 VF_LANES weights of both columns
 *   vi_keep                  does nothing to a vector, but keeps gcc from computing a part of the
 *                            next round of a loop ahead, for which there are no registers
 *   vi16_sub                 subtracts 16-bit numbers
 *   vi16_upper_bytes         shifts 16-bit numbers right by 8, rounding down; vi16_to_upper_bytes
 *                            shifts them left
 *   vi16_join(low,high,s)    computes s, two vectors of low + 256 high, for unsigned low and signed
 *                            high numbers, in the order of column_place
 */
#ifndef WISP_KERNELS_VECTOR_H
#define WISP_KERNELS_VECTOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/gather.h"
#include "kernels/kernels.h"

enum { CACHE_LINE = 64 }; /* bytes; the cache lines of some CPUs are longer */
enum {
    STREAM_AHEAD = 8192
}; /* bytes; half of it is slower on Zen 5, twice as many are no faster */

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define MAYBE_UNUSED __attribute__((unused)) static

/* UNROLL_IN_CLANG is for a loop that uses an array of another loop. clang unrolls it and keeps the
 * array in registers. gcc must not unroll it, or it keeps the array of neither loop in registers.
 */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define UNROLL_NOT _Pragma("clang loop unroll(disable)")
#define UNROLL_IN_CLANG UNROLL
#else
#define UNROLL _Pragma("GCC unroll 64")
#define UNROLL_NOT _Pragma("GCC unroll 1")
#define UNROLL_IN_CLANG _Pragma("GCC unroll 1")
#endif

/* Loads a cache line into the second-level cache. WebAssembly has no such instruction, but a load
 * whose result is not used does the same without waiting. */
ALWAYS_INLINE void prefetch(const unsigned char *p) {
#ifdef __wasm__
    (void)*(const volatile unsigned char *)p;
#else
    __builtin_prefetch(p, 0, 2);
#endif
}

/* Fetches `bytes` bytes that lie STREAM_AHEAD beyond p, on x86-64. A product of few rows reads its
 * weights once, in order, from memory. The prefetchers of these processors stop at the end of a
 * page of 4 KiB, so loads would wait at the beginning of each. The address may lie beyond the
 * weights. */
ALWAYS_INLINE void prefetch_stream(const unsigned char *p, const size_t bytes) {
#ifdef __x86_64__
    UNROLL
    for (size_t i = 0; i < bytes; i += CACHE_LINE)
        __builtin_prefetch((const void *)((uintptr_t)p + STREAM_AHEAD + i), 0, 3);
#else
    (void)p;
    (void)bytes;
#endif
}

/* Fetches the header of a block, on x86-64: numbers that are before its weights and are used
 * after them. Where this goes back by more than a page of 4 KiB, the prefetchers of Zen 4 lose the
 * stream, and a product of few rows reads 11.5 GB/s instead of 23. */
ALWAYS_INLINE void prefetch_header(const unsigned char *block, const size_t header,
                                   const size_t weights) {
#ifdef __x86_64__
    for (size_t i = 0; i < header && weights > 4096; i += CACHE_LINE)
        __builtin_prefetch(block + i, 0, 3);
#else
    (void)block, (void)header, (void)weights;
#endif
}

/* WebAssembly's optimizer computes the vectors of an unrolled loop one after the other, so that
 * each operation waits for the one before. It does not unroll a loop that is left as it is. */
#ifdef __wasm__
#define UNROLL_NATIVELY UNROLL_NOT
#else
#define UNROLL_NATIVELY UNROLL
#endif

/* Returns an array of constants, for use with vf_set1. In WebAssembly the array is hidden from the
 * compiler, so that constants are loaded from memory. Else they would become v128.const, for which
 * V8 emits four instructions at each use. */
ALWAYS_INLINE const float *vf_table(const float *constants) {
#ifdef __wasm__
    __asm__("" : "+r"(constants));
#endif
    return constants;
}

#endif
