/* SPDX-License-Identifier: Apache-2.0
 * GGUF files with one fault each, numbered as in opening.h. test_malformed_tokenizer.c has those of
 * the tokenizer, and test_malformed_sweeps.c the faults that occur at every place (truncation,
 * flipped bits). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#undef fail /* base/status.h has another */

#include "formats/directory.h"
#include "support/malformed_gguf.h"

enum { HEADER_BYTES = 24 };

static const char NAME[] = "general.name", TOKENS[] = "tokenizer.ggml.tokens",
                  TYPES[] = "tokenizer.ggml.token_type", ALIGNMENT[] = "general.alignment",
                  UP[] = "blk.0.ffn_up.weight", LAST[] = "blk.1.layer_output_norm.bias";

static size_t file_size(const struct gguf *file) {
    struct bytes out = {0};
    gguf_write_bytes(file, &out);
    const size_t size = out.size;
    bytes_release(&out);
    return size;
}

/* ---- the header ----------------------------------------------------------------------------- */

static void set_magic(struct gguf *file, uint64_t value) {
    for (int i = 0; i < 4; i++)
        file->magic[i] = (unsigned char)(value >> 8 * i);
}

static void set_version(struct gguf *file, uint64_t value) {
    file->version = (uint32_t)value;
}

static void set_key_count(struct gguf *file, uint64_t value) {
    file->written_keys = value;
}

static void set_tensor_count(struct gguf *file, uint64_t value) {
    file->written_tensors = value;
}

/* The largest count whose values of `value` bytes fit in the rest of the file, or one more. */
static void fill_key_count(struct gguf *file, uint64_t more) {
    file->written_keys = (file_size(file) - HEADER_BYTES) / (8 + 1 + 4 + 1) + more;
}

static void fill_tensor_count(struct gguf *file, uint64_t more) {
    file->written_tensors = (file_size(file) - HEADER_BYTES) / (8 + 1 + 4 + 8 + 4 + 8) + more;
}

/* ---- keys and values ------------------------------------------------------------------------ */

static void set_key_length(struct gguf *file, uint64_t value) {
    gguf_key(file, NAME)->name_length = value;
}

static void set_tensor_name_length(struct gguf *file, uint64_t value) {
    gguf_tensor(file, UP)->name_length = value;
}

static void empty_key(struct gguf *file, uint64_t value) {
    (void)value;
    gguf_key(file, NAME)->name_length = 0;
    gguf_key(file, NAME)->name.size = 0;
}

static void empty_tensor_name(struct gguf *file, uint64_t value) {
    (void)value;
    gguf_tensor(file, UP)->name_length = 0;
    gguf_tensor(file, UP)->name.size = 0;
}

static void spoil_key(struct gguf *file, uint64_t value) {
    gguf_key(file, NAME)->name.data[3] = (unsigned char)value;
}

static void spoil_tensor_name(struct gguf *file, uint64_t value) {
    gguf_tensor(file, UP)->name.data[3] = (unsigned char)value;
}

/* A key of `value` bytes with a control sequence, whose end in error messages would fall inside a
 * character. */
static void set_long_key(struct gguf *file, uint64_t value) {
    struct gguf_key *key = gguf_key(file, NAME);
    key->name.size = 0;
    bytes_put(&key->name, "\x1B[2J\x07", 5);
    while (key->name.size < value)
        bytes_put(&key->name, "\xE2\x96\x81", 3);
    key->name_length = key->name.size;
    key->type = 13;
}

static void repeat_key(struct gguf *file, uint64_t value) {
    (void)value;
    gguf_repeat_key(file, NAME);
}

static void repeat_alignment(struct gguf *file, uint64_t value) {
    (void)value;
    gguf_repeat_key(file, ALIGNMENT);
}

static void repeat_tensor(struct gguf *file, uint64_t value) {
    (void)value;
    gguf_repeat_tensor(file, UP);
}

static void set_text_length(struct gguf *file, uint64_t value) {
    bytes_set_u64(&gguf_key(file, NAME)->value, 0, value);
}

static void set_token_length(struct gguf *file, uint64_t value) {
    bytes_set_u64(&gguf_key(file, TOKENS)->value, 12, value);
}

static void set_value_type(struct gguf *file, uint64_t value) {
    gguf_key(file, NAME)->type = (uint32_t)value;
}

static void set_element_type(struct gguf *file, uint64_t value) {
    bytes_set_u32(&gguf_key(file, TYPES)->value, 0, (uint32_t)value);
}

static void set_array_count(struct gguf *file, uint64_t value) {
    bytes_set_u64(&gguf_key(file, TYPES)->value, 4, value);
}

static void set_token_count(struct gguf *file, uint64_t value) {
    bytes_set_u64(&gguf_key(file, TOKENS)->value, 4, value);
}

static void set_u64_array_count(struct gguf *file, uint64_t value) {
    set_element_type(file, VALUE_U64);
    set_array_count(file, value);
}

static void set_bool(struct gguf *file, uint64_t value) {
    gguf_set_bool(file, "wisp.normalize", (unsigned char)value);
}

/* ---- alignment ------------------------------------------------------------------------------ */

static void set_alignment(struct gguf *file, uint64_t value) {
    gguf_set_u32(file, ALIGNMENT, (uint32_t)value);
}

static void obey_alignment(struct gguf *file, uint64_t value) {
    set_alignment(file, value);
    file->alignment = (size_t)value;
    gguf_settle(file);
}

static void set_alignment_type(struct gguf *file, uint64_t value) {
    static const unsigned char empty[12]; /* 0, an empty string, an empty array of u8 */
    const size_t size = value == VALUE_ARRAY ? 12 : 8;
    gguf_set(file, ALIGNMENT, (uint32_t)value, empty, size);
}

/* ---- tensors -------------------------------------------------------------------------------- */

static void set_n_dims(struct gguf *file, uint64_t value) {
    gguf_tensor(file, UP)->n_dims = (uint32_t)value;
}

static void set_dim(struct gguf *file, uint64_t value) {
    gguf_tensor(file, UP)->dims[1] = value;
}

static void set_row(struct gguf *file, uint64_t value) {
    gguf_tensor(file, UP)->dims[0] = value;
}

static void set_all_dims(struct gguf *file, uint64_t value) {
    struct gguf_tensor *tensor = gguf_tensor(file, UP);
    tensor->n_dims = 4;
    for (int i = 0; i < 4; i++)
        tensor->dims[i] = value;
}

static void set_type(struct gguf *file, uint64_t value) {
    gguf_tensor(file, UP)->type = (uint32_t)value;
}

static void set_offset(struct gguf *file, uint64_t value) {
    gguf_tensor(file, UP)->offset = value;
}

static void add_offset(struct gguf *file, uint64_t value) {
    gguf_tensor(file, UP)->offset += value;
}

static void add_last_offset(struct gguf *file, uint64_t value) {
    gguf_tensor(file, LAST)->offset += value;
}

static void cut_data(struct gguf *file, uint64_t value) {
    gguf_tensor(file, LAST)->data.size -= (size_t)value;
}

/* The last two tensors' sizes sum to more than 2^64. */
static void overflow_sum(struct gguf *file, uint64_t value) {
    struct gguf_tensor *last = gguf_tensor(file, LAST);
    last->dims[0] = value;
    last[-1].dims[0] = value;
    last->offset = last[-1].offset + value * 4;
}

/* ---- hyper-parameters ----------------------------------------------------------------------- */

static void set_layers(struct gguf *file, uint64_t value) {
    gguf_set_u32(file, "bert.block_count", (uint32_t)value);
}

static void set_heads(struct gguf *file, uint64_t value) {
    gguf_set_u32(file, "bert.attention.head_count", (uint32_t)value);
}

static void set_hidden(struct gguf *file, uint64_t value) {
    gguf_set_u32(file, "bert.embedding_length", (uint32_t)value);
}

static void set_wide(struct gguf *file, uint64_t value) {
    gguf_set_u32(file, "bert.feed_forward_length", (uint32_t)value);
}

static void set_positions(struct gguf *file, uint64_t value) {
    gguf_set_u32(file, "bert.context_length", (uint32_t)value);
}

static void set_max_tokens(struct gguf *file, uint64_t value) {
    gguf_set_u32(file, "wisp.max_seq_length", (uint32_t)value);
}

static void set_pooling(struct gguf *file, uint64_t value) {
    gguf_set_u32(file, "bert.pooling_type", (uint32_t)value);
}

static void set_epsilon(struct gguf *file, uint64_t bits) {
    gguf_set_u32(file, "bert.attention.layer_norm_epsilon", (uint32_t)bits);
    gguf_key(file, "bert.attention.layer_norm_epsilon")->type = VALUE_F32;
}

static void set_wide_integer(struct gguf *file, uint64_t value) {
    struct bytes raw = {0};
    bytes_put_u64(&raw, value);
    gguf_set(file, "bert.block_count", VALUE_U64, raw.data, raw.size);
    bytes_release(&raw);
}

static void set_signed_integer(struct gguf *file, uint64_t value) {
    set_layers(file, value);
    gguf_key(file, "bert.block_count")->type = VALUE_I32;
}

static void set_architecture(struct gguf *file, uint64_t value) {
    (void)value;
    gguf_set_text(file, "general.architecture", "t5");
}

static void set_activation(struct gguf *file, uint64_t value) {
    (void)value;
    gguf_set_text(file, "wisp.hidden_act", "swish");
}

static void set_prompt_name(struct gguf *file, uint64_t value) {
    (void)value;
    gguf_set_text(file, "wisp.default_prompt_name", "passage");
}

/* ---- what wisp does not compute ------------------------------------------------------------- */

static const char *const strange_tensors[] = {
    "cls.weight",        "cls.output.bias",       "dense_4.weight",     "blk.0.attn_q_norm.weight",
    "blk.2.ffn_up.bias", "blk.0.ffn_gate.weight", "blk.01.ffn_up.bias", "token_embd.weight.lora_a"};

static void add_strange_tensor(struct gguf *file, uint64_t index) {
    tiny_add_tensor(file, strange_tensors[index], 8, 1, BLOCK_F32);
    gguf_settle(file);
}

static const char *const strange_sizes[] = {"bert.attention.sliding_window", "bert.expert_count",
                                            "bert.attention.key_length", "split.count"};

static void set_strange_size(struct gguf *file, uint64_t index) {
    gguf_set_u32(file, strange_sizes[index], 3);
}

static void set_usual_sizes(struct gguf *file, uint64_t value) {
    gguf_set_u32(file, "bert.attention.sliding_window", (uint32_t)value);
    gguf_set_f32(file, "bert.attention.scale", 0);
    gguf_set_bool(file, "bert.use_parallel_residual", false);
    gguf_set_u32(file, "bert.attention.key_length", tiny_shape.hidden / tiny_shape.heads);
    gguf_set_u32(file, "split.count", 1);
    gguf_set_text(file, "general.type", "model");
}

static void set_scale(struct gguf *file, uint64_t value) {
    gguf_set_f32(file, "bert.attention.scale", (float)value);
}

static void set_general_type(struct gguf *file, uint64_t value) {
    (void)value;
    gguf_set_text(file, "general.type", "adapter");
}

static void drop_token_types(struct gguf *file, uint64_t count) {
    gguf_set_u32(file, "tokenizer.ggml.token_type_count", (uint32_t)count);
    gguf_drop_tensor(file, "token_types.weight");
}

static void drop_epsilon(struct gguf *file, uint64_t value) {
    (void)value;
    gguf_drop_key(file, "bert.attention.layer_norm_epsilon");
}

static void set_case(struct gguf *file, uint64_t differs) {
    gguf_set_bool(file, "wisp.tokenizer.lowercase", true);
    gguf_set_bool(file, "tokenizer.ggml.normalizer.lowercase", !differs);
}

static void set_accents(struct gguf *file, uint64_t differs) {
    gguf_set_bool(file, "wisp.tokenizer.strip_accents", false);
    gguf_set_bool(file, "tokenizer.ggml.normalizer.strip_accents", differs != 0);
}

/* ---- the cases ------------------------------------------------------------------------------ */

static const struct malformed cases[] = {
    {"2: magic GGML", set_magic, 0x4C4D4747, FORMAT, "magic", "not a GGUF file"},
    {"2: magic 0", set_magic, 0, FORMAT, "magic", NULL},
    {"3: version 0", set_version, 0, UNSUPPORTED, "version", "version 0"},
    {"3: version 4", set_version, 4, UNSUPPORTED, "version", "version 4"},
    {"3: version 3, bytes swapped", set_version, 0x03000000, UNSUPPORTED, "version", "big-endian"},
    {"3: version 2 is good", set_version, 2, WISP_OK, NULL, NULL},
    {"4: version 1, whose lengths have 32 bits", set_version, 1, UNSUPPORTED, "version", NULL},
    {"5: -1 keys", set_key_count, MINUS_1, FORMAT, "metadata count", "18446744073709551615"},
    {"5: 2^63 keys", set_key_count, TWO_TO_THE(63), FORMAT, "metadata count", NULL},
    {"5: 2^32 + 1 keys", set_key_count, TWO_TO_THE(32) + 1, FORMAT, "metadata count", NULL},
    {"6: -1 tensors", set_tensor_count, MINUS_1, FORMAT, "tensor count", "18446744073709551615"},
    {"6: 2^63 tensors", set_tensor_count, TWO_TO_THE(63), FORMAT, "tensor count", NULL},
    {"6: 2^32 + 1 tensors", set_tensor_count, TWO_TO_THE(32) + 1, FORMAT, "tensor count", NULL},
    {"7: one key more than fit", fill_key_count, 1, FORMAT, "metadata count", NULL},
    {"7: as many keys as might fit", fill_key_count, 0, FORMAT, NULL, NULL},
    {"7: one tensor more than fit", fill_tensor_count, 1, FORMAT, "tensor count", NULL},
    {"7: as many tensors as might fit", fill_tensor_count, 0, FORMAT, NULL, NULL},
    {"8: an empty key", empty_key, 0, FORMAT, "metadata key", "empty"},
    {"8: an empty tensor name", empty_tensor_name, 0, FORMAT, "tensor name", "empty"},
    {"9: a key twice", repeat_key, 0, FORMAT, NAME, "twice"},
    {"9: the alignment twice", repeat_alignment, 0, FORMAT, ALIGNMENT, "twice"},
    {"10: key length -1", set_key_length, MINUS_1, FORMAT, "metadata key", "18446744073709551615"},
    {"10: key length past the end", set_key_length, 1 << 20, FORMAT, "metadata key", "1048576"},
    {"10: tensor name length -1", set_tensor_name_length, MINUS_1, FORMAT, "tensor name", NULL},
    {"10: text length -1", set_text_length, MINUS_1, FORMAT, NAME, NULL},
    {"10: text length past the end", set_text_length, 1 << 20, FORMAT, NAME, NULL},
    {"10: token length -1", set_token_length, MINUS_1, FORMAT, TOKENS, NULL},
    {"10: token length past the end", set_token_length, 1 << 20, FORMAT, TOKENS, NULL},
    {"11: value type 13", set_value_type, 13, FORMAT, NAME, "13"},
    {"11: value type -1", set_value_type, UINT32_MAX, FORMAT, NAME, "4294967295"},
    {"11: element type 13", set_element_type, 13, FORMAT, TYPES, "13"},
    {"11: element type -1", set_element_type, UINT32_MAX, FORMAT, TYPES, NULL},
    {"11: a bool of 2", set_bool, 2, FORMAT, "wisp.normalize", "neither 0 nor 1"},
    {"11: a key that ends inside a character when cut", set_long_key, 200, FORMAT, NULL,
     ": ?[2J?\xE2\x96\x81"},
    {"11: a key longer than a message", set_long_key, 1000, FORMAT, NULL, "13 is not a type"},
    {"12: an array of arrays", set_element_type, VALUE_ARRAY, UNSUPPORTED, TYPES, "arrays"},
    {"13: 2^62 + 32 elements of 4", set_array_count, TWO_TO_THE(62) + 32, FORMAT, TYPES, NULL},
    {"13: 2^61 + 16 elements of 8", set_u64_array_count, TWO_TO_THE(61) + 16, FORMAT, TYPES, NULL},
    {"13: 2^60 + 1 tokens", set_token_count, TWO_TO_THE(60) + 1, FORMAT, TOKENS, NULL},
    {"13: -1 elements", set_array_count, MINUS_1, FORMAT, TYPES, "18446744073709551615"},
    {"14: alignment 0", set_alignment, 0, FORMAT, ALIGNMENT, "0 is not a power of two"},
    {"14: alignment 13", set_alignment, 13, FORMAT, ALIGNMENT, "13"},
    {"14: alignment 2^31", set_alignment, TWO_TO_THE(31), FORMAT, ALIGNMENT, "2147483648"},
    {"14: alignment 64 is good", obey_alignment, 64, WISP_OK, NULL, NULL},
    {"14: alignment 64 is not obeyed", set_alignment, 64, FORMAT, NULL, NULL},
    {"15: alignment of type u64", set_alignment_type, VALUE_U64, FORMAT, ALIGNMENT, "u64"},
    {"15: alignment of type string", set_alignment_type, VALUE_STRING, FORMAT, ALIGNMENT, NULL},
    {"15: alignment of type array", set_alignment_type, VALUE_ARRAY, FORMAT, ALIGNMENT, NULL},
    {"16: no dimensions", set_n_dims, 0, FORMAT, UP, "0"},
    {"16: 5 dimensions", set_n_dims, 5, FORMAT, UP, "5"},
    {"16: 2^32 - 1 dimensions", set_n_dims, UINT32_MAX, FORMAT, UP, "4294967295"},
    {"17: a negative dimension", set_dim, MINUS_1, FORMAT, UP, "-1"},
    {"17: a negative row", set_row, MINUS_1, FORMAT, UP, NULL},
    {"18: a dimension of 0", set_dim, 0, FORMAT, UP, "0"},
    {"18: a row of 0", set_row, 0, FORMAT, UP, NULL},
    {"19: 2^128 elements", set_all_dims, TWO_TO_THE(32), FORMAT, UP, "overflow"},
    {"19: 2^64 elements", set_all_dims, TWO_TO_THE(16), FORMAT, UP, "overflow"},
    {"20: 2^62 rows of 32 bytes", set_dim, TWO_TO_THE(62), FORMAT, UP, "overflow"},
    {"20: a row of 2^64 bytes", set_row, TWO_TO_THE(62), FORMAT, UP, "overflow"},
    {"21: sizes that wrap when padded", overflow_sum, TWO_TO_THE(62) - 1, FORMAT, NULL, NULL},
    {"22: a row that is not a whole block", set_type, BLOCK_Q8_0, FORMAT, UP, "Q8_0 block of 32"},
    {"22: a row that is not a whole block of I2_S", set_type, 36, FORMAT, UP, "I2_S block of 128"},
    {"23: tensor type -1", set_type, UINT32_MAX, UNSUPPORTED, UP, "4294967295"},
    {"23: tensor type 4, removed", set_type, 4, UNSUPPORTED, UP, "4"},
    {"23: tensor type 37, removed", set_type, 37, UNSUPPORTED, UP, "37"},
    {"23: tensor type 1000", set_type, 1000, UNSUPPORTED, UP, "1000"},
    {"24: a tensor out of place by 1", add_offset, 1, FORMAT, UP, "offset"},
    {"24: a tensor over the first", set_offset, 0, FORMAT, UP, "offset"},
    {"24: a tensor over the one before", add_offset, MINUS_1 - 31, FORMAT, UP, "offset"},
    {"24: a gap before a tensor", add_offset, 32, FORMAT, UP, "offset"},
    {"24: a gap before the last tensor", add_last_offset, 32, FORMAT, LAST, "offset"},
    {"25: the file ends one byte early", cut_data, 1, FORMAT, LAST, "past the end"},
    {"26: offset 2^64 - 32", set_offset, MINUS_1 - 31, FORMAT, UP, "offset"},
    {"26: sizes whose sum wraps", overflow_sum, TWO_TO_THE(61), FORMAT, NULL, NULL},
    {"27: a tensor name twice", repeat_tensor, 0, FORMAT, UP, "two tensors"},
    {"32: a key that is not UTF-8", spoil_key, 0xFF, FORMAT, "metadata key", "UTF-8"},
    {"32: a key with a NUL", spoil_key, 0, FORMAT, "metadata key", "UTF-8"},
    {"32: a tensor name that is not UTF-8", spoil_tensor_name, 0xFF, FORMAT, "tensor name", NULL},
    {"32: a tensor name with a NUL", spoil_tensor_name, 0, FORMAT, "tensor name", NULL},
    {"33: no layers", set_layers, 0, FORMAT, "bert.block_count", "0 is not between"},
    {"33: 2^32 - 1 layers", set_layers, UINT32_MAX, FORMAT, "bert.block_count", "4294967295"},
    {"33: more layers than there are", set_layers, 3, NOT_FOUND, "blk.2.attn_q.weight", NULL},
    {"33: more layers than tensors", set_layers, 1024, FORMAT, "bert.block_count", "1024 layers"},
    {"33: -1 layers", set_signed_integer, UINT32_MAX, FORMAT, "bert.block_count", "-1"},
    {"33: 2^32 + 2 layers", set_wide_integer, TWO_TO_THE(32) + 2, FORMAT, "bert.block_count",
     "4294967298"},
    {"33: 2 layers as u64 are good", set_wide_integer, 2, WISP_OK, NULL, NULL},
    {"33: 2 layers as i32 are good", set_signed_integer, 2, WISP_OK, NULL, NULL},
    {"33: no heads", set_heads, 0, FORMAT, "bert.attention.head_count", NULL},
    {"33: 3 heads for 8", set_heads, 3, FORMAT, "bert.attention.head_count", "divide"},
    {"33: 16 heads for 8", set_heads, 16, FORMAT, "bert.attention.head_count", "divide"},
    {"33: hidden size 0", set_hidden, 0, FORMAT, "bert.embedding_length", NULL},
    {"33: hidden size 2^32 - 1", set_hidden, UINT32_MAX, FORMAT, "bert.embedding_length", NULL},
    {"33: intermediate size 0", set_wide, 0, FORMAT, "bert.feed_forward_length", NULL},
    {"33: no positions", set_positions, 0, FORMAT, "bert.context_length", NULL},
    {"33: no room for a token", set_max_tokens, 2, FORMAT, "wisp.max_seq_length", "3 tokens"},
    {"33: more tokens than positions are cut", set_max_tokens, UINT32_MAX, WISP_OK, NULL, NULL},
    {"33: pooling type 0", set_pooling, 0, UNSUPPORTED, "bert.pooling_type", "0"},
    {"33: another architecture", set_architecture, 0, UNSUPPORTED, "general.architecture", "t5"},
    {"33: another activation", set_activation, 0, UNSUPPORTED, "wisp.hidden_act", "swish"},
    {"33: a prompt that is not there", set_prompt_name, 0, NOT_FOUND, "wisp.default_prompt_name",
     "passage"},
    {"34: hidden size 16 for 8", set_hidden, 16, FORMAT, "token_embd.weight", "16"},
    {"34: intermediate size 13 for 12", set_wide, 13, FORMAT, UP, "13"},
    {"34: 17 positions for 16", set_positions, 17, FORMAT, "position_embd.weight", "17"},
    {"34: the head of a classifier", add_strange_tensor, 0, UNSUPPORTED, "cls.weight", "reranker"},
    {"34: its output", add_strange_tensor, 1, UNSUPPORTED, "cls.output.bias", "reranker"},
    {"34: a third dense layer after pooling", add_strange_tensor, 2, UNSUPPORTED, "dense_4.weight",
     "only two"},
    {"34: a norm of queries", add_strange_tensor, 3, UNSUPPORTED, "blk.0.attn_q_norm.weight",
     "architecture bert"},
    {"34: a layer more than said", add_strange_tensor, 4, UNSUPPORTED, "blk.2.ffn_up.bias",
     "2 layers"},
    {"34: a gate of bert", add_strange_tensor, 5, UNSUPPORTED, "blk.0.ffn_gate.weight", NULL},
    {"34: a layer 01", add_strange_tensor, 6, UNSUPPORTED, "blk.01.ffn_up.bias", NULL},
    {"34: an adapter's tensor", add_strange_tensor, 7, UNSUPPORTED, "token_embd.weight.lora_a",
     NULL},
    {"34: no token types of 2", drop_token_types, 2, NOT_FOUND, "token_types.weight", "2 types"},
    {"34: no token types", drop_token_types, 0, WISP_OK, NULL, NULL},
    {"33: a sliding window", set_strange_size, 0, UNSUPPORTED, "bert.attention.sliding_window",
     "3"},
    {"33: experts", set_strange_size, 1, UNSUPPORTED, "bert.expert_count", "3"},
    {"33: heads of another size", set_strange_size, 2, UNSUPPORTED, "bert.attention.key_length",
     "only 4"},
    {"33: a part of a model", set_strange_size, 3, UNSUPPORTED, "split.count", "3 parts"},
    {"33: another scale", set_scale, 2, UNSUPPORTED, "bert.attention.scale", "2"},
    {"33: an adapter", set_general_type, 0, UNSUPPORTED, "general.type", "adapter"},
    {"33: what is usual, said", set_usual_sizes, 0, WISP_OK, NULL, NULL},
    {"33: no epsilon", drop_epsilon, 0, NOT_FOUND, "bert.attention.layer_norm_epsilon", "missing"},
    {"33: lower case by both keys", set_case, 0, WISP_OK, NULL, NULL},
    {"33: keys that differ on case", set_case, 1, FORMAT, "wisp.tokenizer.lowercase",
     "tokenizer.ggml.normalizer.lowercase is false"},
    {"33: keys that differ on accents", set_accents, 1, FORMAT, "wisp.tokenizer.strip_accents",
     "is true"},
    {"35: epsilon NaN", set_epsilon, 0x7FC00000, FORMAT, "bert.attention.layer_norm_epsilon",
     "finite"},
    {"35: epsilon infinite", set_epsilon, 0x7F800000, FORMAT, "bert.attention.layer_norm_epsilon",
     NULL},
    {"35: epsilon -1", set_epsilon, 0xBF800000, FORMAT, "bert.attention.layer_norm_epsilon", NULL},
};

int main(void) {
    return run_malformed("gguf", cases, sizeof cases / sizeof *cases);
}
