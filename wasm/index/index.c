/* SPDX-License-Identifier: Apache-2.0
 * The part of js/index/vector-index.js that is WebAssembly: products of a query with vectors, and
 * checksums. JavaScript has the memory to itself from __heap_base on, and passes places in it. The
 * module is so small that it stands in js/index/index-kernels.js as text. */
#include <wasm_simd128.h>

#include "base/checksum.h"

enum { LANES_I16 = 8, LANES_F32 = 4 };

#define EXPORT(name) __attribute__((export_name(name)))

/* Computes sums[j] = sum over c < k of x[c] w[j, c] for j < n, exactly: the caller makes sure that
 * the sums stay below 2^31. The bytes behind k go on with zeros to a multiple of LANES_I16. */
EXPORT("dots_int8")
void index_dots_int8(const int16_t *x, const int8_t *w, size_t ldw, size_t n, size_t k,
                     int32_t *sums) {
    for (size_t j = 0; j < n; j++, w += ldw) {
        v128_t sum = wasm_i32x4_splat(0);
        for (size_t c = 0; c < k; c += LANES_I16)
            sum = wasm_i32x4_add(
                sum, wasm_i32x4_dot_i16x8(wasm_v128_load(x + c), wasm_i16x8_load8x8(w + c)));
        sums[j] = wasm_i32x4_extract_lane(sum, 0) + wasm_i32x4_extract_lane(sum, 1) +
                  wasm_i32x4_extract_lane(sum, 2) + wasm_i32x4_extract_lane(sum, 3);
    }
}

/* Does so for floats, behind which there are zeros to a multiple of LANES_F32. */
EXPORT("dots_f32")
void index_dots_f32(const float *x, const float *w, size_t ldw, size_t n, size_t k, float *sums) {
    for (size_t j = 0; j < n; j++, w += ldw) {
        v128_t even = wasm_f32x4_splat(0), odd = even;
        size_t c = 0;
        for (; c + LANES_F32 < k; c += 2 * LANES_F32) {
            const v128_t a = wasm_f32x4_mul(wasm_v128_load(x + c), wasm_v128_load(w + c));
            const v128_t b = wasm_f32x4_mul(wasm_v128_load(x + c + LANES_F32),
                                            wasm_v128_load(w + c + LANES_F32));
            even = wasm_f32x4_add(even, a);
            odd = wasm_f32x4_add(odd, b);
        }
        if (c < k)
            even =
                wasm_f32x4_add(even, wasm_f32x4_mul(wasm_v128_load(x + c), wasm_v128_load(w + c)));
        even = wasm_f32x4_add(even, odd);
        sums[j] = wasm_f32x4_extract_lane(even, 0) + wasm_f32x4_extract_lane(even, 1) +
                  wasm_f32x4_extract_lane(even, 2) + wasm_f32x4_extract_lane(even, 3);
    }
}

EXPORT("checksum_begin") void index_checksum_begin(struct checksum *sum, size_t length) {
    *sum = checksum_begin(length);
}

EXPORT("checksum_add")
void index_checksum_add(struct checksum *sum, const void *part, size_t length) {
    checksum_add(sum, part, length);
}

EXPORT("checksum_end") uint64_t index_checksum_end(const struct checksum *sum) {
    return checksum_end(sum);
}
