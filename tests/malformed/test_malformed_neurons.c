/* SPDX-License-Identifier: Apache-2.0
 * GGUF files whose neurons are rows, with one fault each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#undef fail /* base/status.h has another */

#include "formats/directory.h"
#include "support/opening.h"

#define FORMAT WISP_ERROR_FORMAT
#define NOT_FOUND WISP_ERROR_NOT_FOUND

enum { MANY = 1 << 20 };

static const char KINDS[] = "wisp.neurons.types", PLACES[] = "wisp.neurons.places",
                  ORDER[] = "wisp.sparse.order", HOT[] = "wisp.sparse.hot",
                  HOT_0[] = "blk.0.ffn_neurons.hot", HOT_1[] = "blk.1.ffn_neurons.hot",
                  COLD_0[] = "blk.0.ffn_neurons.cold", COLD_1[] = "blk.1.ffn_neurons.cold",
                  SCALES_1[] = "blk.1.ffn_down_scales", UP_0[] = "blk.0.ffn_up.weight",
                  DOWN_1[] = "blk.1.ffn_down.weight", ROW_SCALES_1[] = "blk.1.ffn_down_row_scales",
                  BASE_1[] = "blk.1.ffn_down_base", BYTES[] = "wisp.chunks.bytes",
                  SHA256[] = "wisp.chunks.sha256", CENTER_1[] = "blk.1.ffn_center";

/* A change to a file. The meaning of `name` depends on `alter`. */
struct malformed {
    const char *title;
    void (*alter)(struct gguf *file, const char *name, int64_t place, int64_t value);
    const char *name;
    int64_t place, value;
    wisp_status status;
    const char *field, *says; /* NULL: any */
};

/* ---- keys ----------------------------------------------------------------------------------- */

static void drop_key(struct gguf *file, const char *name, int64_t place, int64_t value) {
    (void)place;
    (void)value;
    gguf_drop_key(file, name);
}

static void set_entry(struct gguf *file, const char *name, int64_t place, int64_t value) {
    bytes_set_u32(&gguf_key(file, name)->value, 12 + 4 * (size_t)place, (uint32_t)value);
}

static void set_element(struct gguf *file, const char *name, int64_t place, int64_t value) {
    (void)place;
    bytes_set_u32(&gguf_key(file, name)->value, 0, (uint32_t)value);
}

/* Writes `place` entries of `value`. */
static void set_length(struct gguf *file, const char *name, int64_t place, int64_t value) {
    int32_t *numbers = calloc((size_t)place, sizeof *numbers);
    assert_non_null(numbers);
    for (int64_t i = 0; i < place; i++)
        numbers[i] = (int32_t)value;
    gguf_set_i32s(file, name, numbers, (size_t)place);
    free(numbers);
}

static void set_number(struct gguf *file, const char *name, int64_t place, int64_t value) {
    (void)place;
    gguf_set_u32(file, name, (uint32_t)value);
}

/* Sets the place of a matrix, counted from one past the plain model's last tensor. */
static void set_late_place(struct gguf *file, const char *name, int64_t place, int64_t value) {
    set_entry(file, name, place, (int64_t)file->n_tensors + value);
}

/* Sets a place that another matrix has. */
static void repeat_place(struct gguf *file, const char *name, int64_t place, int64_t value) {
    struct bytes *numbers = &gguf_key(file, name)->value;
    memcpy(numbers->data + 12 + 4 * place, numbers->data + 12 + 4 * value, 4);
}

static void drop_order(struct gguf *file, const char *name, int64_t place, int64_t value) {
    (void)name;
    drop_key(file, ORDER, place, value);
    drop_key(file, HOT, place, value);
}

/* ---- tensors -------------------------------------------------------------------------------- */

static void drop_tensor(struct gguf *file, const char *name, int64_t place, int64_t value) {
    (void)place;
    (void)value;
    gguf_drop_tensor(file, name);
}

static void drop_layer(struct gguf *file, const char *name, int64_t place, int64_t value) {
    drop_tensor(file, HOT_1, place, value);
    drop_tensor(file, name, place, value);
}

/* Sets another shape with the same number of bytes, or fewer. */
static void set_shape(struct gguf *file, const char *name, int64_t place, int64_t value) {
    struct gguf_tensor *tensor = gguf_tensor(file, name);
    const struct block_format *format = block_format_by_id(tensor->type);
    tensor->dims[0] = (uint64_t)place;
    tensor->dims[1] = (uint64_t)value;
    tensor->data.size = (size_t)(place * value) * format->bytes;
    gguf_settle(file);
}

static void set_rows_of_rows(struct gguf *file, const char *name, int64_t place, int64_t value) {
    struct gguf_tensor *tensor = gguf_tensor(file, name);
    tensor->n_dims = 3;
    tensor->dims[1] = (uint64_t)place;
    tensor->dims[2] = (uint64_t)value;
}

/* Sets another type with the same number of bytes. */
static void set_type(struct gguf *file, const char *name, int64_t place, int64_t value) {
    struct gguf_tensor *tensor = gguf_tensor(file, name);
    tensor->dims[0] = tensor->dims[0] * block_format_by_id(tensor->type)->bytes /
                      block_format_by_id((uint32_t)value)->bytes;
    tensor->type = (uint32_t)value;
    (void)place;
}

/* Adds a tensor that also results from the rows. */
static void add_tensor(struct gguf *file, const char *name, int64_t place, int64_t value) {
    (void)place;
    (void)value;
    gguf_repeat_tensor(file, HOT_0);
    struct gguf_tensor *twin = &file->tensors[file->n_tensors - 1];
    twin->name.size = 0;
    bytes_put(&twin->name, name, strlen(name));
    twin->name_length = twin->name.size;
}

/* Adds a vector of `place` floats. */
static void add_floats(struct gguf *file, const char *name, int64_t place, int64_t value) {
    (void)value;
    tiny_add_tensor(file, name, (uint64_t)place, 1, BLOCK_F32);
    gguf_settle(file);
}

static void add_base_alone(struct gguf *file, const char *name, int64_t place, int64_t value) {
    add_floats(file, CENTER_1, 12, value);
    add_floats(file, BASE_1, place, value);
    drop_tensor(file, name, place, value);
}

static void add_base_and_center(struct gguf *file, const char *name, int64_t place, int64_t value) {
    add_floats(file, CENTER_1, 12, value);
    add_floats(file, name, place, value);
}

static void drop_both_row_scales(struct gguf *file, const char *name, int64_t place,
                                 int64_t value) {
    drop_tensor(file, "blk.0.ffn_down_row_scales", place, value);
    drop_tensor(file, name, place, value);
}

/* Gives the file digests of chunks of 4096 bytes, and drops the key of this name if there is
 * one.
 */
static void set_chunks(struct gguf *file, const char *name, int64_t place, int64_t value) {
    (void)place;
    (void)value;
    gguf_set_chunks(file, 4096);
    if (name)
        gguf_drop_key(file, name);
}

/* Gives the file digests and puts another size of the chunks in the header. */
static void set_chunk_bytes(struct gguf *file, const char *name, int64_t place, int64_t value) {
    set_chunks(file, NULL, place, value);
    gguf_set_u32(file, name, (uint32_t)value);
}

static void set_text(struct gguf *file, const char *name, int64_t place, int64_t value) {
    set_chunks(file, NULL, place, value);
    gguf_set_text(file, name, "4096");
}

/* Gives the file digests whose elements are of another type, or `place` bytes of digests. */
static void set_digests(struct gguf *file, const char *name, int64_t place, int64_t value) {
    set_chunks(file, NULL, place, value);
    struct bytes *array = &gguf_key(file, name)->value;
    bytes_set_u32(array, 0, (uint32_t)value);
    bytes_set_u32(array, 4, (uint32_t)place);
    array->size = 12 + (size_t)place;
}

/* A chunk whose digest is wrong does not matter to a file that is opened as a whole. */
static void spoil_digest(struct gguf *file, const char *name, int64_t place, int64_t value) {
    set_chunks(file, NULL, place, value);
    gguf_key(file, name)->value.data[12] ^= 1;
}

/* Returns the bits of a float. */
static void set_weight(struct gguf *file, const char *name, int64_t place, int64_t value) {
    bytes_set_u32(&gguf_tensor(file, name)->data, 4 * (size_t)place, (uint32_t)value);
}

/* ---- cases ---------------------------------------------------------------------------------- */

/* Layers of 12 neurons of 8 up and 8 down values, 9 hot, in f32. */
static const struct malformed cases[] = {
    {"no order: rows are in that of the neurons", drop_order, NULL, 0, 0, WISP_OK, NULL, NULL},
    {"no count of the hot", drop_key, HOT, 0, 0, WISP_OK, NULL, NULL},
    {"types of type f32", set_element, KINDS, 0, VALUE_F32, FORMAT, KINDS, "i32"},
    {"types that are a number", set_number, KINDS, 0, 2, FORMAT, KINDS, "i32"},
    {"a type that rows do not have", set_entry, KINDS, 1, BLOCK_Q4_K, FORMAT, KINDS, "1 is 12"},
    {"a type that there is not", set_entry, KINDS, 1, 1000, FORMAT, KINDS, "1000"},
    {"type -2", set_entry, KINDS, 1, -2, FORMAT, KINDS, "-2"},
    {"a type that the rows do not have", set_entry, KINDS, 1, BLOCK_F16, FORMAT, HOT_1, "F16"},
    {"a type whose rows are bytes", set_entry, KINDS, 0, BLOCK_Q8_0, FORMAT, HOT_0, "I8"},
    {"a layer less", set_length, KINDS, 1, BLOCK_F32, FORMAT, PLACES, "array of 4; expected 2"},
    {"a layer more", set_length, KINDS, 3, BLOCK_F32, FORMAT, PLACES, "array of 4; expected 6"},
    {"no layers", set_length, KINDS, 0, 0, NOT_FOUND, UP_0, NULL},
    {"2^20 layers", set_length, KINDS, MANY, BLOCK_F32, FORMAT, KINDS, "1048576 layers"},
    {"2^20 layers without rows", set_length, KINDS, MANY, -1, NOT_FOUND, UP_0, NULL},
    {"a layer is not to be read", set_entry, KINDS, 0, -1, NOT_FOUND, UP_0, NULL},
    {"no places", drop_key, PLACES, 0, 0, NOT_FOUND, PLACES, "missing"},
    {"places of type u32", set_element, PLACES, 0, VALUE_U32, FORMAT, PLACES, "i32"},
    {"place -1", set_entry, PLACES, 3, -1, FORMAT, PLACES, DOWN_1},
    {"a place twice", repeat_place, PLACES, 3, 0, FORMAT, PLACES, DOWN_1},
    {"a place past the last", set_late_place, PLACES, 3, 0, FORMAT, PLACES, DOWN_1},
    {"a place past all that could be", set_late_place, PLACES, 3, 9, FORMAT, PLACES, DOWN_1},
    {"place 2^31 - 1", set_entry, PLACES, 3, INT32_MAX, FORMAT, PLACES, "2147483647"},
    {"a gate that there is not", set_length, PLACES, 6, 1, FORMAT, HOT_0, "64 and 64 bytes"},
    {"an order of type f32", set_element, ORDER, 0, VALUE_F32, FORMAT, ORDER, "i32"},
    {"an order of one layer", set_length, ORDER, 12, 0, FORMAT, ORDER, "12; expected 24"},
    {"an order with a neuron twice", set_length, ORDER, 24, 0, FORMAT, ORDER, "entry 1 is 0"},
    {"an order with neuron -1", set_entry, ORDER, 20, -1, FORMAT, ORDER, "entry 20 is -1"},
    {"an order with neuron 12", set_entry, ORDER, 20, 12, FORMAT, ORDER, "entry 20 is 12"},
    {"a count of the hot too few", set_length, HOT, 1, 9, FORMAT, HOT, "1; expected 2"},
    {"-1 hot", set_entry, HOT, 1, -1, FORMAT, HOT, "-1"},
    {"13 hot", set_entry, HOT, 1, 13, FORMAT, HOT, "entry 1 is 13"},
    {"8 hot of 9", set_entry, HOT, 1, 8, FORMAT, HOT, "9 hot"},
    {"no hot rows", drop_tensor, HOT_0, 0, 0, FORMAT, ORDER, "24; expected 6"},
    {"no cold rows", drop_tensor, COLD_1, 0, 0, FORMAT, HOT_1, "9 neurons"},
    {"no rows", drop_layer, COLD_1, 0, 0, NOT_FOUND, HOT_1, "missing"},
    {"rows of 15", set_shape, HOT_0, 15, 9, FORMAT, HOT_0, "60 and 64 bytes"},
    {"hot rows of 14", set_shape, HOT_0, 14, 9, FORMAT, HOT_0, "56 and 64 bytes"},
    {"cold rows of 14", set_shape, COLD_0, 14, 3, FORMAT, HOT_0, "64 and 56 bytes"},
    {"a layer with rows of 14", set_shape, HOT_1, 14, 9, FORMAT, HOT_1, "8 values"},
    {"rows of 1", set_shape, HOT_0, 1, 9, FORMAT, HOT_0, "4 and 64 bytes"},
    {"a row less", set_shape, COLD_1, 16, 2, FORMAT, HOT_1, "11 neurons"},
    {"rows of rows", set_rows_of_rows, HOT_0, 3, 3, FORMAT, HOT_0, "3 dimensions"},
    {"rows of another type", set_type, HOT_0, 0, BLOCK_F16, FORMAT, HOT_0, "F16; expected F32"},
    {"cold rows of another type", set_type, COLD_0, 0, BLOCK_I8, FORMAT, COLD_0, "I8"},
    {"no row scales in one layer", drop_tensor, ROW_SCALES_1, 0, 0, WISP_OK, NULL, NULL},
    {"no row scales", drop_both_row_scales, ROW_SCALES_1, 0, 0, WISP_OK, NULL, NULL},
    {"row scales of type f16", set_type, ROW_SCALES_1, 0, BLOCK_F16, FORMAT, ROW_SCALES_1, "F16"},
    {"row scales of a row less", set_shape, ROW_SCALES_1, 7, 1, FORMAT, ROW_SCALES_1, "[1, 7]"},
    {"row scales of half the rows", set_shape, ROW_SCALES_1, 4, 1, FORMAT, ROW_SCALES_1, "[1, 4]"},
    {"a base without centers", add_floats, BASE_1, 8, 0, NOT_FOUND, CENTER_1, "missing"},
    {"centers without a base", add_floats, CENTER_1, 12, 0, NOT_FOUND, BASE_1, "missing"},
    {"a base without row scales", add_base_alone, ROW_SCALES_1, 8, 0, NOT_FOUND, ROW_SCALES_1,
     "missing"},
    {"a base and centers", add_base_and_center, BASE_1, 8, 0, WISP_OK, NULL, NULL},
    {"a base of a row more", add_base_and_center, BASE_1, 9, 0, FORMAT, BASE_1, "[1, 9]"},
    {"a matrix besides its rows", add_tensor, UP_0, 0, 0, FORMAT, UP_0, "two tensors"},
    {"chunks", set_chunks, NULL, 0, 0, WISP_OK, NULL, NULL},
    {"a wrong digest", spoil_digest, SHA256, 0, 0, WISP_OK, NULL, NULL},
    {"chunks without a size", set_chunks, BYTES, 0, 0, FORMAT, BYTES, "missing"},
    {"chunks without digests", set_chunks, SHA256, 0, 0, FORMAT, SHA256, "missing"},
    {"chunks of 0 bytes", set_chunk_bytes, BYTES, 0, 0, FORMAT, BYTES, "0 is not a power of two"},
    {"chunks of 2048 bytes", set_chunk_bytes, BYTES, 0, 2048, FORMAT, BYTES, "2048 is no"},
    {"chunks of 2^21 bytes", set_chunk_bytes, BYTES, 0, 1 << 21, FORMAT, BYTES, "2097152 is no"},
    {"chunks of 4097 bytes", set_chunk_bytes, BYTES, 0, 4097, FORMAT, BYTES, "4097 is no"},
    {"chunks of 8192 bytes", set_chunk_bytes, BYTES, 0, 8192, FORMAT, SHA256,
     "96 bytes; expected 64"},
    {"a size that is text", set_text, BYTES, 0, 0, FORMAT, BYTES, "an integer"},
    {"digests that are a number", set_number, SHA256, 0, 4096, FORMAT, BYTES, "missing"},
    {"digests of i8", set_digests, SHA256, 96, VALUE_I8, FORMAT, SHA256, "array of u8"},
    {"a digest less", set_digests, SHA256, 64, 0, FORMAT, SHA256, "64 bytes; expected 96"},
    {"a byte of digests less", set_digests, SHA256, 95, 0, FORMAT, SHA256, "95 bytes"},
    {"no digests", set_digests, SHA256, 0, 0, FORMAT, SHA256, "0 bytes"},
    {"NaN in a row of W_up", set_weight, COLD_0, 3, 0x7FC00000, FORMAT, UP_0, "finite"},
    {"NaN in a column of W_down", set_weight, HOT_1, 9, 0x7FC00000, FORMAT, DOWN_1, "finite"},
};

/* Layers of 64 neurons of 34 up, 34 gate and 32 down bytes, with scales of 32 x 2. */
static const struct malformed quantised_cases[] = {
    {"no scales", drop_tensor, SCALES_1, 0, 0, NOT_FOUND, SCALES_1, "missing"},
    {"scales of type f32", set_type, SCALES_1, 0, BLOCK_F32, FORMAT, SCALES_1, "F32; expected F16"},
    {"scales of a row less", set_shape, SCALES_1, 2, 31, FORMAT, SCALES_1, "[31, 2]"},
    {"scales of a block less", set_shape, SCALES_1, 1, 32, FORMAT, SCALES_1, "[32, 1]"},
    {"rows of a type that has no scales", set_entry, KINDS, 0, BLOCK_F32, FORMAT, HOT_0, "F32"},
    {"rows of half the bytes", set_entry, KINDS, 0, BLOCK_Q4_0, FORMAT, HOT_0, "100 bytes"},
    {"no gate", set_length, PLACES, 4, 1, FORMAT, HOT_0, "100 and 100 bytes"},
    {"rows of 99 bytes", set_shape, HOT_0, 99, 48, FORMAT, HOT_0, "99 and 100 bytes"},
    {"neurons that make no block", set_shape, HOT_1, 100, 47, FORMAT, HOT_1, "63 neurons"},
};

static void run(const struct malformed *c, const struct tiny_shape *shape) {
    struct gguf file;
    struct bytes out = {0};
    gguf_make(&file, shape);
    c->alter(&file, c->name, c->place, c->value);
    gguf_write_bytes(&file, &out);
    expect_opening(&out, c->status, c->field, c->says);
    bytes_release(&out);
    gguf_release(&file);
}

static void run_case(void **state) {
    run(*state, &tiny_rows);
}

static void run_quantised_case(void **state) {
    run(*state, &tiny_nomic_rows_q8_0);
}

int main(void) {
    enum {
        CASES = sizeof cases / sizeof *cases,
        QUANTISED = sizeof quantised_cases / sizeof *quantised_cases
    };
    static struct CMUnitTest tests[CASES + QUANTISED];
    for (size_t i = 0; i < CASES + QUANTISED; i++) {
        const struct malformed *c = i < CASES ? &cases[i] : &quantised_cases[i - CASES];
        tests[i] = (struct CMUnitTest){.name = c->title,
                                       .test_func = i < CASES ? run_case : run_quantised_case,
                                       .initial_state = (void *)(uintptr_t)c};
    }
    return cmocka_run_group_tests(tests, NULL, tear_down_temporary_folder);
}
