/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/chunk_table.h"

void chunk_table_add(struct chunk_table *table, const void *bytes, size_t length) {
    const unsigned char *from = bytes;
    while (length > 0) {
        const wisp_range chunk = chunk_range(&table->chunks, table->chunk);
        const uint64_t room = chunk.offset + chunk.length - table->at;
        const size_t step = length < room ? length : (size_t)room;
        if (table->at == chunk.offset)
            sha256_start(&table->hash);
        sha256_add(&table->hash, from, step);
        table->at += step;
        from += step;
        length -= step;
        if (step == room)
            sha256_finish(&table->hash, table->digests + table->chunk++ * CHUNK_DIGEST_BYTES);
    }
}
