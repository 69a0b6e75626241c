/* SPDX-License-Identifier: Apache-2.0
 * Vector operations of WebAssembly for the sparse kernels: a part of vector_wasm.h. */

ALWAYS_INLINE vi vi_load(const int32_t *p) {
    return wasm_v128_load(p);
}

ALWAYS_INLINE void vi_store(int32_t *p, vi x) {
    wasm_v128_store(p, x);
}

/* These interleave the bytes, or pairs of bytes, of the low or high halves of a and b. */

ALWAYS_INLINE vi zip_low_bytes(vi a, vi b) {
    return wasm_i8x16_shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

ALWAYS_INLINE vi zip_high_bytes(vi a, vi b) {
    return wasm_i8x16_shuffle(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

ALWAYS_INLINE vi zip_low_pairs(vi a, vi b) {
    return wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}

ALWAYS_INLINE vi zip_high_pairs(vi a, vi b) {
    return wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

#ifdef VECTOR_RELAXED

ALWAYS_INLINE vi vi_load_all_activations(const uint8_t *p) {
    return wasm_v128_load(p);
}

#endif

#ifdef VECTOR_RELAXED_DOT

#define VECTOR_SIGNED_COLUMNS 0

typedef vi vi_four;

ALWAYS_INLINE vi_four vi_load_four(const int8_t *p) {
    return wasm_v128_load32_splat(p);
}

ALWAYS_INLINE void vi_add_columns(vi *sums, const uint8_t *a, const uint8_t *b, const uint8_t *c,
                                  const uint8_t *d, vi_four four) {
    const vi row_a = wasm_v128_load(a), row_b = wasm_v128_load(b);
    const vi row_c = wasm_v128_load(c), row_d = wasm_v128_load(d);
    const vi ab = zip_low_bytes(row_a, row_b), cd = zip_low_bytes(row_c, row_d);
    const vi ef = zip_high_bytes(row_a, row_b), gh = zip_high_bytes(row_c, row_d);
    sums[0] = vi_dot(sums[0], zip_low_pairs(ab, cd), four);
    sums[1] = vi_dot(sums[1], zip_high_pairs(ab, cd), four);
    sums[2] = vi_dot(sums[2], zip_low_pairs(ef, gh), four);
    sums[3] = vi_dot(sums[3], zip_high_pairs(ef, gh), four);
}

#else

#define VECTOR_COLUMNS_IN_16_BITS
#define VECTOR_SIGNED_COLUMNS 1

#ifdef VECTOR_RELAXED

typedef uint8_t column_value;
typedef v128_t vi_two;

ALWAYS_INLINE vi_two vi_load_two(const column_value *values) {
    return wasm_v128_load16_splat(values);
}

ALWAYS_INLINE void vi16_columns(const uint8_t *a, const uint8_t *b, vi_two two, vi *products) {
    const vi row_a = wasm_v128_load(a), row_b = wasm_v128_load(b);
    products[0] = wasm_i16x8_relaxed_dot_i8x16_i7x16(zip_low_bytes(row_a, row_b), two);
    products[1] = wasm_i16x8_relaxed_dot_i8x16_i7x16(zip_high_bytes(row_a, row_b), two);
}

#else

typedef int16_t column_value;
typedef struct vi_two {
    v128_t first, last;
} vi_two;

ALWAYS_INLINE vi_two vi_load_two(const column_value *values) {
    return (vi_two){wasm_v128_load16_splat(values), wasm_v128_load16_splat(values + 1)};
}

ALWAYS_INLINE void vi16_columns(const uint8_t *a, const uint8_t *b, vi_two two, vi *products) {
    UNROLL
    for (int i = 0; i < 2; i++, a += 8, b += 8)
        products[i] = wasm_i16x8_add(wasm_i16x8_mul(wasm_i16x8_load8x8(a), two.first),
                                     wasm_i16x8_mul(wasm_i16x8_load8x8(b), two.last));
}

#endif

ALWAYS_INLINE vi vi16_sub(vi a, vi b) {
    return wasm_i16x8_sub(a, b);
}

ALWAYS_INLINE vi vi16_upper_bytes(vi x) {
    return wasm_i16x8_shr(x, 8);
}

ALWAYS_INLINE vi vi16_to_upper_bytes(vi x) {
    return wasm_i16x8_shl(x, 8);
}

ALWAYS_INLINE void vi16_join(vi low, vi high, vi *sums) {
    sums[0] = wasm_i32x4_add(wasm_u32x4_extend_low_u16x8(low),
                             wasm_i32x4_shl(wasm_i32x4_extend_low_i16x8(high), 8));
    sums[1] = wasm_i32x4_add(wasm_u32x4_extend_high_u16x8(low),
                             wasm_i32x4_shl(wasm_i32x4_extend_high_i16x8(high), 8));
}

#endif

/* Returns (a0 + a2, b0 + b2, a1 + a3, b1 + b3). */
ALWAYS_INLINE v128_t add_halves(v128_t a, v128_t b) {
    return wasm_i32x4_add(wasm_i32x4_shuffle(a, b, 0, 4, 1, 5),
                          wasm_i32x4_shuffle(a, b, 2, 6, 3, 7));
}

ALWAYS_INLINE void vi_store_sums(int32_t *p, const vi *sums) {
    const v128_t ab = add_halves(sums[0], sums[1]), cd = add_halves(sums[2], sums[3]);
    wasm_v128_store(p, wasm_i32x4_add(wasm_i32x4_shuffle(ab, cd, 0, 1, 4, 5),
                                      wasm_i32x4_shuffle(ab, cd, 2, 3, 6, 7)));
}

ALWAYS_INLINE vf vf_load_groups(const float *const *groups) {
    return wasm_v128_load(groups[0]);
}

ALWAYS_INLINE void vf_transpose4(vf *x) {
    const vf ab = wasm_i32x4_shuffle(x[0], x[1], 0, 4, 1, 5);
    const vf cd = wasm_i32x4_shuffle(x[2], x[3], 0, 4, 1, 5);
    const vf ef = wasm_i32x4_shuffle(x[0], x[1], 2, 6, 3, 7);
    const vf gh = wasm_i32x4_shuffle(x[2], x[3], 2, 6, 3, 7);
    x[0] = wasm_i32x4_shuffle(ab, cd, 0, 1, 4, 5);
    x[1] = wasm_i32x4_shuffle(ab, cd, 2, 3, 6, 7);
    x[2] = wasm_i32x4_shuffle(ef, gh, 0, 1, 4, 5);
    x[3] = wasm_i32x4_shuffle(ef, gh, 2, 3, 6, 7);
}

ALWAYS_INLINE unsigned vf_above(vf a, vf b) {
    return wasm_i32x4_bitmask(wasm_f32x4_gt(a, b));
}

ALWAYS_INLINE vi vi_narrow(vi a, vi b, vi c, vi d) {
    return wasm_i8x16_narrow_i16x8(wasm_i16x8_narrow_i32x4(a, b), wasm_i16x8_narrow_i32x4(c, d));
}

ALWAYS_INLINE uint64_t vi_nonzero_bytes(vi x) {
    return wasm_i8x16_bitmask(wasm_i8x16_ne(x, wasm_i8x16_splat(0)));
}
