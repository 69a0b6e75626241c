/* SPDX-License-Identifier: Apache-2.0
 * Computes SHA-256 digests. Source: FIPS 180-4. */
#ifndef WISP_BASE_SHA256_H
#define WISP_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
    uint32_t state[8];
    uint64_t length;         /* the number of bytes added so far */
    unsigned char block[64]; /* the added bytes of the block that is not full yet */
};

/* A digest is computed by one call of sha256_start, any number of calls of sha256_add, and one of
 * sha256_finish. */
void sha256_start(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *bytes, size_t length);
void sha256_finish(struct sha256 *hash, unsigned char digest[32]);

/* Writes a digest in lower-case hexadecimal digits, with a 0 at the end. */
void sha256_text(const unsigned char digest[32], char text[65]);

#endif
