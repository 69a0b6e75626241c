/* SPDX-License-Identifier: Apache-2.0
 * GGUF files with faults at every place in turn: cut at every byte, every bit of the header
 * flipped, every key with every wrong type, every tensor missing or different, and counts so large
 * that anything but one pass over them would be noticed. opening.h has the numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#undef fail /* base/status.h has another */

#include "formats/directory.h"
#include "support/allocations.h"
#include "support/opening.h"

static void make_bytes(struct bytes *out, const struct tiny_shape *shape) {
    struct gguf file;
    gguf_make(&file, shape);
    gguf_write_bytes(&file, out);
    gguf_release(&file);
}

/* Returns the start of the tensor data, which follows the header. */
static size_t header_size(const struct tiny_shape *shape) {
    struct gguf file;
    struct bytes out = {0};
    gguf_make(&file, shape);
    for (size_t i = 0; i < file.n_tensors; i++)
        file.tensors[i].data.size = 0;
    gguf_write_bytes(&file, &out);
    const size_t size = out.size;
    bytes_release(&out);
    gguf_release(&file);
    return size;
}

static void allocations_are_counted(void **state) {
    (void)state;
    assert_true(allocations_are_watched());
}

/* ---- 1: cut at every byte ------------------------------------------------------------------- */

static void cut_at_every_byte(void **state) {
    struct bytes file = {0};
    (void)state;
    make_bytes(&file, &tiny_shape);
    write_file("cut.gguf", file.data, file.size);
    const char *path = temporary_path("cut.gguf");
    for (size_t size = file.size; size-- > 0;) {
        const struct opening in_place = open_data(file.data, size);
        expect_outcome(&in_place, WISP_ERROR_FORMAT, NULL, NULL);
        const struct opening read = open_read(file.data, size);
        expect_outcome(&read, WISP_ERROR_FORMAT, in_place.error.field, NULL);
        assert_int_equal(truncate(path, (off_t)size), 0);
        const struct opening from_file = open_path(path, size);
        expect_outcome(&from_file, WISP_ERROR_FORMAT, in_place.error.field, NULL);
        assert_string_equal(from_file.error.file, path);
    }
    bytes_release(&file);
}

/* ---- flipped bits --------------------------------------------------------------------------- */

static void flip_every_header_bit(void **state) {
    const struct tiny_shape *shape = *state;
    struct bytes file = {0};
    make_bytes(&file, shape);
    const size_t size = header_size(shape);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        const unsigned char mask = (unsigned char)(1u << bit % 8);
        file.data[bit / 8] ^= mask;
        const struct opening opening =
            bit % 2 ? open_data(file.data, file.size) : open_read(file.data, file.size);
        expect_typed(&opening);
        file.data[bit / 8] ^= mask;
    }
    bytes_release(&file);
}

/* Changes several bytes at once, anywhere: weights become NaN, infinite and enormous. */
static void spoil_random_bytes(void **state) {
    enum { ROUNDS = 3000, AT_ONCE = 4 };
    const struct tiny_shape *shape = *state;
    struct bytes file = {0}, spoilt = {0};
    uint32_t random = 1;
    make_bytes(&file, shape);
    for (int round = 0; round < ROUNDS; round++) {
        spoilt.size = 0;
        bytes_put(&spoilt, file.data, file.size);
        for (int i = 0; i < AT_ONCE; i++) {
            random = random * 1664525 + 1013904223;
            spoilt.data[(random >> 8) % spoilt.size] = (unsigned char)(random >> (round % 3 * 8));
        }
        const struct opening opening = open_data(spoilt.data, spoilt.size);
        expect_typed(&opening);
    }
    bytes_release(&spoilt);
    bytes_release(&file);
}

/* ---- 29: every key of every wrong type ------------------------------------------------------ */

static bool is_integer(uint32_t type) {
    return type != VALUE_F32 && type != VALUE_F64 && type != VALUE_BOOL && type != VALUE_STRING &&
           type != VALUE_ARRAY;
}

/* Returns whether a reader of the key accepts a value of this type. */
static bool is_same_kind(const struct gguf_key *key, uint32_t type) {
    if (key->type == VALUE_F32)
        return type == VALUE_F32 || type == VALUE_F64;
    return key->type == type || (is_integer(key->type) && is_integer(type));
}

static bool has_name(const struct gguf_key *key, const char *name) {
    return key->name.size == strlen(name) && memcmp(key->name.data, name, key->name.size) == 0;
}

static void change_type(size_t index, uint32_t type) {
    static const unsigned char zeros[12]; /* also an empty string and an empty array of u8 */
    struct gguf file;
    struct bytes out = {0};
    char name[96];
    gguf_make(&file, &tiny_shape);
    struct gguf_key *key = &file.keys[index];
    snprintf(name, sizeof name, "%.*s", (int)key->name.size, (const char *)key->name.data);
    const bool same = is_same_kind(key, type);
    const bool shown_only = has_name(key, "general.name"),
               prompt = has_name(key, "wisp.prompt.query");
    gguf_set(&file, name, type, zeros,
             type == VALUE_ARRAY    ? 12
             : type == VALUE_STRING ? 8
                                    : value_type_bytes((enum value_type)type));
    gguf_write_bytes(&file, &out);
    const struct opening opening = open_data(out.data, out.size);
    expect_typed(&opening);
    if (!same && !shown_only && !prompt)
        expect_outcome(&opening, WISP_ERROR_FORMAT, name, NULL);
    if (!same && prompt)
        expect_outcome(&opening, WISP_ERROR_NOT_FOUND, "wisp.default_prompt_name", "query");
    bytes_release(&out);
    gguf_release(&file);
}

static void change_every_type(void **state) {
    struct gguf file;
    (void)state;
    gguf_make(&file, &tiny_shape);
    for (size_t i = 0; i < file.n_keys; i++)
        for (uint32_t type = VALUE_U8; type <= VALUE_F64; type++)
            change_type(i, type);
    gguf_release(&file);
}

/* ---- 34, 35: every tensor different --------------------------------------------------------- */

static void drop(struct gguf *file, const char *name) {
    gguf_drop_tensor(file, name);
}

static void lengthen_row(struct gguf *file, const char *name) {
    struct gguf_tensor *tensor = gguf_tensor(file, name);
    const size_t row = tensor->data.size / (size_t)tensor->dims[1];
    tensor->dims[0] *= 2;
    for (uint64_t i = 0; i < tensor->dims[1]; i++)
        bytes_put(&tensor->data, tensor->data.data, row);
    gguf_settle(file);
}

/* The token embedding may have more rows than the vocabulary has tokens. */
static void drop_row(struct gguf *file, const char *name) {
    struct gguf_tensor *tensor = gguf_tensor(file, name);
    if (tensor->dims[1] == 1) {
        lengthen_row(file, name);
        return;
    }
    tensor->data.size -= tensor->data.size / (size_t)tensor->dims[1];
    tensor->dims[1]--;
    gguf_settle(file);
}

static void add_dimension(struct gguf *file, const char *name) {
    struct gguf_tensor *tensor = gguf_tensor(file, name);
    tensor->n_dims = 4;
    tensor->dims[3] = tensor->dims[1];
    tensor->dims[1] = 1;
    tensor->dims[2] = 1;
    if (tensor->dims[3] == 1)
        lengthen_row(file, name);
}

/* Gives the tensor a known type that wisp does not read. */
static void set_unread_type(struct gguf *file, const char *name) {
    struct gguf_tensor *tensor = gguf_tensor(file, name);
    const struct block_format *format = block_format_by_name("I32");
    assert_true(tensor->type == BLOCK_F32 && !format->dequantise);
    tensor->type = format->id;
}

/* The positions that texts reach: wisp.max_seq_length of gguf_make(). Others are not read. */
enum { POSITIONS = 12 };

/* Changes the last value that is read, because the end of a vector might be checked less. */
static void set_last(struct gguf *file, const char *name, uint32_t bits) {
    struct gguf_tensor *tensor = gguf_tensor(file, name);
    const bool has_positions = strcmp(name, "position_embd.weight") == 0;
    const size_t end = has_positions ? POSITIONS * tensor->dims[0] * 4 : tensor->data.size;
    bytes_set_u32(&tensor->data, end - 4, bits);
}

static void set_nan(struct gguf *file, const char *name) {
    set_last(file, name, 0x7FC00001);
}

static void set_infinite(struct gguf *file, const char *name) {
    set_last(file, name, 0xFF800000);
}

struct change {
    void (*alter)(struct gguf *file, const char *name);
    wisp_status status;
};

static void change_tensor(void *context, const char *name, uint64_t dim0, uint64_t dim1) {
    const struct change *change = context;
    struct gguf file;
    struct bytes out = {0};
    (void)dim0;
    (void)dim1;
    gguf_make(&file, &tiny_shape);
    change->alter(&file, name);
    gguf_write_bytes(&file, &out);
    const bool any_rows = strcmp(name, "token_types.weight") == 0 && change->alter == drop_row;
    /* A model whose texts have one type may lack it, and the header of this one does not say more.
     */
    const bool one_type = strcmp(name, "token_types.weight") == 0 && change->alter == drop;
    const bool last_token = strcmp(name, "token_embd.weight") == 0 &&
                            (change->alter == set_nan || change->alter == set_infinite);
    if (!any_rows && !one_type && !last_token)
        expect_opening(&out, change->status, name, NULL);
    bytes_release(&out);
    gguf_release(&file);
}

static void change_every_tensor(void **state) {
    tiny_each_tensor(&tiny_shape, change_tensor, *state);
}

static const struct change changes[] = {
    {drop, WISP_ERROR_NOT_FOUND},
    {lengthen_row, WISP_ERROR_FORMAT},
    {drop_row, WISP_ERROR_FORMAT},
    {add_dimension, WISP_ERROR_FORMAT},
    {set_unread_type, WISP_ERROR_UNSUPPORTED},
    {set_nan, WISP_ERROR_FORMAT},
    {set_infinite, WISP_ERROR_FORMAT},
};

/* Token embeddings are read when a text needs them, so the error comes with the text. */
static void spoil_a_token(void **state) {
    const uint32_t *bits = *state;
    struct gguf file;
    struct bytes out = {0};
    gguf_make(&file, &tiny_shape);
    bytes_set_u32(&gguf_tensor(&file, "token_embd.weight")->data, 2 * 8 * 4, *bits); /* [CLS] */
    gguf_write_bytes(&file, &out);
    expect_opening(&out, WISP_ERROR_FORMAT, NULL, "finite");
    bytes_release(&out);
    gguf_release(&file);
}

static const uint32_t nan_bits = 0x7FC00000, infinity_bits = 0x7F800000;

/* Q8_0 blocks whose scale is not finite. */
static void spoil_a_scale(void **state) {
    (void)state;
    for (unsigned char high = 0x7C; high <= 0x7E; high += 2) {
        struct gguf file;
        struct bytes out = {0};
        gguf_make(&file, &tiny_shape_q8_0);
        gguf_tensor(&file, "blk.1.ffn_down.weight")->data.data[1] = high;
        gguf_write_bytes(&file, &out);
        expect_opening(&out, WISP_ERROR_FORMAT, "blk.1.ffn_down.weight", "finite");
        bytes_release(&out);
        gguf_release(&file);
    }
}

/* A first block of bytes 0xff, in which scales are NaN. MXFP4 gets codes of 0.5, which every other
 * exponent leaves finite. */
static void spoil_a_block(void **state) {
    (void)state;
    for (uint32_t type = 0; type < 256; type++) {
        const struct block_format *format = block_format_by_id(type);
        struct tiny_shape shape = tiny_shape_q8_0;
        struct gguf file;
        struct bytes out = {0};
        if (!format || !format->dequantise)
            continue;
        shape.type = type;
        shape.hidden = shape.wide = 256;
        gguf_make(&file, &shape);
        unsigned char *block = gguf_tensor(&file, "blk.1.ffn_down.weight")->data.data;
        memset(block, 0xff, format->bytes);
        if (type == BLOCK_MXFP4)
            memset(block + 1, 0x11, 16);
        gguf_write_bytes(&file, &out);
        expect_opening(&out, WISP_ERROR_FORMAT, "blk.1.ffn_down.weight", "finite");
        bytes_release(&out);
        gguf_release(&file);
    }
}

/* ---- every tensor type ---------------------------------------------------------------------- */

static void open_every_type(void **state) {
    (void)state;
    for (uint32_t type = 0; type < 256; type++) {
        const struct block_format *format = block_format_by_id(type);
        struct tiny_shape shape = tiny_shape_q8_0;
        struct bytes out = {0};
        if (!format ||
            type == BLOCK_I2_S) /* whose tensors have an end: tests/unit/test_low_bits.c */
            continue;
        shape.type = type;
        shape.hidden = shape.wide = 256;
        make_bytes(&out, &shape);
        expect_opening(&out, format->dequantise ? WISP_OK : WISP_ERROR_UNSUPPORTED, NULL, NULL);
        bytes_release(&out);
    }
}

/* ---- 28: ten megabytes of little things ----------------------------------------------------- */

enum { MANY_BYTES = 10 * 1000 * 1000 };

static void put_header(struct bytes *out, uint64_t tensors, uint64_t keys) {
    bytes_put(out, "GGUF", 4);
    bytes_put_u32(out, 3);
    bytes_put_u64(out, tensors);
    bytes_put_u64(out, keys);
}

static void put_name(struct bytes *out, uint32_t number) {
    char name[16];
    snprintf(name, sizeof name, "%06x", (unsigned)number);
    bytes_put_u64(out, 6);
    bytes_put(out, name, 6);
}

/* Keys of 6 characters with a value of one byte. */
static void many_keys(void **state) {
    const bool same = *state != NULL;
    const uint32_t count = MANY_BYTES / 19;
    struct bytes out = {0};
    put_header(&out, 0, count);
    for (uint32_t i = 0; i < count; i++) {
        put_name(&out, same ? 7 : i);
        bytes_put_u32(&out, VALUE_U8);
        bytes_put(&out, "", 1);
    }
    if (same)
        expect_opening(&out, WISP_ERROR_FORMAT, "000007", "twice");
    else
        expect_opening(&out, WISP_ERROR_NOT_FOUND, "general.architecture", "missing");
    bytes_release(&out);
}

/* Tensors of one byte each, aligned to 32. */
static void many_tensors(void **state) {
    const bool same = *state != NULL;
    const uint32_t count = MANY_BYTES / 38, i8 = block_format_by_name("I8")->id;
    static const unsigned char zeros[32];
    struct bytes out = {0};
    put_header(&out, count, 0);
    for (uint32_t i = 0; i < count; i++) {
        put_name(&out, same ? 7 : i);
        bytes_put_u32(&out, 1);
        bytes_put_u64(&out, 1);
        bytes_put_u32(&out, i8);
        bytes_put_u64(&out, (uint64_t)i * sizeof zeros);
    }
    for (uint32_t i = 0; i <= count; i++)
        bytes_put(&out, zeros, sizeof zeros);
    if (same)
        expect_opening(&out, WISP_ERROR_FORMAT, "000007", "two tensors");
    else
        expect_opening(&out, WISP_ERROR_NOT_FOUND, "general.architecture", "missing");
    bytes_release(&out);
}

/* Makes a vocabulary of `count` tokens and, if they are all the same, of added tokens too. */
static void many_tokens(void **state) {
    const bool same = *state != NULL;
    const uint32_t count = MANY_BYTES / 14;
    struct gguf file;
    struct bytes tokens = {0}, types = {0}, out = {0};
    gguf_make(&file, &tiny_shape);
    bytes_put_u32(&tokens, VALUE_STRING);
    bytes_put_u64(&tokens, count);
    bytes_put_u32(&types, VALUE_U8);
    bytes_put_u64(&types, count);
    for (uint32_t i = 0; i < count; i++) {
        put_name(&tokens, same ? 7 : i);
        bytes_put(&types, "\4", 1); /* user-defined: an added token */
    }
    gguf_set(&file, "tokenizer.ggml.tokens", VALUE_ARRAY, tokens.data, tokens.size);
    gguf_set(&file, "tokenizer.ggml.token_type", VALUE_ARRAY, types.data, types.size);
    gguf_drop_key(&file, "wisp.tokenizer.added_tokens");
    gguf_write_bytes(&file, &out);
    if (same)
        expect_opening(&out, WISP_ERROR_FORMAT, "tokenizer.ggml.tokens", "twice");
    else
        expect_opening(&out, WISP_ERROR_FORMAT, "token_embd.weight", "vocabulary");
    bytes_release(&tokens);
    bytes_release(&types);
    bytes_release(&out);
    gguf_release(&file);
}

/* ---- sources larger than memory ------------------------------------------------------------- */

/* A header that is followed by zeros. */
struct giant {
    struct bytes header;
    uint64_t size;
};

static int read_giant(void *context, uint64_t offset, void *buffer, size_t length) {
    const struct giant *giant = context;
    assert_true(offset <= giant->size && length <= giant->size - offset);
    const size_t written =
        offset < giant->header.size ? (size_t)(giant->header.size - offset) : (size_t)0;
    const size_t here = written < length ? written : length;
    if (here)
        memcpy(buffer, giant->header.data + offset, here);
    memset((unsigned char *)buffer + here, 0, length - here);
    return 0;
}

/* The model `shape` without its data, in a source of `size` bytes. */
static struct giant make_giant(const struct tiny_shape *shape, uint64_t size) {
    struct giant giant = {.size = size};
    struct gguf file;
    uint64_t offset = 0;
    gguf_make(&file, &tiny_shape);
    gguf_set_u32(&file, "bert.embedding_length", shape->hidden);
    gguf_set_u32(&file, "bert.feed_forward_length", shape->wide);
    gguf_set_u32(&file, "bert.context_length", shape->positions);
    gguf_set_u32(&file, "wisp.max_seq_length", shape->positions);
    for (size_t i = 0; i < file.n_tensors; i++) {
        struct gguf_tensor *tensor = &file.tensors[i];
        tensor->data.size = 0;
        tensor->offset = offset;
        for (uint32_t d = 0; d < tensor->n_dims; d++)
            tensor->dims[d] = tensor->dims[d] == tiny_shape.hidden      ? shape->hidden
                              : tensor->dims[d] == tiny_shape.wide      ? shape->wide
                              : tensor->dims[d] == tiny_shape.positions ? shape->positions
                                                                        : tensor->dims[d];
        offset += tensor->dims[0] * (tensor->n_dims > 1 ? tensor->dims[1] : 1) * 4 + 31;
        offset -= offset % 32;
    }
    gguf_write_bytes(&file, &giant.header);
    gguf_release(&file);
    return giant;
}

/* Sizes that overflow in 32 bits. In 64 bits they are so large that no test machine is asked for
 * the memory: allocations.c refuses it. */
static void open_giant(void **state) {
    const struct tiny_shape *shape = *state;
    struct giant giant = make_giant(shape, UINT64_C(1) << 40);
    const wisp_source source = {.size = giant.size, .read = read_giant, .context = &giant};
    const struct opening opening = open_source(&source, giant.size);
    expect_outcome(&opening, WISP_ERROR_MEMORY, NULL, NULL);
    bytes_release(&giant.header);
}

static const struct tiny_shape wide_positions = {
    .hidden = 1 << 15, .wide = 12, .positions = 1 << 15};
static const struct tiny_shape wide_hidden = {.hidden = 1 << 15, .wide = 12, .positions = 16};
static const struct tiny_shape wide_inner = {.hidden = 1 << 12, .wide = 1 << 18, .positions = 16};

/* A model that fits, with a text whose working memory does not: 2^20 tokens by 2^20 neurons. */
static void embed_giant(void **state) {
    enum { TOKENS = 1 << 20 };
    const struct tiny_shape shape = {.hidden = 8, .wide = 1 << 20, .positions = TOKENS};
    struct giant giant = make_giant(&shape, UINT64_C(1) << 32);
    const wisp_source source = {.size = giant.size, .read = read_giant, .context = &giant};
    wisp_model *model = NULL;
    wisp_session *session = NULL;
    wisp_error error;
    float row[8];
    char *text = malloc(TOKENS);
    (void)state;
    assert_non_null(text);
    memset(text, '.', TOKENS);
    const wisp_text texts[] = {{text, TOKENS}};
    assert_int_equal(wisp_model_open_source(&source, NULL, &model, &error), WISP_OK);
    assert_int_equal(wisp_session_open(model, NULL, &session, &error), WISP_OK);
    assert_int_equal(wisp_embed(session, texts, 1, NULL, row, &error), WISP_ERROR_MEMORY);
    wisp_session_close(session);
    wisp_model_close(model);
    free(text);
    bytes_release(&giant.header);
}

/* Offsets near 2^64: the last tensor ends one byte before it, or beyond it. */
static void sum_past_64_bits(void **state) {
    const uint64_t size = UINT64_MAX;
    struct giant giant = {.size = size};
    (void)state;
    put_header(&giant.header, 3, 0);
    for (uint32_t i = 0; i < 3; i++) {
        put_name(&giant.header, i);
        bytes_put_u32(&giant.header, 1);
        bytes_put_u64(&giant.header, INT64_MAX - 31);
        bytes_put_u32(&giant.header, block_format_by_name("I8")->id);
        bytes_put_u64(&giant.header, i * (UINT64_C(1) << 63));
    }
    const wisp_source source = {.size = size, .read = read_giant, .context = &giant};
    const struct opening opening = open_source(&source, UINT64_MAX / 16);
    expect_outcome(&opening, WISP_ERROR_FORMAT, NULL, NULL);
    bytes_release(&giant.header);
}

#define SWEEP(title, function, state)                                                              \
    {.name = title, .test_func = function, .initial_state = (void *)(uintptr_t)(state)}

int main(void) {
    const struct CMUnitTest tests[] = {
        SWEEP("allocations are counted", allocations_are_counted, NULL),
        SWEEP("1: cut at every byte", cut_at_every_byte, NULL),
        SWEEP("every bit of the header flipped", flip_every_header_bit, &tiny_shape),
        SWEEP("every bit of the header flipped, q8_0", flip_every_header_bit, &tiny_shape_q8_0),
        SWEEP("every bit of the header flipped, nomic", flip_every_header_bit, &tiny_nomic),
        SWEEP("every bit of the header flipped, rows", flip_every_header_bit, &tiny_chunks),
        SWEEP("random bytes", spoil_random_bytes, &tiny_shape),
        SWEEP("random bytes, q8_0", spoil_random_bytes, &tiny_shape_q8_0),
        SWEEP("random bytes, nomic", spoil_random_bytes, &tiny_nomic_q8_0),
        SWEEP("random bytes, rows", spoil_random_bytes, &tiny_nomic_rows_q8_0),
        SWEEP("28: 10 MB of keys", many_keys, NULL),
        SWEEP("28: 10 MB of one key", many_keys, &tiny_shape),
        SWEEP("28: 10 MB of tensors", many_tensors, NULL),
        SWEEP("28: 10 MB of one tensor", many_tensors, &tiny_shape),
        SWEEP("28: 10 MB of tokens", many_tokens, NULL),
        SWEEP("28: 10 MB of one token", many_tokens, &tiny_shape),
        SWEEP("29: every key of every type", change_every_type, NULL),
        SWEEP("34: every tensor missing", change_every_tensor, &changes[0]),
        SWEEP("34: every tensor's rows longer", change_every_tensor, &changes[1]),
        SWEEP("34: every tensor a row less", change_every_tensor, &changes[2]),
        SWEEP("34: every tensor with rows of rows", change_every_tensor, &changes[3]),
        SWEEP("34: every tensor of a type that is not read", change_every_tensor, &changes[4]),
        SWEEP("35: NaN in every tensor", change_every_tensor, &changes[5]),
        SWEEP("35: infinity in every tensor", change_every_tensor, &changes[6]),
        SWEEP("35: NaN in a token's embedding", spoil_a_token, &nan_bits),
        SWEEP("35: infinity in a token's embedding", spoil_a_token, &infinity_bits),
        SWEEP("35: a block's scale that is not finite", spoil_a_scale, NULL),
        SWEEP("35: a block of any type that is not finite", spoil_a_block, NULL),
        SWEEP("every tensor type opens or is refused", open_every_type, NULL),
        SWEEP("26: sizes whose sum wraps in 64 bits", sum_past_64_bits, NULL),
        SWEEP("19: positions that wrap in 32 bits", open_giant, &wide_positions),
        SWEEP("19: weights that wrap in 32 bits", open_giant, &wide_hidden),
        SWEEP("19: wide weights that wrap in 32 bits", open_giant, &wide_inner),
        SWEEP("19: a text whose working memory wraps in 32 bits", embed_giant, NULL),
    };
    return cmocka_run_group_tests(tests, NULL, tear_down_temporary_folder);
}
