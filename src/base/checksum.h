/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_BASE_CHECKSUM_H
#define WISP_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Returns a number by which to notice that bytes have changed. A change of up to 8 adjacent bytes
 * that starts at a multiple of 8 always changes it; other changes are missed once in 2^64 times. It
 * reads about 8 bytes a nanosecond and gives no protection against bytes that are chosen to have
 * equal checksums. Files of saved states have checksums (docs/formats.md), so it must not change.
 */
uint64_t checksum(const void *bytes, size_t length);

/* The words of the bytes go to the lanes in turn, so that the multiplications of different lanes do
 * not wait for one another. */
enum { CHECKSUM_LANES = 4, CHECKSUM_PART = CHECKSUM_LANES * sizeof(uint64_t) };

/* The same for bytes that come in parts, `length` in all. Each part but the last has a multiple of
 * CHECKSUM_PART bytes. */

struct checksum {
    uint64_t lanes[CHECKSUM_LANES];
};

struct checksum checksum_begin(size_t length);
void checksum_add(struct checksum *sum, const void *part, size_t length);
uint64_t checksum_end(const struct checksum *sum);

#endif
