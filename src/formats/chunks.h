/* SPDX-License-Identifier: Apache-2.0
 * The SHA-256 of chunks of a file, by which bytes that arrive in parts are checked before they are
 * used. docs/formats.md specifies the keys; convert/chunk_table.h writes them.
 *
 * Two parts of a file are cut into chunks of equal length: the hot one, from the end of the header
 * to the first cold row, and the cold one, from there to the end. The last chunk of each may be
 * shorter, so no chunk has both hot and cold bytes. */
#ifndef WISP_FORMATS_CHUNKS_H
#define WISP_FORMATS_CHUNKS_H

#include "formats/directory.h"

enum { CHUNK_DIGEST_BYTES = 32, MIN_CHUNK_BYTES = 4096, MAX_CHUNK_BYTES = 1 << 20 };

struct chunks {
    const unsigned char *digests; /* [n, CHUNK_DIGEST_BYTES]; NULL: the file has none */
    uint64_t bytes;               /* of a chunk */
    uint64_t start;               /* of the hot part: the first byte after the header */
    uint64_t cold;                /* the first byte of the cold part */
    uint64_t end;                 /* of the file */
    uint64_t n_hot, n;            /* chunks of the hot part, and of both */
};

/* Sets n_hot and n from the other fields. */
void chunks_count(struct chunks *chunks);

/* Returns the bytes of the file that chunk i, which is below n, consists of. */
wisp_range chunk_range(const struct chunks *chunks, uint64_t i);

/* Returns the number of the chunk with the byte at `offset`, which is from start to end - 1. */
uint64_t chunk_at(const struct chunks *chunks, uint64_t offset);

/* Returns the whole chunks that a range of the cold part is in. */
wisp_range chunks_around(const struct chunks *chunks, wisp_range range);

/* Reads the table of a file; sets chunks->digests to NULL if the file has none. It lives as long
 * as the directory. Fails with WISP_ERROR_FORMAT if one of the keys is missing or malformed, or
 * the table has another number of chunks than the file. */
wisp_status chunks_read(const struct directory *dir, struct chunks *chunks, wisp_error *error);

/* Compares `bytes`, all of chunk i, with its digest. Fails with WISP_ERROR_FORMAT, and names chunk
 * and bytes, if they differ. */
wisp_status chunk_check(const struct directory *dir, const struct chunks *chunks, uint64_t i,
                        const void *bytes, wisp_error *error);

/* Computes the SHA-256 of the header of a file that has a table. */
wisp_status chunks_hash_header(const struct directory *dir, const struct chunks *chunks,
                               unsigned char digest[CHUNK_DIGEST_BYTES], wisp_error *error);

/* Reads chunks [first, end) from the file and checks them. Does nothing if there is no table. */
wisp_status chunks_verify(const struct directory *dir, const struct chunks *chunks, uint64_t first,
                          uint64_t end, wisp_error *error);

#endif
