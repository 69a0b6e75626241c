/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/identity.h"

#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "base/checksum.h"
#include "layers/token_embedding.h"

void digest_number(struct sha256 *hash, uint64_t number) {
    unsigned char bytes[8];
    store_u64(bytes, number);
    sha256_add(hash, bytes, sizeof bytes);
}

void digest_text(struct sha256 *hash, const char *text, size_t length) {
    digest_number(hash, length);
    sha256_add(hash, text, length);
}

static void add_metadata(struct sha256 *hash, const struct metadata *entry) {
    char text[64];
    digest_text(hash, entry->key, strlen(entry->key));
    digest_number(hash, entry->type);
    if (entry->type == VALUE_STRING) {
        digest_text(hash, entry->as.text.bytes, entry->as.text.length);
        return;
    }
    if (entry->type != VALUE_ARRAY) {
        metadata_format(entry, text, sizeof text);
        digest_text(hash, text, strlen(text));
        return;
    }
    digest_number(hash, entry->element);
    digest_number(hash, entry->count);
    const size_t bytes = value_type_bytes(entry->element);
    for (uint64_t i = 0; i < entry->count; i++) {
        unsigned char number[8];
        if (entry->element == VALUE_STRING) {
            digest_text(hash, entry->as.texts[i].bytes, entry->as.texts[i].length);
        } else {
            memcpy(number, (const unsigned char *)entry->as.numbers + i * bytes, bytes);
            swap_file_numbers(number, 1, bytes);
            sha256_add(hash, number, bytes);
        }
    }
}

wisp_status identify_model(wisp_session *session, unsigned char *identity, wisp_error *error) {
    enum { EMBEDDINGS = 16 };
    const struct network *network = &session->model->network;
    const struct directory *dir = &session->model->dir;
    const size_t hidden_size = network->config.hidden_size;
    const size_t tokens = network->config.vocabulary_size;
    struct workspace *space = &session->workers[0].forward;
    struct sha256 hash;
    sha256_start(&hash);
    for (size_t i = 0; i < dir->n_metadata; i++)
        add_metadata(&hash, &dir->metadata[i]);
    for (size_t i = 0; i < dir->n_tensors; i++) {
        const struct tensor *tensor = &dir->tensors[i];
        digest_text(&hash, tensor->name, strlen(tensor->name));
        digest_text(&hash, tensor->format->name, strlen(tensor->format->name));
        for (uint32_t d = 0; d < TENSOR_MAX_DIMS; d++)
            digest_number(&hash, tensor->dims[d]);
    }
    const size_t row_bytes = (size_t)network->tokens.tensor->row_bytes;
    struct workspace measured = {0};
    workspace_take(&measured, 1, hidden_size, sizeof(float));
    workspace_take(&measured, 1, row_bytes, 1);
    TRY(workspace_reserve(space, measured.used, error));
    float *row = workspace_take(space, 1, hidden_size, sizeof *row);
    void *buffer = workspace_take(space, 1, row_bytes, 1);
    for (size_t i = 0; i < EMBEDDINGS; i++) {
        const int32_t id = (int32_t)(i * (tokens - 1) / (EMBEDDINGS - 1));
        TRY(token_embedding_row(&network->tokens, id, &session->workers[0].tokens, buffer, row,
                                error));
        swap_file_numbers(row, hidden_size, sizeof *row);
        sha256_add(&hash, row, hidden_size * sizeof *row);
    }
    sha256_finish(&hash, identity);
    return WISP_OK;
}

/* Returns whether all sources of a model can still be read. */
static bool can_be_read_again(const struct directory *dir) {
    for (uint32_t i = 0; i < dir->n_sources; i++)
        if (!dir->sources[i].data && !source_reads_again(&dir->sources[i]))
            return false;
    return dir->n_sources > 0 && !dir->residency.in_memory;
}

wisp_status digest_weights(const wisp_model *model, struct sha256 *hash, wisp_error *error) {
    enum { AT_ONCE = 1 << 20 };
    const struct directory *dir = &model->dir;
    if (!can_be_read_again(dir))
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, NULL,
                    "the file cannot be read again, which is needed to identify the model");
    unsigned char *buffer = malloc(AT_ONCE);
    wisp_status status = buffer ? WISP_OK : fail_memory(error, AT_ONCE);
    for (uint32_t i = 0; i < dir->n_sources && status == WISP_OK; i++) {
        const wisp_source *source = &dir->sources[i];
        digest_number(hash, source->size);
        for (uint64_t at = 0; at < source->size && status == WISP_OK; at += AT_ONCE) {
            const uint64_t left = source->size - at;
            const size_t n = left < AT_ONCE ? (size_t)left : AT_ONCE;
            const void *bytes = source->data ? (const unsigned char *)source->data + at : buffer;
            if (!source->data)
                status = source_read(source, NULL, at, buffer, n, error);
            if (status == WISP_OK)
                digest_number(hash, checksum(bytes, n));
        }
    }
    free(buffer);
    return status;
}
