/* SPDX-License-Identifier: Apache-2.0
 * Numbers in files have their low byte first. These functions read and write them on machines of
 * either order. Compilers make one instruction of each load and store. */
#ifndef WISP_BASE_BYTE_ORDER_H
#define WISP_BASE_BYTE_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "base/half.h"

/* Reads eight bytes, the lowest one first. */
static inline uint64_t load_u64(const unsigned char *bytes) {
    return load_u32(bytes) | (uint64_t)load_u32(bytes + 4) << 32;
}

/* Writes two bytes, the low one first. */
static inline void store_u16(unsigned char *bytes, uint16_t value) {
    bytes[0] = (unsigned char)(value & 0xff);
    bytes[1] = (unsigned char)(value >> 8);
}

/* Writes four bytes, the lowest one first. */
static inline void store_u32(unsigned char *bytes, uint32_t value) {
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
}

/* Writes eight bytes, the lowest one first. */
static inline void store_u64(unsigned char *bytes, uint64_t value) {
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
}

/* Changes `count` numbers of `size` bytes each, in place, from a file's order to the machine's or
 * back. Does nothing if the two are equal. */
static inline void swap_file_numbers(void *numbers, size_t count, size_t size) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    unsigned char *number = numbers;
    for (size_t i = 0; i < count; i++, number += size)
        for (size_t low = 0, high = size - 1; low < high; low++, high--) {
            const unsigned char byte = number[low];
            number[low] = number[high];
            number[high] = byte;
        }
#else
    (void)numbers, (void)count, (void)size;
#endif
}

#endif
