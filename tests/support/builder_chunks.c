/* SPDX-License-Identifier: Apache-2.0
 * Gives a made file the digests of its chunks, by docs/formats.md. */
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "support/builder.h"

static void put_digests(struct bytes *table, const struct bytes *part, uint32_t chunk_bytes) {
    for (size_t at = 0; at < part->size; at += chunk_bytes) {
        const size_t left = part->size - at;
        struct sha256 hash;
        unsigned char digest[32];
        sha256_start(&hash);
        sha256_add(&hash, part->data + at, left < chunk_bytes ? left : chunk_bytes);
        sha256_finish(&hash, digest);
        bytes_put(table, digest, sizeof digest);
    }
}

void gguf_set_chunks(struct gguf *file, uint32_t chunk_bytes) {
    static const unsigned char zeros[32];
    struct bytes parts[2] = {{0}}, digests = {0}, array = {0};
    int part = 0;
    for (size_t i = 0; i < file->n_tensors; i++) {
        const struct gguf_tensor *tensor = &file->tensors[i];
        const size_t end = strlen(".ffn_neurons.cold");
        if (tensor->name.size > end &&
            memcmp(tensor->name.data + tensor->name.size - end, ".ffn_neurons.cold", end) == 0)
            part = 1;
        bytes_put(&parts[part], tensor->data.data, tensor->data.size);
        if (i + 1 < file->n_tensors)
            bytes_put(&parts[part], zeros, (32 - tensor->data.size % 32) % 32);
    }
    put_digests(&digests, &parts[0], chunk_bytes);
    put_digests(&digests, &parts[1], chunk_bytes);
    bytes_put_u32(&array, 0); /* u8 */
    bytes_put_u64(&array, digests.size);
    bytes_put(&array, digests.data, digests.size);
    gguf_set_u32(file, "wisp.chunks.bytes", chunk_bytes);
    gguf_set(file, "wisp.chunks.sha256", 9, array.data, array.size);
    for (int i = 0; i < 2; i++)
        bytes_release(&parts[i]);
    bytes_release(&digests);
    bytes_release(&array);
}
