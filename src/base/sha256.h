/* SPDX-License-Identifier: Apache-2.0
 * SHA-256. Source: FIPS 180-4. */
#ifndef WISP_BASE_SHA256_H
#define WISP_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes taken so far */
    unsigned char block[64];
};

void sha256_start(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *bytes, size_t length);
void sha256_finish(struct sha256 *hash, unsigned char digest[32]);

#endif
