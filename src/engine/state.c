/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/state.h"

#include <inttypes.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "base/checksum.h"
#include "base/sha256.h"
#include "engine/generation.h"
#include "layers/token_embedding.h"

/* The bytes are sections, each followed by its checksum. The first is the header. */
static const char magic[8] = {'W', 'I', 'S', 'P', 'S', 'A', 'V', 'E'};

enum { VERSION = 1, IDENTITY_BYTES = 32, CHECKSUM_BYTES = 8, ID_BYTES = 4 };

/* The first section of a text: the number of its tokens, and the mark of its convolutions. */
enum { TEXT_BYTES = 16, AT_MARK = 8 };

/* Where the fields of the header begin. */
enum {
    AT_VERSION = 8,
    AT_CACHE_TYPE = 12,
    AT_SIZE = 16, /* of all bytes */
    AT_IDENTITY = 24,
    AT_LAYERS = AT_IDENTITY + IDENTITY_BYTES,
    AT_KV_HEADS = AT_LAYERS + 4,
    AT_HEAD_SIZE = AT_KV_HEADS + 4,
    AT_COMPUTE = AT_HEAD_SIZE + 4,
    AT_SEQUENCES = AT_COMPUTE + 4,
    HEADER_BYTES = AT_SEQUENCES + 8
};

/* ---- the model's identity ------------------------------------------------------------------- */

static void add_number(struct sha256 *hash, uint64_t number) {
    unsigned char bytes[8];
    store_u64(bytes, number);
    sha256_add(hash, bytes, sizeof bytes);
}

static void add_text(struct sha256 *hash, const char *text, size_t length) {
    add_number(hash, length);
    sha256_add(hash, text, length);
}

static void add_metadata(struct sha256 *hash, const struct metadata *entry) {
    char text[64];
    add_text(hash, entry->key, strlen(entry->key));
    add_number(hash, entry->type);
    if (entry->type == VALUE_STRING) {
        add_text(hash, entry->as.text.bytes, entry->as.text.length);
        return;
    }
    if (entry->type != VALUE_ARRAY) {
        metadata_format(entry, text, sizeof text);
        add_text(hash, text, strlen(text));
        return;
    }
    add_number(hash, entry->element);
    add_number(hash, entry->count);
    const size_t bytes = value_type_bytes(entry->element);
    for (uint64_t i = 0; i < entry->count; i++) {
        unsigned char number[8];
        if (entry->element == VALUE_STRING) {
            add_text(hash, entry->as.texts[i].bytes, entry->as.texts[i].length);
        } else {
            memcpy(number, (const unsigned char *)entry->as.numbers + i * bytes, bytes);
            swap_file_numbers(number, 1, bytes);
            sha256_add(hash, number, bytes);
        }
    }
}

/* Identifies a model by its metadata, the names, types and shapes of its tensors, and the
 * embeddings of some tokens, by which models differ that were trained from one. */
static wisp_status identify_model(wisp_session *session, unsigned char *identity,
                                  wisp_error *error) {
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
        add_text(&hash, tensor->name, strlen(tensor->name));
        add_text(&hash, tensor->format->name, strlen(tensor->format->name));
        for (uint32_t d = 0; d < TENSOR_MAX_DIMS; d++)
            add_number(&hash, tensor->dims[d]);
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

/* ---- the header ----------------------------------------------------------------------------- */

/* Returns the bytes of one state of all short convolutions. */
static size_t conv_bytes(const struct conv_state *conv) {
    return conv->layers * conv->values * sizeof(float);
}

/* Returns the bytes of the sections of a text of n tokens. The text is of the same model. */
static uint64_t sequence_bytes(const struct sequence *sequence, uint64_t n) {
    const struct kv_shape *shape = &sequence->cache.shape;
    const struct conv_state *conv = &sequence->conv;
    const uint64_t pages = n / KV_PAGE + (n % KV_PAGE > 0);
    const uint64_t states = conv_state_count(conv, (size_t)n);
    return TEXT_BYTES + CHECKSUM_BYTES + n * ID_BYTES + CHECKSUM_BYTES +
           shape->layers * (n * kv_position_bytes(shape) + pages * CHECKSUM_BYTES) +
           states * (conv_bytes(conv) + CHECKSUM_BYTES);
}

/* Makes the header of the session's state, as far as it does not depend on its texts. */
static wisp_status make_header(wisp_session *session, unsigned char *header, wisp_error *error) {
    const struct kv_shape *shape = &session->generation->sequences[0].cache.shape;
    memset(header, 0, HEADER_BYTES);
    memcpy(header, magic, sizeof magic);
    store_u32(header + AT_VERSION, VERSION);
    store_u32(header + AT_CACHE_TYPE, (uint32_t)shape->type);
    store_u32(header + AT_LAYERS, (uint32_t)shape->layers);
    store_u32(header + AT_KV_HEADS, (uint32_t)shape->kv_heads);
    store_u32(header + AT_HEAD_SIZE, (uint32_t)shape->head_size);
    store_u32(header + AT_COMPUTE, session->model->int8 ? WISP_COMPUTE_INT8 : WISP_COMPUTE_F32);
    return identify_model(session, header + AT_IDENTITY, error);
}

/* ---- writing -------------------------------------------------------------------------------- */

static wisp_status write_section(const struct byte_sink *sink, const void *bytes, size_t length,
                                 wisp_error *error) {
    unsigned char sum[CHECKSUM_BYTES];
    store_u64(sum, checksum(bytes, length));
    TRY(sink->write(sink->context, bytes, length, error));
    return sink->write(sink->context, sum, sizeof sum, error);
}

/* Returns how many tokens of a sequence are saved. None are where only a short beginning of a long
 * text is left: whoever loads it could not tell that its keys are rotated by the angles of long
 * texts. */
static size_t saved_tokens(const wisp_session *session, const struct sequence *sequence) {
    const size_t n = sequence->cache.length;
    return generation_is_long(session, n) == sequence->cache.is_long ? n : 0;
}

/* Writes the first n tokens of a text: their number, the tokens, for each layer and page the
 * positions, and the states of its convolutions. `buffer` has room for the largest of these
 * sections. */
static wisp_status write_sequence(const struct sequence *sequence, size_t n,
                                  const struct byte_sink *sink, unsigned char *buffer,
                                  wisp_error *error) {
    const struct kv_cache *cache = &sequence->cache;
    const size_t bytes = kv_position_bytes(&cache->shape);
    store_u64(buffer, n);
    store_u64(buffer + AT_MARK, sequence->conv.layers > 0 ? sequence->conv.mark : 0);
    TRY(write_section(sink, buffer, TEXT_BYTES, error));
    for (size_t i = 0; i < n; i++)
        store_u32(buffer + i * ID_BYTES, (uint32_t)sequence->past.ids[i]);
    TRY(write_section(sink, buffer, n * ID_BYTES, error));
    for (size_t layer = 0; layer < cache->shape.layers; layer++)
        for (size_t at = 0; at < n; at += KV_PAGE) {
            const size_t count = smaller(KV_PAGE, n - at);
            for (size_t i = 0; i < count; i++)
                kv_cache_export(cache, layer, at + i, buffer + i * bytes);
            TRY(write_section(sink, buffer, count * bytes, error));
        }
    for (size_t i = 0; i < conv_state_count(&sequence->conv, n); i++) {
        const size_t size = conv_bytes(&sequence->conv);
        memcpy(buffer, conv_state_at(&sequence->conv, i), size);
        swap_file_numbers(buffer, size / sizeof(float), sizeof(float));
        TRY(write_section(sink, buffer, size, error));
    }
    return WISP_OK;
}

/* Returns the bytes of the largest section of a text of n tokens. */
static size_t largest_section(const struct sequence *sequence, size_t n) {
    const size_t page = smaller(n, KV_PAGE) * kv_position_bytes(&sequence->cache.shape);
    return larger(larger(TEXT_BYTES, n * ID_BYTES), larger(page, conv_bytes(&sequence->conv)));
}

/* Returns the bytes of the state of all texts. */
static uint64_t state_bytes(const wisp_session *session) {
    const struct generation *g = session->generation;
    uint64_t size = HEADER_BYTES + CHECKSUM_BYTES;
    for (size_t i = 0; i < g->count; i++)
        size += sequence_bytes(&g->sequences[i], saved_tokens(session, &g->sequences[i]));
    return size;
}

wisp_status state_write(wisp_session *session, const struct byte_sink *sink, wisp_error *error) {
    unsigned char header[HEADER_BYTES];
    TRY(generation_open(session, 1, error));
    const struct generation *g = session->generation;
    size_t largest = 0;
    for (size_t i = 0; i < g->count; i++) {
        const struct sequence *sequence = &g->sequences[i];
        largest = larger(largest, largest_section(sequence, saved_tokens(session, sequence)));
    }
    TRY(make_header(session, header, error));
    store_u64(header + AT_SIZE, state_bytes(session));
    store_u64(header + AT_SEQUENCES, g->count);
    struct workspace *space = &session->workers[0].forward;
    TRY(workspace_reserve(space, largest, error));
    TRY(write_section(sink, header, sizeof header, error));
    for (size_t i = 0; i < g->count; i++)
        TRY(write_sequence(&g->sequences[i], saved_tokens(session, &g->sequences[i]), sink,
                           space->base, error));
    return WISP_OK;
}

/* ---- reading -------------------------------------------------------------------------------- */

struct state_reader {
    wisp_session *session;
    const wisp_source *source;
    uint64_t at; /* the first byte that was not read */
};

/* Reads the next section to `bytes`, which has room for it. */
static wisp_status read_section(struct state_reader *r, const char *field, void *bytes,
                                size_t length, wisp_error *error) {
    unsigned char sum[CHECKSUM_BYTES];
    if (r->source->size - r->at < (uint64_t)length + sizeof sum)
        return fail(error, WISP_ERROR_FORMAT, r->source->name, field, "the file is truncated");
    TRY(source_read(r->source, field, r->at, bytes, length, error));
    TRY(source_read(r->source, field, r->at + length, sum, sizeof sum, error));
    r->at += length + sizeof sum;
    if (load_u64(sum) != checksum(bytes, length))
        return fail(error, WISP_ERROR_FORMAT, r->source->name, field,
                    "the checksum is wrong: the file is damaged");
    return WISP_OK;
}

/* Reads the header and compares it with the session's. Sets *sequences. */
static wisp_status read_header(struct state_reader *r, uint64_t *sequences, wisp_error *error) {
    const char *file = r->source->name;
    unsigned char own[HEADER_BYTES], header[HEADER_BYTES];
    TRY(make_header(r->session, own, error));
    if (r->source->size < sizeof header + CHECKSUM_BYTES)
        return fail(error, WISP_ERROR_FORMAT, file, NULL, "is no saved state: it is too short");
    TRY(source_read(r->source, NULL, 0, header, sizeof header, error));
    if (memcmp(header, magic, sizeof magic) != 0)
        return fail(error, WISP_ERROR_FORMAT, file, NULL, "is no saved state");
    if (load_u32(header + AT_VERSION) != VERSION)
        return fail(error, WISP_ERROR_UNSUPPORTED, file, "version", "%u, and this build reads %d",
                    load_u32(header + AT_VERSION), VERSION);
    TRY(read_section(r, "header", header, sizeof header, error));
    if (load_u64(header + AT_SIZE) != r->source->size)
        return fail(error, WISP_ERROR_FORMAT, file, "size",
                    "%" PRIu64 " bytes, where %" PRIu64 " were written: the file is damaged",
                    r->source->size, load_u64(header + AT_SIZE));
    if (memcmp(header + AT_IDENTITY, own + AT_IDENTITY, IDENTITY_BYTES) != 0 ||
        memcmp(header + AT_LAYERS, own + AT_LAYERS, AT_COMPUTE - AT_LAYERS) != 0)
        return fail(error, WISP_ERROR_ARGUMENT, file, "model",
                    "the state was saved with another model");
    if (memcmp(header + AT_COMPUTE, own + AT_COMPUTE, 4) != 0)
        return fail(error, WISP_ERROR_ARGUMENT, file, "compute",
                    "the state was saved with another compute mode, and the model runs %s",
                    wisp_compute_name(load_u32(own + AT_COMPUTE)));
    if (memcmp(header + AT_CACHE_TYPE, own + AT_CACHE_TYPE, 4) != 0)
        return fail(error, WISP_ERROR_ARGUMENT, file, "cache_type",
                    "the state was saved with another type, and the session's is %s",
                    wisp_cache_type_name(load_u32(own + AT_CACHE_TYPE)));
    *sequences = load_u64(header + AT_SEQUENCES);
    return WISP_OK;
}

static wisp_status read_sequence(struct state_reader *r, struct sequence *sequence,
                                 wisp_error *error) {
    struct workspace *space = &r->session->workers[0].forward;
    const struct kv_cache *cache = &sequence->cache;
    const size_t position = kv_position_bytes(&cache->shape);
    const wisp_model *model = r->session->model;
    unsigned char text[TEXT_BYTES];
    TRY(read_section(r, "tokens", text, sizeof text, error));
    const uint64_t tokens = load_u64(text), mark = load_u64(text + AT_MARK);
    const uint64_t rest = r->source->size - r->at + sizeof text + CHECKSUM_BYTES;
    if (tokens > model->max_tokens || sequence_bytes(sequence, tokens) > rest)
        return fail(error, WISP_ERROR_FORMAT, r->source->name, "tokens",
                    "%" PRIu64 ", where there are %" PRIu64 " bytes, and the context has %u",
                    tokens, rest, model->max_tokens);
    const size_t n = (size_t)tokens;
    TRY(workspace_reserve(space, largest_section(sequence, n), error));
    unsigned char *buffer = space->base;
    TRY(sequence_reserve(r->session, sequence, n, error));
    TRY(read_section(r, "ids", buffer, n * ID_BYTES, error));
    for (size_t i = 0; i < n; i++) {
        const uint32_t id = load_u32(buffer + i * ID_BYTES);
        if (id >= model->network.config.vocabulary_size)
            return fail(error, WISP_ERROR_FORMAT, r->source->name, "ids",
                        "id %u, where there are %u tokens", id,
                        model->network.config.vocabulary_size);
        TRY(token_list_add(&sequence->past, (int32_t)id, error));
    }
    for (size_t layer = 0; layer < cache->shape.layers; layer++)
        for (size_t at = 0; at < n; at += KV_PAGE) {
            const size_t some = smaller(KV_PAGE, n - at);
            TRY(read_section(r, "keys and values", buffer, some * position, error));
            for (size_t i = 0; i < some; i++)
                if (!kv_cache_import(cache, layer, at + i, buffer + i * position))
                    return fail(error, WISP_ERROR_FORMAT, r->source->name, "keys and values",
                                "a number of position %zu is not finite", at + i);
        }
    struct conv_state *conv = &sequence->conv;
    for (size_t i = 0; i < conv_state_count(conv, n); i++) {
        float *values = conv_state_at(conv, i);
        const size_t count = conv->layers * conv->values;
        TRY(read_section(r, "convolutions", values, conv_bytes(conv), error));
        swap_file_numbers(values, count, sizeof *values);
        if (!all_finite(values, count))
            return fail(error, WISP_ERROR_FORMAT, r->source->name, "convolutions",
                        "a number of state %zu is not finite", i);
    }
    conv->length = sequence->cache.length = n;
    sequence->cache.is_long = generation_is_long(r->session, n);
    conv->mark = mark <= n ? (size_t)mark : 0;
    return WISP_OK;
}

/* Fills the session's generation, which is new. */
static wisp_status read_all(struct state_reader *r, wisp_error *error) {
    uint64_t sequences;
    TRY(generation_open(r->session, 1, error));
    TRY(read_header(r, &sequences, error));
    const uint64_t least = sequence_bytes(&r->session->generation->sequences[0], 0);
    if (sequences < 1 || sequences > (r->source->size - r->at) / least)
        return fail(error, WISP_ERROR_FORMAT, r->source->name, "sequences",
                    "%" PRIu64 ", where there are %" PRIu64 " bytes", sequences,
                    r->source->size - r->at);
    TRY(generation_open(r->session, (size_t)sequences, error));
    for (size_t i = 0; i < sequences; i++)
        TRY(read_sequence(r, &r->session->generation->sequences[i], error));
    if (r->at != r->source->size)
        return fail(error, WISP_ERROR_FORMAT, r->source->name, NULL,
                    "%" PRIu64 " bytes follow the last text", r->source->size - r->at);
    return WISP_OK;
}

wisp_status state_read(wisp_session *session, const wisp_source *source, wisp_error *error) {
    struct state_reader reader = {.session = session, .source = source};
    struct generation *before = session->generation;
    session->generation = NULL;
    const wisp_status status = read_all(&reader, error);
    if (status == WISP_OK) {
        generation_close(before);
    } else {
        generation_close(session->generation);
        session->generation = before;
    }
    return status;
}

/* ---- bytes in memory ------------------------------------------------------------------------ */

wisp_status wisp_session_save_bytes(wisp_session *session, void *bytes, size_t capacity,
                                    size_t *size, wisp_error *error) {
    TRY(require(session, "session", error));
    TRY(require(size, "size", error));
    if (capacity > 0)
        TRY(require(bytes, "bytes", error));
    unsigned char *to = bytes;
    const struct byte_sink sink = {write_to_memory, &to};
    TRY(generation_open(session, 1, error));
    if (!checked_size(state_bytes(session), size))
        return fail_memory(error, UINT64_MAX);
    return *size <= capacity ? state_write(session, &sink, error) : WISP_OK;
}

wisp_status wisp_session_load_bytes(wisp_session *session, const void *bytes, size_t size,
                                    wisp_error *error) {
    TRY(require(session, "session", error));
    TRY(require(bytes, "bytes", error));
    const wisp_source source = {.size = size, .data = bytes, .name = "saved state"};
    return state_read(session, &source, error);
}
