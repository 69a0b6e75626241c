/* SPDX-License-Identifier: Apache-2.0 */
#include "support/builder_llama.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "formats/directory.h"

const struct llama_shape llama_shapes[LLAMA_SHAPES] = {
    {.architecture = "llama", .tied = true},
    {.architecture = "qwen2", .byte_level = true},
    {.architecture = "qwen3", .byte_level = true, .tied = true},
    {.architecture = "llama", .unigram = true},
};

/* ---- tensors -------------------------------------------------------------------------------- */

void llama_each_tensor(const struct llama_shape *shape,
                       void (*visit)(void *context, const char *name, uint64_t dim0, uint64_t dim1),
                       void *context) {
    const uint64_t h = LLAMA_HIDDEN, wide = LLAMA_WIDE, head = h / 2, tokens = llama_tokens(shape);
    const bool biased = strcmp(shape->architecture, "qwen2") == 0;
    const bool normed = strcmp(shape->architecture, "qwen3") == 0;
    const struct {
        const char *name;
        uint64_t dim0, dim1;
        bool absent;
    } tensors[] = {
        {"attn_norm.weight", h, 1, false},        {"attn_q.weight", h, h, false},
        {"attn_q.bias", h, 1, !biased},           {"attn_k.weight", h, head, false},
        {"attn_k.bias", head, 1, !biased},        {"attn_v.weight", h, head, false},
        {"attn_v.bias", head, 1, !biased},        {"attn_q_norm.weight", head, 1, !normed},
        {"attn_k_norm.weight", head, 1, !normed}, {"attn_output.weight", h, h, false},
        {"ffn_norm.weight", h, 1, false},         {"ffn_gate.weight", h, wide, false},
        {"ffn_up.weight", h, wide, false},        {"ffn_down.weight", wide, h, false}};
    visit(context, "token_embd.weight", h, tokens);
    visit(context, "output_norm.weight", h, 1);
    if (!shape->tied)
        visit(context, "output.weight", h, tokens);
    for (unsigned layer = 0; layer < LLAMA_LAYERS; layer++)
        for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%u.%s", layer, tensors[i].name);
            if (!tensors[i].absent)
                visit(context, name, tensors[i].dim0, tensors[i].dim1);
        }
}

static void make_tensor(void *context, const char *name, uint64_t dim0, uint64_t dim1) {
    tiny_add_tensor(context, name, dim0, dim1, BLOCK_F32);
}

/* ---- keys ----------------------------------------------------------------------------------- */

void gguf_set_f32s(struct gguf *file, const char *name, const float *values, size_t count) {
    struct bytes array = {0};
    bytes_put_u32(&array, VALUE_F32);
    bytes_put_u64(&array, count);
    bytes_put_f32s(&array, values, count);
    gguf_set(file, name, VALUE_ARRAY, array.data, array.size);
    bytes_release(&array);
}

enum { MAX_TOKENS = 300 };

struct vocabulary {
    const char *tokens[MAX_TOKENS];
    int32_t types[MAX_TOKENS];
    float scores[MAX_TOKENS];
    size_t count;
    char spelled[256][8]; /* the tokens of bytes */
};

static void add(struct vocabulary *v, const char *token, int32_t type) {
    v->tokens[v->count] = token;
    v->types[v->count] = type;
    v->scores[v->count] = -(float)v->count;
    v->count++;
}

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, BYTE = 6 };

static void make_sentencepiece(struct vocabulary *v) {
    static const char *const pieces[] = {"\u2581", "t",   "h",         "e",       "a",
                                         "th",     "the", "\u2581the", "\u2581a", "n"};
    *v = (struct vocabulary){.count = 0};
    add(v, "<unk>", UNKNOWN);
    add(v, "<s>", CONTROL);
    add(v, "</s>", CONTROL);
    for (unsigned b = 0; b < 256; b++) {
        snprintf(v->spelled[b], sizeof v->spelled[b], "<0x%02X>", b);
        add(v, v->spelled[b], BYTE);
    }
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        add(v, pieces[i], NORMAL);
}

static const char *const merges[] = {"t h", "th e", "\u0120 the", "\u0120 a"};
enum { MERGES = sizeof merges / sizeof *merges };

static void make_byte_level(struct vocabulary *v) {
    static const char *const pieces[] = {"th", "the", "\u0120the", "\u0120a"};
    uint32_t others = 0x100;
    *v = (struct vocabulary){.count = 0};
    for (uint32_t b = 0; b < 256; b++) {
        const bool printable = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
        v->spelled[b][utf8_encode(printable ? b : others++, v->spelled[b])] = 0;
        add(v, v->spelled[b], NORMAL);
    }
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        add(v, pieces[i], NORMAL);
    add(v, "<think>", USER_DEFINED);
    add(v, "<|im_start|>", CONTROL);
    add(v, "<|im_end|>", CONTROL);
}

static void make_vocabulary(struct vocabulary *v, const struct llama_shape *shape) {
    if (shape->byte_level)
        make_byte_level(v);
    else
        make_sentencepiece(v);
}

size_t llama_tokens(const struct llama_shape *shape) {
    struct vocabulary v;
    make_vocabulary(&v, shape);
    return v.count;
}

void llama_make(struct gguf *file, const struct llama_shape *shape) {
    struct vocabulary v;
    char key[64];
    const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {{"embedding_length", LLAMA_HIDDEN}, {"feed_forward_length", LLAMA_WIDE},
                 {"block_count", LLAMA_LAYERS},      {"attention.head_count", 2},
                 {"attention.head_count_kv", 1},     {"context_length", LLAMA_POSITIONS},
                 {"rope.dimension_count", 4},        {"attention.key_length", 4},
                 {"attention.value_length", 4}};
    *file = (struct gguf){.magic = {'G', 'G', 'U', 'F'}, .version = 3, .alignment = 32};
    gguf_set_text(file, "general.architecture", shape->architecture);
    gguf_set_text(file, "general.name", "tiny decoder");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(key, sizeof key, "%s.%s", shape->architecture, sizes[i].name);
        gguf_set_u32(file, key, sizes[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", shape->architecture);
    gguf_set_f32(file, key, 1e-5f);
    snprintf(key, sizeof key, "%s.rope.freq_base", shape->architecture);
    gguf_set_f32(file, key, 1000);
    make_vocabulary(&v, shape);
    gguf_set_text(file, "tokenizer.ggml.model",
                  shape->byte_level ? "gpt2"
                  : shape->unigram  ? "t5"
                                    : "llama");
    gguf_set_texts(file, "tokenizer.ggml.tokens", v.tokens, v.count);
    gguf_set_i32s(file, "tokenizer.ggml.token_type", v.types, v.count);
    if (shape->byte_level) {
        gguf_set_text(file, "tokenizer.ggml.pre", "qwen2");
        gguf_set_texts(file, "tokenizer.ggml.merges", merges, MERGES);
        gguf_set_u32(file, "tokenizer.ggml.eos_token_id", (uint32_t)v.count - 1);
        gguf_set_bool(file, "tokenizer.ggml.add_bos_token", 0);
        gguf_set_text(
            file, "tokenizer.chat_template",
            "{% for m in messages %}{{ '<|im_start|>' + m.role + m.content + '<|im_end|>' }}"
            "{% endfor %}{{ enable_thinking }}");
    } else {
        gguf_set_f32s(file, "tokenizer.ggml.scores", v.scores, v.count);
        gguf_set_u32(file, "tokenizer.ggml.bos_token_id", 1);
        gguf_set_u32(file, "tokenizer.ggml.eos_token_id", 2);
        gguf_set_u32(file, "tokenizer.ggml.unknown_token_id", 0);
        gguf_set_bool(file, "tokenizer.ggml.add_bos_token", 1);
        gguf_set_bool(file, "tokenizer.ggml.add_space_prefix", 1);
        gguf_set_text(file, "tokenizer.chat_template",
                      "{{ bos_token + '[INST] ' + messages[-1].content + ' [/INST]' }}");
    }
    llama_each_tensor(shape, make_tensor, file);
    gguf_settle(file);
}
