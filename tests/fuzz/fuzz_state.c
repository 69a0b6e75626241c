/* SPDX-License-Identifier: Apache-2.0
 * Loads any bytes as the state of a session. The first byte says how: its lowest two bits are the
 * type of the cache, and with the next one the identity, the size and all checksums are made right,
 * so that contents are reached that no checksum protects. A session that was loaded generates. */
#include <stdbool.h>

#include "base/byte_order.h"
#include "base/checksum.h"
#include "engine/generation.h"
#include "engine/text_block.h"
#include "fuzz.h"

/* docs/formats.md describes the sections. */
enum {
    AT_SIZE = 16,
    AT_IDENTITY = 24,
    HEADER = 80,
    TEXT = 16,
    SUM = 8,
    LAYERS = 5,
    KV_HEADS = 4,
    HEAD_SIZE = 8
};

static const char block_magic[8] = {'W', 'I', 'S', 'P', 'T', 'E', 'X', 'T'};
static wisp_model *model;
static unsigned char own_header[HEADER]; /* of a state that this model saves */

static const wisp_cache_type cache_types[] = {
    [KV_F32] = WISP_CACHE_F32, [KV_F16] = WISP_CACHE_F16, [KV_INT8] = WISP_CACHE_INT8};

static wisp_session *open_session(wisp_cache_type type) {
    const wisp_session_options options = {.cache_type = type};
    wisp_session *session;
    if (!model && wisp_model_open("models/wisp-stories.gguf", NULL, &model, NULL) != WISP_OK)
        abort();
    if (wisp_session_open(model, &options, &session, NULL) != WISP_OK)
        abort();
    return session;
}

static void learn_header(void) {
    unsigned char bytes[HEADER + SUM + TEXT + SUM];
    size_t size;
    wisp_session *session = open_session(WISP_CACHE_F32);
    if (wisp_session_save_bytes(session, bytes, sizeof bytes, &size, NULL) != WISP_OK ||
        size != sizeof bytes)
        abort();
    memcpy(own_header, bytes, HEADER);
    wisp_session_close(session);
}

/* Makes the checksum of the section at *at right and goes to the next. Returns false past the end.
 */
static bool mend_section(unsigned char *bytes, size_t size, size_t *at, size_t length) {
    if (*at > size || size - *at < SUM || size - *at - SUM < length)
        return false;
    store_u64(bytes + *at + length, checksum(bytes + *at, length));
    *at += length + SUM;
    return true;
}

/* Makes the blocks of a text right: their headers, the names that follow from their ids, and their
 * checksums. Returns false past the end. */
static bool mend_blocks(unsigned char *bytes, size_t size, size_t *at, size_t tokens,
                        enum kv_type type) {
    static const size_t number[] = {[KV_F32] = 4, [KV_F16] = 2, [KV_INT8] = 1};
    const size_t scales = type == KV_INT8 ? 4 : 0;
    const size_t position = 2 * KV_HEADS * (HEAD_SIZE * number[type] + scales);
    struct text_name name;
    memcpy(&name, own_header + AT_IDENTITY, sizeof name);
    for (size_t first = 0, n; first < tokens; first += n) {
        int32_t ids[TEXT_BLOCK_TOKENS];
        n = tokens - first < TEXT_BLOCK_TOKENS ? tokens - first : TEXT_BLOCK_TOKENS;
        const size_t contents = n * (4 + LAYERS * position);
        unsigned char *header = bytes + *at;
        if (size - *at < TEXT_BLOCK_HEADER || size - *at - TEXT_BLOCK_HEADER < contents + SUM)
            return false;
        for (size_t i = 0; i < n; i++) {
            ids[i] = (int32_t)(load_u32(header + TEXT_BLOCK_HEADER + 4 * i) & 511);
            store_u32(header + TEXT_BLOCK_HEADER + 4 * i, (uint32_t)ids[i]);
        }
        name = text_name_after(&name, ids, n);
        memcpy(header, block_magic, sizeof block_magic);
        store_u32(header + 8, 1);
        store_u32(header + 12, (uint32_t)type);
        store_u64(header + 16, TEXT_BLOCK_HEADER + contents + SUM);
        memcpy(header + 24, &name, sizeof name);
        store_u32(header + 56, (uint32_t)first);
        store_u32(header + 60, (uint32_t)n);
        store_u32(header + 64, LAYERS);
        store_u32(header + 68, KV_HEADS);
        store_u32(header + 72, HEAD_SIZE);
        store_u32(header + 76, 0);
        if (!mend_section(bytes, size, at, TEXT_BLOCK_HEADER - SUM) ||
            !mend_section(bytes, size, at, contents))
            return false;
    }
    return true;
}

static void mend(unsigned char *bytes, size_t size, enum kv_type type) {
    size_t at = 0;
    if (size < HEADER)
        return;
    memcpy(bytes, own_header, AT_SIZE - 4);
    bytes[AT_SIZE - 4] = (unsigned char)type;
    store_u64(bytes + AT_SIZE, size);
    memcpy(bytes + AT_IDENTITY, own_header + AT_IDENTITY, HEADER - 8 - AT_IDENTITY);
    bool more = mend_section(bytes, size, &at, HEADER);
    while (more && size - at >= TEXT) {
        const uint64_t tokens = load_u64(bytes + at);
        more = tokens < size && mend_section(bytes, size, &at, TEXT) &&
               mend_blocks(bytes, size, &at, (size_t)tokens, type);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int32_t ids[] = {1, 403, 407};
    const wisp_generate_options options = {.max_tokens = 3};
    const wisp_request request = {.ids = ids, .n_ids = 3, .options = &options};
    wisp_error error;
    if (size == 0 || data[0] % 4 > KV_INT8)
        return 0;
    const enum kv_type type = (enum kv_type)(data[0] % 4);
    unsigned char *bytes = malloc(size); /* one more than is loaded, so that none is no NULL */
    if (!bytes)
        abort();
    memcpy(bytes, data + 1, size - 1);
    wisp_session *session = open_session(cache_types[type]);
    if (!own_header[0])
        learn_header();
    if (data[0] & 4)
        mend(bytes, size - 1, type);
    const wisp_status status = wisp_session_load_bytes(session, bytes, size - 1, &error);
    if (status != WISP_ERROR_ARGUMENT)
        fuzz_check(status, &error);
    if (status != WISP_OK && session->generation)
        abort();
    /* Keys and values of a loaded text may be so large that logits are not finite. */
    fuzz_check(wisp_generate_batch(session, &request, 1, 1, NULL, &error), &error);
    wisp_session_close(session);
    free(bytes);
    return 0;
}
