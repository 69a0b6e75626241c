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

#endif
