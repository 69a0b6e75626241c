/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/state.h"

#include <inttypes.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "base/checksum.h"
#include "engine/device_texts.h"
#include "engine/generation.h"
#include "engine/text_block.h"

/* The bytes are sections, each followed by its checksum, and the blocks of texts. The first section
 * is the header. */
static const char magic[8] = {'W', 'I', 'S', 'P', 'S', 'A', 'V', 'E'};

enum { VERSION = 2, CHECKSUM_BYTES = 8 };

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

/* ---- the header ----------------------------------------------------------------------------- */

/* Returns the bytes of one state of all short convolutions. */
static size_t conv_bytes(const struct conv_state *conv) {
    return conv->layers * conv->values * sizeof(float);
}

/* Returns how many states of short convolutions are apart from the blocks: those at the end of
 * the text and at its mark. */
static size_t apart_states(const struct conv_state *conv) {
    return smaller(conv_state_count(conv, 0), 2);
}

/* Returns the bytes of a text of n tokens. The text is of the same model. */
static uint64_t sequence_bytes(const struct sequence *sequence, uint64_t n) {
    const struct conv_state *conv = &sequence->conv;
    const uint64_t position = text_block_bytes(sequence, 0, 2) - text_block_bytes(sequence, 0, 1);
    const uint64_t block = text_block_bytes(sequence, 0, 1) - position;
    const uint64_t blocks = n / TEXT_BLOCK_TOKENS + (n % TEXT_BLOCK_TOKENS > 0);
    return TEXT_BYTES + CHECKSUM_BYTES + blocks * block + n * position +
           n / CONV_STATE_EVERY * conv_bytes(conv) +
           apart_states(conv) * (conv_bytes(conv) + CHECKSUM_BYTES);
}

/* Returns how a model computes values: the compute mode, and from bit 16 on a predictor that
 * leaves out neurons. */
static uint32_t computed_by(const wisp_model *model) {
    const bool is_whole =
        model->predictor == WISP_PREDICTOR_DENSE || model->predictor == WISP_PREDICTOR_EXACT;
    const uint32_t predictor = is_whole ? 0 : (uint32_t)model->predictor;
    return predictor << 16 | (uint32_t)model->compute;
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
    store_u32(header + AT_COMPUTE, computed_by(session->model));
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

/* Returns how many tokens of a sequence are saved. None are if only a short beginning of a long
 * text is left: whoever loads it could not tell that its keys are rotated by the angles of long
 * texts. */
static size_t saved_tokens(const wisp_session *session, const struct sequence *sequence) {
    const size_t n = sequence->cache.length;
    return generation_is_long(session, n) == sequence->cache.is_long ? n : 0;
}

/* Writes the first n tokens of a text: their number, blocks of them, whose first name is `name`,
 * and the states of its convolutions. `buffer` has room for the largest of these. */
static wisp_status write_sequence(const struct sequence *sequence, size_t n, struct text_name name,
                                  const struct byte_sink *sink, unsigned char *buffer,
                                  wisp_error *error) {
    const struct conv_state *conv = &sequence->conv;
    const int32_t *ids = sequence->past.ids;
    store_u64(buffer, n);
    store_u64(buffer + AT_MARK, conv->layers > 0 ? conv->mark : 0);
    TRY(write_section(sink, buffer, TEXT_BYTES, error));
    for (size_t first = 0, count; first < n; first += count) {
        count = smaller(TEXT_BLOCK_TOKENS, n - first);
        name = text_name_after(&name, ids + first, count);
        text_block_write(sequence, ids, first, count, &name, buffer);
        TRY(sink->write(sink->context, buffer, text_block_bytes(sequence, first, count), error));
    }
    for (size_t i = 0; i < apart_states(conv); i++) {
        const size_t size = conv_bytes(conv);
        memcpy(buffer, conv_state_at(conv, i), size);
        swap_file_numbers(buffer, size / sizeof(float), sizeof(float));
        TRY(write_section(sink, buffer, size, error));
    }
    return WISP_OK;
}

/* Returns the bytes of the largest block or section of a text. */
static size_t largest_part(const struct sequence *sequence) {
    return larger(TEXT_BYTES, text_block_bytes(sequence, CONV_STATE_EVERY - TEXT_BLOCK_TOKENS,
                                               TEXT_BLOCK_TOKENS));
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
    TRY(texts_need_host(session->model, "state", "saving them", error));
    TRY(generation_open(session, 1, error));
    const struct generation *g = session->generation;
    struct text_name name;
    TRY(make_header(session, header, error));
    memcpy(name.digest, header + AT_IDENTITY, sizeof name.digest);
    store_u64(header + AT_SIZE, state_bytes(session));
    store_u64(header + AT_SEQUENCES, g->count);
    struct workspace *space = &session->workers[0].forward;
    TRY(workspace_reserve(space, largest_part(&g->sequences[0]), error));
    TRY(write_section(sink, header, sizeof header, error));
    for (size_t i = 0; i < g->count; i++)
        TRY(write_sequence(&g->sequences[i], saved_tokens(session, &g->sequences[i]), name, sink,
                           space->base, error));
    return generation_check(session, error);
}

/* ---- reading -------------------------------------------------------------------------------- */

struct state_reader {
    wisp_session *session;
    const wisp_source *source;
    uint64_t at;           /* the first byte that was not read */
    struct text_name name; /* that the blocks of each text begin with */
};

/* Reads the next bytes. */
static wisp_status read_bytes(struct state_reader *r, const char *field, void *bytes, size_t length,
                              wisp_error *error) {
    if (r->source->size - r->at < length)
        return fail(error, WISP_ERROR_FORMAT, r->source->name, field, "the file is truncated");
    TRY(source_read(r->source, field, r->at, bytes, length, error));
    r->at += length;
    return WISP_OK;
}

/* Reads the next section to `bytes`, which has room for it. */
static wisp_status read_section(struct state_reader *r, const char *field, void *bytes,
                                size_t length, wisp_error *error) {
    unsigned char sum[CHECKSUM_BYTES];
    TRY(read_bytes(r, field, bytes, length, error));
    TRY(read_bytes(r, field, sum, sizeof sum, error));
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
        return fail(error, WISP_ERROR_FORMAT, file, NULL, "is not a saved state: it is too short");
    TRY(source_read(r->source, NULL, 0, header, sizeof header, error));
    if (memcmp(header, magic, sizeof magic) != 0)
        return fail(error, WISP_ERROR_FORMAT, file, NULL, "is not a saved state");
    if (load_u32(header + AT_VERSION) != VERSION)
        return fail(error, WISP_ERROR_UNSUPPORTED, file, "version", "%u, but this build reads %d",
                    load_u32(header + AT_VERSION), VERSION);
    TRY(read_section(r, "header", header, sizeof header, error));
    if (load_u64(header + AT_SIZE) != r->source->size)
        return fail(error, WISP_ERROR_FORMAT, file, "size",
                    "%" PRIu64 " bytes, but %" PRIu64 " were written: the file is damaged",
                    r->source->size, load_u64(header + AT_SIZE));
    if (memcmp(header + AT_IDENTITY, own + AT_IDENTITY, IDENTITY_BYTES) != 0 ||
        memcmp(header + AT_LAYERS, own + AT_LAYERS, AT_COMPUTE - AT_LAYERS) != 0)
        return fail(error, WISP_ERROR_ARGUMENT, file, "model",
                    "the state was saved with another model");
    const uint32_t compute = load_u32(own + AT_COMPUTE);
    const uint32_t others = load_u32(header + AT_COMPUTE) ^ compute;
    if (others & 0xFFFF)
        return fail(error, WISP_ERROR_ARGUMENT, file, "compute",
                    "the state was saved with another compute mode, and the model runs %s",
                    wisp_compute_name(compute & 0xFFFF));
    if (others)
        return fail(error, WISP_ERROR_ARGUMENT, file, "predictor",
                    "the state was saved with another predictor, and the model runs %s",
                    wisp_predictor_name((size_t)r->session->model->predictor));
    if (memcmp(header + AT_CACHE_TYPE, own + AT_CACHE_TYPE, 4) != 0)
        return fail(error, WISP_ERROR_ARGUMENT, file, "cache_type",
                    "the state was saved with another type, and the session's is %s",
                    wisp_cache_type_name(wisp_session_get_cache_type(r->session)));
    *sequences = load_u64(header + AT_SEQUENCES);
    memcpy(r->name.digest, header + AT_IDENTITY, sizeof r->name.digest);
    return WISP_OK;
}

/* Reads n tokens of a text, block by block. */
static wisp_status read_blocks(struct state_reader *r, struct sequence *sequence, size_t n,
                               unsigned char *buffer, wisp_error *error) {
    struct text_block_reader block = {.file = r->source->name,
                                      .vocabulary =
                                          r->session->model->network.config.vocabulary_size,
                                      .before = r->name};
    for (size_t count; block.first < n; block.first += count) {
        int32_t ids[TEXT_BLOCK_TOKENS];
        const size_t left = n - block.first;
        block.most_tokens = left;
        TRY(read_bytes(r, "block", buffer, TEXT_BLOCK_HEADER, error));
        TRY(text_block_read_header(sequence, &block, buffer, &count, error));
        if (count != smaller(TEXT_BLOCK_TOKENS, left))
            return fail(error, WISP_ERROR_FORMAT, r->source->name, "tokens",
                        "%zu of a block, but %zu of the text follow", count, left);
        TRY(read_bytes(r, "keys and values", buffer + TEXT_BLOCK_HEADER,
                       text_block_bytes(sequence, block.first, count) - TEXT_BLOCK_HEADER, error));
        TRY(text_block_read(sequence, &block, buffer, count, ids, error));
        for (size_t i = 0; i < count; i++)
            TRY(token_list_add(&sequence->past, ids[i], error));
    }
    return WISP_OK;
}

static wisp_status read_sequence(struct state_reader *r, struct sequence *sequence,
                                 wisp_error *error) {
    struct workspace *space = &r->session->workers[0].forward;
    const wisp_model *model = r->session->model;
    unsigned char text[TEXT_BYTES];
    TRY(read_section(r, "tokens", text, sizeof text, error));
    const uint64_t tokens = load_u64(text), mark = load_u64(text + AT_MARK);
    const uint64_t rest = r->source->size - r->at + sizeof text + CHECKSUM_BYTES;
    if (tokens > model->max_tokens || sequence_bytes(sequence, tokens) > rest)
        return fail(error, WISP_ERROR_FORMAT, r->source->name, "tokens",
                    "%" PRIu64 ", but there are %" PRIu64 " bytes, and the context has %u", tokens,
                    rest, model->max_tokens);
    const size_t n = (size_t)tokens;
    TRY(workspace_reserve(space, largest_part(sequence), error));
    TRY(sequence_reserve(r->session, sequence, n, error));
    TRY(read_blocks(r, sequence, n, space->base, error));
    struct conv_state *conv = &sequence->conv;
    for (size_t i = 0; i < apart_states(conv); i++) {
        float *values = conv_state_at(conv, i);
        const size_t count = conv->layers * conv->values;
        TRY(read_section(r, "convolutions", values, conv_bytes(conv), error));
        swap_file_numbers(values, count, sizeof *values);
        if (!all_finite(values, count))
            return fail(error, WISP_ERROR_FORMAT, r->source->name, "convolutions",
                        "a number of the state at the %s is not finite", i ? "mark" : "end");
    }
    conv->length = sequence->cache.length = n;
    sequence->cache.is_long = generation_is_long(r->session, n);
    conv->mark = mark <= n ? (size_t)mark : 0;
    return generation_check(r->session, error);
}

/* Fills the session's generation, which is new. */
static wisp_status read_all(struct state_reader *r, wisp_error *error) {
    uint64_t sequences;
    TRY(generation_open(r->session, 1, error));
    TRY(read_header(r, &sequences, error));
    const uint64_t least = sequence_bytes(&r->session->generation->sequences[0], 0);
    if (sequences < 1 || sequences > (r->source->size - r->at) / least)
        return fail(error, WISP_ERROR_FORMAT, r->source->name, "sequences",
                    "%" PRIu64 ", but there are %" PRIu64 " bytes", sequences,
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
    TRY(texts_need_host(session->model, "state", "loading them", error));
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
    TRY(texts_need_host(session->model, "state", "saving them", error));
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
