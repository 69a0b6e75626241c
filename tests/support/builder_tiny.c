/* SPDX-License-Identifier: Apache-2.0
 * The contents of the tiny BERT model, and how they are stored in GGUF. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/directory.h"
#include "support/builder.h"

/* ---- weights -------------------------------------------------------------------------------- */

/* Knuth's 64-bit linear congruential generator. Only its upper bits are used, because they are
 * good. */
static uint32_t next_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static uint64_t seed_of(const char *name) {
    uint64_t seed = 1;
    for (; *name; name++)
        seed = seed * 31 + (unsigned char)*name;
    return seed;
}

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

void tiny_values(const char *name, float *values, size_t n) {
    uint64_t state = seed_of(name);
    const float middle = ends_with(name, "norm.weight") ? 1 : 0;
    for (size_t i = 0; i < n; i++)
        values[i] = middle + (float)(next_random(&state) % 2001) / 1000.0f - 1.0f;
}

struct visitor {
    void (*visit)(void *context, const char *name, uint64_t dim0, uint64_t dim1);
    void *context;
};

static void visit(const struct visitor *v, const char *name, uint64_t dim0, uint64_t dim1) {
    v->visit(v->context, name, dim0, dim1);
}

static void visit_layer(const struct tiny_shape *shape, const struct visitor *v, uint32_t layer) {
    const uint64_t h = shape->hidden, wide = shape->wide;
    enum { BOTH, BERT, NOMIC };
    const struct {
        const char *name;
        uint64_t dim0, dim1;
        int of;
    } tensors[] = {{"attn_q.weight", h, h, BERT},
                   {"attn_q.bias", h, 1, BERT},
                   {"attn_k.weight", h, h, BERT},
                   {"attn_k.bias", h, 1, BERT},
                   {"attn_v.weight", h, h, BERT},
                   {"attn_v.bias", h, 1, BERT},
                   {"attn_qkv.weight", h, 3 * h, NOMIC},
                   {"attn_output.weight", h, h, BOTH},
                   {"attn_output.bias", h, 1, BERT},
                   {"attn_output_norm.weight", h, 1, BOTH},
                   {"attn_output_norm.bias", h, 1, BOTH},
                   {"ffn_gate.weight", h, wide, NOMIC},
                   {"ffn_up.weight", h, wide, BOTH},
                   {"ffn_up.bias", wide, 1, BERT},
                   {"ffn_down.weight", wide, h, BOTH},
                   {"ffn_down.bias", h, 1, BERT},
                   {"layer_output_norm.weight", h, 1, BOTH},
                   {"layer_output_norm.bias", h, 1, BOTH}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        char name[64];
        if (tensors[i].of == (shape->nomic ? BERT : NOMIC))
            continue;
        snprintf(name, sizeof name, "blk.%u.%s", layer, tensors[i].name);
        visit(v, name, tensors[i].dim0, tensors[i].dim1);
    }
}

void tiny_each_tensor(const struct tiny_shape *shape,
                      void (*call)(void *context, const char *name, uint64_t dim0, uint64_t dim1),
                      void *context) {
    const struct visitor v = {call, context};
    visit(&v, "token_embd.weight", shape->hidden, TINY_TOKENS);
    if (!shape->nomic)
        visit(&v, "position_embd.weight", shape->hidden, shape->positions);
    visit(&v, "token_types.weight", shape->hidden, 2);
    visit(&v, "token_embd_norm.weight", shape->hidden, 1);
    visit(&v, "token_embd_norm.bias", shape->hidden, 1);
    for (uint32_t i = 0; i < shape->layers; i++)
        visit_layer(shape, &v, i);
}

/* ---- tensors -------------------------------------------------------------------------------- */

struct making {
    struct gguf *file;
    const struct tiny_shape *shape;
};

/* Types that wisp cannot write get random bytes. Any bytes are valid weights as long as each half
 * float in them is finite and small: below 0x3C00 it is less than 1. */
static void put_arbitrary(struct bytes *data, size_t size, const char *name) {
    uint64_t state = seed_of(name);
    for (size_t i = 0; i < size; i++) {
        const unsigned char byte = (unsigned char)(next_random(&state) & 0x3B);
        bytes_put(data, &byte, 1);
    }
}

static void put_values(struct gguf_tensor *tensor, const struct block_format *format,
                       const char *name, size_t n) {
    const size_t size = n / format->elements * format->bytes;
    if (!format->quantise) {
        put_arbitrary(&tensor->data, size, name);
        return;
    }
    float *values = malloc(n * sizeof *values);
    void *stored = malloc(size);
    if (!values || !stored)
        abort();
    tiny_values(name, values, n);
    format->quantise(values, n, stored);
    bytes_put(&tensor->data, stored, size);
    free(values);
    free(stored);
}

static bool is_matrix(const char *name, uint64_t rows) {
    return rows > 1 && strcmp(name, "position_embd.weight") != 0 &&
           strcmp(name, "token_types.weight") != 0;
}

void tiny_add_tensor(struct gguf *file, const char *name, uint64_t dim0, uint64_t dim1,
                     uint32_t type) {
    if (file->n_tensors == GGUF_MAX_TENSORS)
        abort();
    struct gguf_tensor *tensor = &file->tensors[file->n_tensors++];
    tensor->n_dims = dim1 > 1 ? 2 : 1;
    tensor->dims[0] = dim0;
    tensor->dims[1] = dim1;
    tensor->type = type;
    bytes_put(&tensor->name, name, strlen(name));
    tensor->name_length = strlen(name);
    put_values(tensor, block_format_by_id(type), name, (size_t)(dim0 * dim1));
}

static void make_tensor(void *context, const char *name, uint64_t dim0, uint64_t dim1) {
    const struct making *m = context;
    tiny_add_tensor(m->file, name, dim0, dim1,
                    is_matrix(name, dim1) ? m->shape->type : (uint32_t)BLOCK_F32);
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Spells a token as llama.cpp does: control tokens unchanged, U+2581 before the start of a word. */
static void put_token(struct bytes *out, const char *token, bool special) {
    static const char word_start[] = "\xE2\x96\x81";
    const bool goes_on = strncmp(token, "##", 2) == 0;
    const char *start = special || goes_on ? "" : word_start;
    token += goes_on ? 2 : 0;
    bytes_put_u64(out, strlen(start) + strlen(token));
    bytes_put(out, start, strlen(start));
    bytes_put(out, token, strlen(token));
}

static void make_vocabulary(struct gguf *file) {
    struct bytes tokens = {0};
    int32_t types[TINY_TOKENS];
    bytes_put_u32(&tokens, VALUE_STRING);
    bytes_put_u64(&tokens, TINY_TOKENS);
    for (size_t i = 0; i < TINY_TOKENS; i++) {
        put_token(&tokens, tiny_tokens[i], i < TINY_SPECIAL);
        types[i] = i < TINY_SPECIAL ? 3 : 1;
    }
    gguf_set_text(file, "tokenizer.ggml.model", "bert");
    gguf_set(file, "tokenizer.ggml.tokens", VALUE_ARRAY, tokens.data, tokens.size);
    gguf_set_i32s(file, "tokenizer.ggml.token_type", types, TINY_TOKENS);
    gguf_set_u32(file, "tokenizer.ggml.padding_token_id", 0);
    gguf_set_u32(file, "tokenizer.ggml.unknown_token_id", 1);
    gguf_set_u32(file, "tokenizer.ggml.cls_token_id", 2);
    gguf_set_u32(file, "tokenizer.ggml.seperator_token_id", 3);
    gguf_set_u32(file, "tokenizer.ggml.mask_token_id", 4);
    bytes_release(&tokens);
}

static void make_settings(struct gguf *file, const struct tiny_shape *shape) {
    static const int32_t added[TINY_SPECIAL] = {0, 1, 2, 3, 4};
    static const int32_t flags[TINY_SPECIAL] = {0, 0, 0, 0, 2};
    gguf_set_bool(file, "wisp.tokenizer.clean_text", 1);
    gguf_set_bool(file, "wisp.tokenizer.handle_chinese_chars", 1);
    gguf_set_bool(file, "wisp.tokenizer.strip_accents", 0);
    gguf_set_bool(file, "wisp.tokenizer.lowercase", 1);
    gguf_set_u32(file, "wisp.tokenizer.max_input_chars_per_word", 100);
    gguf_set_i32s(file, "wisp.tokenizer.added_tokens", added, TINY_SPECIAL);
    gguf_set_i32s(file, "wisp.tokenizer.added_flags", flags, TINY_SPECIAL);
    gguf_set_i32s(file, "wisp.tokenizer.continuations", NULL, 0);
    gguf_set_u32(file, "wisp.tokenizer.model_tokens", TINY_TOKENS);
    gguf_set_text(file, "wisp.prompt.query", "the: ");
    gguf_set_text(file, "wisp.default_prompt_name", "query");
    gguf_set_bool(file, "wisp.pool_prompt", 0);
    gguf_set_bool(file, "wisp.normalize", 1);
    gguf_set_u32(file, "wisp.max_seq_length", 12);
    gguf_set_text(file, "wisp.hidden_act", shape->nomic ? "silu" : "gelu");
}

/* Returns a key of the architecture. The string is valid until the next call. */
static const char *key_of(const struct tiny_shape *shape, const char *name) {
    static char key[64];
    snprintf(key, sizeof key, "%s.%s", shape->nomic ? "nomic-bert" : "bert", name);
    return key;
}

void gguf_make(struct gguf *file, const struct tiny_shape *shape) {
    struct making making = {file, shape};
    *file = (struct gguf){.magic = {'G', 'G', 'U', 'F'}, .version = 3, .alignment = 32};
    gguf_set_text(file, "general.architecture", shape->nomic ? "nomic-bert" : "bert");
    gguf_set_text(file, "general.name", "tiny");
    gguf_set_u32(file, "general.alignment", 32);
    gguf_set_u32(file, key_of(shape, "embedding_length"), shape->hidden);
    gguf_set_u32(file, key_of(shape, "feed_forward_length"), shape->wide);
    gguf_set_u32(file, key_of(shape, "block_count"), shape->layers);
    gguf_set_u32(file, key_of(shape, "attention.head_count"), shape->heads);
    gguf_set_u32(file, key_of(shape, "context_length"), shape->positions);
    gguf_set_f32(file, key_of(shape, "attention.layer_norm_epsilon"), 1e-5f);
    gguf_set_u32(file, key_of(shape, "pooling_type"), 1);
    if (shape->nomic)
        gguf_set_f32(file, key_of(shape, "rope.freq_base"), 1000);
    make_vocabulary(file);
    make_settings(file, shape);
    tiny_each_tensor(shape, make_tensor, &making);
    if (shape->rows)
        gguf_make_rows(file, shape);
    gguf_settle(file);
    if (shape->chunk_bytes > 0)
        gguf_set_chunks(file, shape->chunk_bytes);
}
