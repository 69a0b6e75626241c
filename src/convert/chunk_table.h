/* SPDX-License-Identifier: Apache-2.0
 * Computes the table of chunks (formats/chunks.h) while a file is written. */
#ifndef WISP_CONVERT_CHUNK_TABLE_H
#define WISP_CONVERT_CHUNK_TABLE_H

#include "base/sha256.h"
#include "formats/chunks.h"

struct chunk_table {
    struct chunks chunks;   /* counted from the end of the header */
    unsigned char *digests; /* [chunks.n, CHUNK_DIGEST_BYTES]: borrowed */
    struct sha256 hash;     /* of the chunk that is not whole yet */
    uint64_t at, chunk;     /* bytes and chunks so far */
};

/* Adds the next `length` bytes behind the header. */
void chunk_table_add(struct chunk_table *table, const void *bytes, size_t length);

#endif
