/* SPDX-License-Identifier: Apache-2.0
 * Arithmetic on numbers that come from files. Each function returns false if the result does not
 * fit, and leaves *result unspecified then. */
#ifndef WISP_BASE_CHECKED_H
#define WISP_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *result) {
    return !__builtin_add_overflow(a, b, result);
}

static inline bool checked_multiply(uint64_t a, uint64_t b, uint64_t *result) {
    return !__builtin_mul_overflow(a, b, result);
}

/* Rounds `value` up to a multiple of `alignment`, which is a power of two. */
static inline bool checked_align(uint64_t value, uint64_t alignment, uint64_t *result) {
    if (!checked_add(value, alignment - 1, result))
        return false;
    *result &= ~(alignment - 1);
    return true;
}

/* Converts a 64-bit length to size_t, which has 32 bits in WebAssembly. */
static inline bool checked_size(uint64_t value, size_t *result) {
    *result = (size_t)value;
    return *result == value;
}

/* Returns the bytes of an array, or SIZE_MAX, which no allocation has, if they do not fit. */
static inline size_t array_bytes(size_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

/* Computes the bytes that a matrix of rows x row_length floats occupies. */
static inline bool checked_floats(uint64_t rows, uint64_t row_length, size_t *bytes) {
    uint64_t total;
    return checked_multiply(rows, row_length, &total) &&
           checked_multiply(total, sizeof(float), &total) && checked_size(total, bytes);
}

/* Rounds `value` up to a multiple of `multiple`. The caller has bounded both: the sum must fit. */
static inline size_t round_up(size_t value, size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

static inline size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

#endif
