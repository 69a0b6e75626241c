/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/chunks.h"

#include <string.h>

#include "base/memory.h"
#include "base/sha256.h"
#include "formats/neurons_read.h"
#include "formats/schema.h"

void chunks_count(struct chunks *chunks) {
    const uint64_t hot = chunks->cold - chunks->start, cold = chunks->end - chunks->cold;
    chunks->n_hot = hot / chunks->bytes + (hot % chunks->bytes != 0);
    chunks->n = chunks->n_hot + cold / chunks->bytes + (cold % chunks->bytes != 0);
}

wisp_range chunk_range(const struct chunks *chunks, uint64_t i) {
    const bool hot = i < chunks->n_hot;
    const uint64_t first = hot ? chunks->start + i * chunks->bytes
                               : chunks->cold + (i - chunks->n_hot) * chunks->bytes;
    const uint64_t left = (hot ? chunks->cold : chunks->end) - first;
    return (wisp_range){first, left < chunks->bytes ? left : chunks->bytes};
}

uint64_t chunk_at(const struct chunks *chunks, uint64_t offset) {
    return offset < chunks->cold ? (offset - chunks->start) / chunks->bytes
                                 : chunks->n_hot + (offset - chunks->cold) / chunks->bytes;
}

wisp_range chunks_around(const struct chunks *chunks, wisp_range range) {
    const wisp_range first = chunk_range(chunks, chunk_at(chunks, range.offset));
    const wisp_range last = chunk_range(chunks, chunk_at(chunks, range.offset + range.length - 1));
    return (wisp_range){first.offset, last.offset + last.length - first.offset};
}

wisp_status chunks_read(const struct directory *dir, struct chunks *chunks, wisp_error *error) {
    const struct metadata *size = directory_find_metadata(dir, KEY_CHUNKS_BYTES);
    const struct metadata *table = directory_find_metadata(dir, KEY_CHUNKS_SHA256);
    const struct tensor *tensors = dir->stored ? dir->stored : dir->tensors;
    uint32_t bytes = 0;
    *chunks = (struct chunks){0};
    if (!size && !table)
        return WISP_OK;
    if (!size || !table)
        return fail(error, WISP_ERROR_FORMAT, dir->file,
                    size ? KEY_CHUNKS_SHA256 : KEY_CHUNKS_BYTES, "the key is missing");
    TRY(metadata_u32(dir, KEY_CHUNKS_BYTES, &bytes, error));
    if (bytes < MIN_CHUNK_BYTES || bytes > MAX_CHUNK_BYTES || (bytes & (bytes - 1)) != 0)
        return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_CHUNKS_BYTES,
                    "%u is not a power of two from %d to %d", bytes, MIN_CHUNK_BYTES,
                    MAX_CHUNK_BYTES);
    if (table->type != VALUE_ARRAY || table->element != VALUE_U8)
        return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_CHUNKS_SHA256,
                    "expected an array of u8");
    chunks->bytes = bytes;
    chunks->end = dir->sources[0].size;
    chunks->start =
        (dir->stored ? dir->n_stored : dir->n_tensors) > 0 ? tensors[0].offset : chunks->end;
    TRY(neurons_hot_bytes(dir, &chunks->cold, error));
    chunks_count(chunks);
    if (table->count != chunks->n * CHUNK_DIGEST_BYTES)
        return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_CHUNKS_SHA256,
                    "%llu bytes; expected %llu for %llu chunks", (unsigned long long)table->count,
                    (unsigned long long)(chunks->n * CHUNK_DIGEST_BYTES),
                    (unsigned long long)chunks->n);
    chunks->digests = table->as.numbers;
    return WISP_OK;
}

static wisp_status compare(const struct directory *dir, const struct chunks *chunks, uint64_t i,
                           struct sha256 *hash, wisp_error *error) {
    const wisp_range range = chunk_range(chunks, i);
    unsigned char digest[CHUNK_DIGEST_BYTES];
    sha256_finish(hash, digest);
    if (memcmp(digest, chunks->digests + i * CHUNK_DIGEST_BYTES, sizeof digest) == 0)
        return WISP_OK;
    return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_CHUNKS_SHA256,
                "bytes %llu to %llu of the file are not what its table says: the SHA-256 of chunk "
                "%llu differs",
                (unsigned long long)range.offset,
                (unsigned long long)(range.offset + range.length - 1), (unsigned long long)i);
}

wisp_status chunk_check(const struct directory *dir, const struct chunks *chunks, uint64_t i,
                        const void *bytes, wisp_error *error) {
    struct sha256 hash;
    sha256_start(&hash);
    sha256_add(&hash, bytes, (size_t)chunk_range(chunks, i).length);
    return compare(dir, chunks, i, &hash, error);
}

wisp_status chunks_hash_header(const struct directory *dir, const struct chunks *chunks,
                               unsigned char digest[CHUNK_DIGEST_BYTES], wisp_error *error) {
    struct sha256 hash;
    unsigned char buffer[4096];
    sha256_start(&hash);
    for (uint64_t at = 0; at < chunks->start; at += sizeof buffer) {
        const uint64_t left = chunks->start - at;
        const size_t here = left < sizeof buffer ? (size_t)left : sizeof buffer;
        TRY(source_read(&dir->sources[0], NULL, at, buffer, here, error));
        sha256_add(&hash, buffer, here);
    }
    sha256_finish(&hash, digest);
    return WISP_OK;
}

wisp_status chunks_verify(const struct directory *dir, const struct chunks *chunks, uint64_t first,
                          uint64_t end, wisp_error *error) {
    enum { READ_BYTES = 64 * 1024 };
    const wisp_source *source = &dir->sources[0];
    unsigned char *buffer = NULL;
    wisp_status status = WISP_OK;
    if (!chunks->digests)
        return WISP_OK;
    if (!source->data && !(buffer = memory_allocate(READ_BYTES)))
        return fail_memory(error, READ_BYTES);
    for (uint64_t i = first; i < end && status == WISP_OK; i++) {
        const wisp_range range = chunk_range(chunks, i);
        if (source->data) {
            status = chunk_check(dir, chunks, i, (const unsigned char *)source->data + range.offset,
                                 error);
            continue;
        }
        struct sha256 hash;
        sha256_start(&hash);
        for (uint64_t done = 0; done < range.length && status == WISP_OK; done += READ_BYTES) {
            const uint64_t left = range.length - done;
            const size_t here = left < READ_BYTES ? (size_t)left : READ_BYTES;
            status =
                source_read(source, KEY_CHUNKS_SHA256, range.offset + done, buffer, here, error);
            if (status == WISP_OK)
                sha256_add(&hash, buffer, here);
        }
        if (status == WISP_OK)
            status = compare(dir, chunks, i, &hash, error);
    }
    memory_free(buffer);
    return status;
}
