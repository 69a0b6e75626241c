/* SPDX-License-Identifier: Apache-2.0
 * GGUF files of models that generate, with faults at every place in turn: keys missing, of wrong
 * types and out of range, arrays of the vocabulary that do not fit each other, tensors missing or
 * different, bits flipped, files cut. Each opens and generates, or is a typed error that names file
 * and field (opening.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#undef fail /* base/status.h has another */

#include "formats/directory.h"
#include "support/builder_llama.h"
#include "support/opening.h"
#include "support/sampling.h"

enum { NAME_BYTES = 96 };

static void name_of(const struct gguf_key *key, char name[NAME_BYTES]) {
    snprintf(name, NAME_BYTES, "%.*s", (int)key->name.size, (const char *)key->name.data);
}

/* Opens the file, which it releases. */
static struct opening open_file(struct gguf *file) {
    struct bytes out = {0};
    gguf_write_bytes(file, &out);
    const struct opening opening = open_data(out.data, out.size);
    expect_typed(&opening);
    if (opening.status != WISP_OK && !*opening.error.field)
        assert_string_equal("no field", opening.error.message);
    bytes_release(&out);
    gguf_release(file);
    return opening;
}

static bool is_one_of(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(names[i]), whole = strlen(name);
        if (whole >= length && strcmp(name + whole - length, names[i]) == 0)
            return true;
    }
    return false;
}
#define IS_ONE_OF(name, names) is_one_of(name, names, sizeof(names) / sizeof *(names))

static void whole_files_open(void **state) {
    const struct llama_shape *shape = *state;
    struct gguf file;
    struct bytes out = {0};
    llama_make(&file, shape);
    gguf_write_bytes(&file, &out);
    expect_opening(&out, WISP_OK, NULL, NULL);
    bytes_release(&out);
    gguf_release(&file);
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Without these a file means something else, and is good. */
static const char *const optional[] = {"general.name",     "head_count_kv", "rope.dimension_count",
                                       "key_length",       "value_length",  "rope.freq_base",
                                       "ggml.token_type",  "bos_token_id",  "eos_token_id",
                                       "unknown_token_id", "add_bos_token", "add_space_prefix",
                                       "chat_template"};

static void keys_are_missing(void **state) {
    const struct llama_shape *shape = *state;
    struct gguf file;
    llama_make(&file, shape);
    const size_t keys = file.n_keys;
    gguf_release(&file);
    for (size_t i = 0; i < keys; i++) {
        char name[NAME_BYTES];
        llama_make(&file, shape);
        name_of(&file.keys[i], name);
        gguf_drop_key(&file, name);
        const struct opening opening = open_file(&file);
        if (!IS_ONE_OF(name, optional))
            expect_outcome(&opening, WISP_ERROR_NOT_FOUND, name, NULL);
    }
}

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

static void keys_have_wrong_types(void **state) {
    static const unsigned char zeros[12]; /* also an empty string and an empty array of u8 */
    static const char *const shown_only[] = {"general.name"};
    /* Whoever asks for the chat format is told, and nobody else. */
    static const char *const for_chat[] = {"chat_template"};
    const struct llama_shape *shape = *state;
    struct gguf file;
    llama_make(&file, shape);
    const size_t keys = file.n_keys;
    gguf_release(&file);
    for (size_t i = 0; i < keys; i++)
        for (uint32_t type = VALUE_U8; type <= VALUE_F64; type++) {
            char name[NAME_BYTES];
            llama_make(&file, shape);
            name_of(&file.keys[i], name);
            const bool same = is_same_kind(&file.keys[i], type);
            gguf_set(&file, name, type, zeros,
                     type == VALUE_ARRAY    ? 12
                     : type == VALUE_STRING ? 8
                                            : value_type_bytes((enum value_type)type));
            const struct opening opening = open_file(&file);
            if (!same && !IS_ONE_OF(name, shown_only) && !IS_ONE_OF(name, for_chat))
                expect_outcome(&opening, WISP_ERROR_FORMAT, name, NULL);
        }
}

static void numbers_are_out_of_range(void **state) {
    static const uint32_t integers[] = {0, 1, 3, 5, 256, 1u << 20, 0x7FFFFFFF, 0xFFFFFFFF};
    static const uint32_t floats[] = {0,          0x80000000, 0x00000001, 0xBF800000,
                                      0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000};
    /* 0 is none of these, and the largest is too large for all. */
    static const char *const sizes[] = {"embedding_length", "feed_forward_length",
                                        "block_count",      "head_count",
                                        "head_count_kv",    "context_length"};
    const struct llama_shape *shape = *state;
    struct gguf file;
    llama_make(&file, shape);
    const size_t keys = file.n_keys;
    gguf_release(&file);
    for (size_t i = 0; i < keys; i++)
        for (size_t k = 0; k < 8; k++) {
            char name[NAME_BYTES];
            llama_make(&file, shape);
            name_of(&file.keys[i], name);
            const uint32_t type = file.keys[i].type;
            if (type != VALUE_U32 && type != VALUE_F32) {
                gguf_release(&file);
                continue;
            }
            gguf_set(&file, name, type, type == VALUE_U32 ? &integers[k] : &floats[k], 4);
            const struct opening opening = open_file(&file);
            if (type == VALUE_U32 && IS_ONE_OF(name, sizes) && (k == 0 || k == 7))
                expect_outcome(&opening, WISP_ERROR_FORMAT, name, NULL);
            if (type == VALUE_F32 && k >= 5)
                expect_outcome(&opening, WISP_ERROR_FORMAT, name, NULL);
            if (strstr(name, "token_id") && k == 7 && !strstr(name, "unknown"))
                expect_outcome(&opening, WISP_ERROR_FORMAT, name, NULL);
        }
}

/* ---- the vocabulary ------------------------------------------------------------------------- */

/* Changes the number of an array's elements, which stands after their type. */
static void arrays_have_wrong_lengths(void **state) {
    static const char *const arrays[] = {"tokens", "token_type", "scores"};
    const struct llama_shape *shape = *state;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        for (int change = -1; change <= 1; change += 2) {
            const size_t count = (size_t)((int)llama_tokens(shape) + change);
            struct gguf file;
            char name[NAME_BYTES];
            static const char *texts[512];
            static int32_t types[512];
            static const float scores[512];
            snprintf(name, sizeof name, "tokenizer.ggml.%s", arrays[i]);
            if (shape->byte_level && i == 2)
                continue;
            llama_make(&file, shape);
            for (size_t t = 0; t < count; t++) {
                static char spelled[512][24];
                snprintf(spelled[t], sizeof spelled[t], "t%zu", t);
                texts[t] = spelled[t];
                types[t] = 1;
            }
            if (i == 0)
                gguf_set_texts(&file, name, texts, count);
            else if (i == 1)
                gguf_set_i32s(&file, name, types, count);
            else
                gguf_set_f32s(&file, name, scores, count);
            const struct opening opening = open_file(&file);
            assert_int_equal(opening.status, WISP_ERROR_FORMAT);
            if (i > 0)
                assert_string_equal(opening.error.field, name);
        }
}

/* Replaces entry `index` of an array of texts; a negative one counts from the end. */
static void tokens_are_strange(void **state) {
    static char long_token[2000];
    static const char *const spellings[] = {"",      "a",     "\xFF", "\xE2\x96\x81", "<0x00>",
                                            "<0xZZ", "a b c", " ",    "\xC4\xA0",     long_token};
    const struct llama_shape *shape = *state;
    const size_t count = llama_tokens(shape);
    memset(long_token, 'x', sizeof long_token - 1);
    for (size_t place = 0; place < count; place += place < 6 || place > 250 ? 1 : 49)
        for (size_t k = 0; k < sizeof spellings / sizeof *spellings; k++) {
            struct gguf file;
            llama_make(&file, shape);
            struct gguf_key *key = gguf_key(&file, "tokenizer.ggml.tokens");
            struct bytes changed = {0};
            size_t at = 12;
            bytes_put(&changed, key->value.data, 12);
            for (size_t i = 0; i < count; i++) {
                size_t length = key->value.data[at]; /* all are shorter than 256 bytes */
                if (i == place) {
                    bytes_put_u64(&changed, strlen(spellings[k]));
                    bytes_put(&changed, spellings[k], strlen(spellings[k]));
                } else {
                    bytes_put(&changed, key->value.data + at, 8 + length);
                }
                at += 8 + length;
            }
            gguf_set(&file, "tokenizer.ggml.tokens", VALUE_ARRAY, changed.data, changed.size);
            bytes_release(&changed);
            open_file(&file);
        }
}

static void types_are_strange(void **state) {
    const struct llama_shape *shape = *state;
    const size_t count = llama_tokens(shape);
    int32_t types[512];
    for (size_t place = 0; place < count; place += 7)
        for (int32_t type = -1; type <= 8; type++) {
            struct gguf file;
            llama_make(&file, shape);
            const struct gguf_key *key = gguf_key(&file, "tokenizer.ggml.token_type");
            memcpy(types, key->value.data + 12, count * sizeof *types);
            types[place] = type;
            gguf_set_i32s(&file, "tokenizer.ggml.token_type", types, count);
            const struct opening opening = open_file(&file);
            if (type < 1 || type > 6)
                expect_outcome(&opening, WISP_ERROR_FORMAT, "tokenizer.ggml.token_type", NULL);
        }
}

static void merges_are_strange(void **state) {
    static const char *const lists[][3] = {{"t h", "t h"},  {"t h", "th"},  {"t h", "th  e"},
                                           {"t h", " the"}, {"t h", "x y"}, {"t h", "none e"},
                                           {"t h", "the "}, {"t h", ""},    {"t h", "\xFF\xFF h"}};
    const struct llama_shape *shape = *state;
    if (!shape->byte_level)
        return;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct gguf file;
        llama_make(&file, shape);
        gguf_set_texts(&file, "tokenizer.ggml.merges", lists[i], 2);
        const struct opening opening = open_file(&file);
        expect_outcome(&opening, WISP_ERROR_FORMAT, "tokenizer.ggml.merges", NULL);
    }
}

static void scores_are_no_numbers(void **state) {
    const struct llama_shape *shape = *state;
    struct gguf file;
    if (shape->byte_level)
        return;
    llama_make(&file, shape);
    struct gguf_key *key = gguf_key(&file, "tokenizer.ggml.scores");
    bytes_set_u32(&key->value, key->value.size - 4, 0x7FC00000);
    const struct opening opening = open_file(&file);
    expect_outcome(&opening, WISP_ERROR_FORMAT, "tokenizer.ggml.scores", NULL);
}

/* ---- tensors -------------------------------------------------------------------------------- */

static void drop(struct gguf *file, const char *name) {
    gguf_drop_tensor(file, name);
}

static void double_row(struct gguf *file, const char *name) {
    struct gguf_tensor *tensor = gguf_tensor(file, name);
    struct bytes copy = {0};
    bytes_put(&copy, tensor->data.data, tensor->data.size);
    tensor->dims[0] *= 2;
    bytes_put(&tensor->data, copy.data, copy.size);
    bytes_release(&copy);
    gguf_settle(file);
}

static void drop_row(struct gguf *file, const char *name) {
    struct gguf_tensor *tensor = gguf_tensor(file, name);
    if (tensor->dims[1] == 1) {
        double_row(file, name);
        return;
    }
    tensor->data.size -= tensor->data.size / (size_t)tensor->dims[1];
    tensor->dims[1]--;
    gguf_settle(file);
}

static void set_unread_type(struct gguf *file, const char *name) {
    gguf_tensor(file, name)->type = block_format_by_name("I32")->id;
}

static void set_nan(struct gguf *file, const char *name) {
    struct gguf_tensor *tensor = gguf_tensor(file, name);
    bytes_set_u32(&tensor->data, tensor->data.size - 4, 0x7FC00001);
}

static void set_infinite(struct gguf *file, const char *name) {
    struct gguf_tensor *tensor = gguf_tensor(file, name);
    bytes_set_u32(&tensor->data, tensor->data.size - 4, 0xFF800000);
}

static void set_large(struct gguf *file, const char *name) {
    struct gguf_tensor *tensor = gguf_tensor(file, name);
    bytes_set_u32(&tensor->data, tensor->data.size - 4, 0x7F7FFFFF);
}

static const struct change {
    void (*alter)(struct gguf *file, const char *name);
    wisp_status status;
} changes[] = {{drop, WISP_ERROR_NOT_FOUND},        {double_row, WISP_ERROR_FORMAT},
               {drop_row, WISP_ERROR_FORMAT},       {set_unread_type, WISP_ERROR_UNSUPPORTED},
               {set_nan, WISP_ERROR_FORMAT},        {set_infinite, WISP_ERROR_FORMAT},
               {set_large, WISP_OK /* or FORMAT */}};

struct changing {
    const struct llama_shape *shape;
    const struct change *change;
};

static void change_tensor(void *context, const char *name, uint64_t dim0, uint64_t dim1) {
    const struct changing *c = context;
    struct gguf file;
    struct bytes out = {0};
    (void)dim0;
    (void)dim1;
    llama_make(&file, c->shape);
    c->change->alter(&file, name);
    gguf_write_bytes(&file, &out);
    const struct opening opening = open_data(out.data, out.size);
    expect_typed(&opening);
    /* Logits may come from the token embeddings instead, whose rows are read when a text needs
     * them. */
    const bool untied = strcmp(name, "output.weight") == 0 && c->change->alter == drop;
    const bool row = strcmp(name, "token_embd.weight") == 0 && !c->shape->tied &&
                     (c->change->alter == set_nan || c->change->alter == set_infinite);
    /* The rows of the token embeddings say how many tokens there are: others do not fit them. */
    const bool fewer = strcmp(name, "token_embd.weight") == 0 && c->change->alter == drop_row;
    if (c->change->alter != set_large && !untied && !row)
        expect_outcome(&opening, c->change->status, fewer ? NULL : name, NULL);
    bytes_release(&out);
    gguf_release(&file);
}

static void tensors_are_different(void **state) {
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct changing changing = {*state, &changes[i]};
        llama_each_tensor(*state, change_tensor, &changing);
    }
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Flips one bit of each byte: all of them would take minutes under a sanitizer. */
static void bytes_are_cut_and_flipped(void **state) {
    const struct llama_shape *shape = *state;
    struct sampling sampling = sampling_of("bytes and bits of decoders", 61);
    struct gguf file;
    struct bytes out = {0};
    llama_make(&file, shape);
    gguf_write_bytes(&file, &out);
    gguf_release(&file);
    for (size_t size = sampling_stride(&sampling) - 1; size < out.size;
         size += sampling_stride(&sampling)) {
        const struct opening opening = open_data(out.data, size);
        expect_outcome(&opening, WISP_ERROR_FORMAT, NULL, NULL);
    }
    for (size_t at = 0; at < out.size; at += sampling_stride(&sampling)) {
        const unsigned char mask = (unsigned char)(1u << rng_range(&sampling.rng, 0, 7));
        out.data[at] ^= mask;
        const struct opening opening = open_data(out.data, out.size);
        expect_typed(&opening);
        out.data[at] ^= mask;
    }
    bytes_release(&out);
}

int main(void) {
    static struct CMUnitTest tests[16 * LLAMA_SHAPES];
    static char names[16 * LLAMA_SHAPES][64];
    const struct {
        const char *name;
        CMUnitTestFunction test;
    } all[] = {{"whole_files_open", whole_files_open},
               {"keys_are_missing", keys_are_missing},
               {"keys_have_wrong_types", keys_have_wrong_types},
               {"numbers_are_out_of_range", numbers_are_out_of_range},
               {"arrays_have_wrong_lengths", arrays_have_wrong_lengths},
               {"tokens_are_strange", tokens_are_strange},
               {"types_are_strange", types_are_strange},
               {"merges_are_strange", merges_are_strange},
               {"scores_are_no_numbers", scores_are_no_numbers},
               {"tensors_are_different", tensors_are_different},
               {"bytes_are_cut_and_flipped", bytes_are_cut_and_flipped}};
    size_t n = 0;
    for (size_t s = 0; s < LLAMA_SHAPES; s++)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++, n++) {
            snprintf(names[n], sizeof names[n], "%s%s: %s", llama_shapes[s].architecture,
                     llama_shapes[s].unigram ? ", unigram" : "", all[i].name);
            tests[n] = (struct CMUnitTest){.name = names[n],
                                           .test_func = all[i].test,
                                           .initial_state = (void *)(uintptr_t)&llama_shapes[s]};
        }
    return _cmocka_run_group_tests("decoders", tests, n, NULL, tear_down_temporary_folder);
}
