/* SPDX-License-Identifier: Apache-2.0
 * A small LFM2 model. */
#include <stdio.h>

#include "formats/directory.h"
#include "support/builder_llama.h"

enum { HEADS = 4, KV_HEADS = 2, HEAD_SIZE = LFM2_HIDDEN / HEADS, WIDE = 24, F32 = 0 };

static const int32_t kv_heads[LFM2_LAYERS] = {0, KV_HEADS, 0, 0};

static void make_vocabulary(struct gguf *file) {
    static char spellings[LFM2_TOKENS][8];
    const char *texts[LFM2_TOKENS];
    int32_t types[LFM2_TOKENS];
    float scores[LFM2_TOKENS];
    for (int i = 0; i < LFM2_TOKENS; i++) {
        snprintf(spellings[i], sizeof spellings[i], i < 3 ? "<%d>" : "t%d", i);
        texts[i] = spellings[i];
        types[i] = i == 0 ? 2 : i < 3 ? 3 : 1; /* unknown, control, normal */
        scores[i] = (float)-i;
    }
    gguf_set_text(file, "tokenizer.ggml.model", "llama");
    gguf_set_texts(file, "tokenizer.ggml.tokens", texts, LFM2_TOKENS);
    gguf_set_f32s(file, "tokenizer.ggml.scores", scores, LFM2_TOKENS);
    gguf_set_i32s(file, "tokenizer.ggml.token_type", types, LFM2_TOKENS);
    gguf_set_u32(file, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_u32(file, "tokenizer.ggml.eos_token_id", 2);
    gguf_set_u32(file, "tokenizer.ggml.unknown_token_id", 0);
}

struct shape {
    const char *name;
    uint64_t dim0, dim1;
};

static void add_tensors(struct gguf *file, int layer, const struct shape *shapes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.%s.weight", layer, shapes[i].name);
        tiny_add_tensor(file, name, shapes[i].dim0, shapes[i].dim1, F32);
    }
}

static void make_layer(struct gguf *file, int layer) {
    static const struct shape common[] = {{"attn_norm", LFM2_HIDDEN, 1},
                                          {"ffn_norm", LFM2_HIDDEN, 1},
                                          {"ffn_gate", LFM2_HIDDEN, WIDE},
                                          {"ffn_up", LFM2_HIDDEN, WIDE},
                                          {"ffn_down", WIDE, LFM2_HIDDEN}};
    static const struct shape convolution[] = {{"shortconv.in_proj", LFM2_HIDDEN, 3 * LFM2_HIDDEN},
                                               {"shortconv.conv", LFM2_TAPS, LFM2_HIDDEN},
                                               {"shortconv.out_proj", LFM2_HIDDEN, LFM2_HIDDEN}};
    static const struct shape attention[] = {{"attn_q", LFM2_HIDDEN, LFM2_HIDDEN},
                                             {"attn_k", LFM2_HIDDEN, KV_HEADS * HEAD_SIZE},
                                             {"attn_v", LFM2_HIDDEN, KV_HEADS * HEAD_SIZE},
                                             {"attn_output", LFM2_HIDDEN, LFM2_HIDDEN},
                                             {"attn_q_norm", HEAD_SIZE, 1},
                                             {"attn_k_norm", HEAD_SIZE, 1}};
    add_tensors(file, layer, common, sizeof common / sizeof *common);
    if (kv_heads[layer] > 0)
        add_tensors(file, layer, attention, sizeof attention / sizeof *attention);
    else
        add_tensors(file, layer, convolution, sizeof convolution / sizeof *convolution);
}

void gguf_make_lfm2(struct gguf *file) {
    *file = (struct gguf){.magic = {'G', 'G', 'U', 'F'}, .version = 3, .alignment = 32};
    gguf_set_text(file, "general.architecture", "lfm2");
    gguf_set_u32(file, "general.alignment", 32);
    gguf_set_u32(file, "lfm2.embedding_length", LFM2_HIDDEN);
    gguf_set_u32(file, "lfm2.feed_forward_length", WIDE);
    gguf_set_u32(file, "lfm2.block_count", LFM2_LAYERS);
    gguf_set_u32(file, "lfm2.context_length", 1024);
    gguf_set_u32(file, "lfm2.attention.head_count", HEADS);
    gguf_set_i32s(file, "lfm2.attention.head_count_kv", kv_heads, LFM2_LAYERS);
    gguf_set_f32(file, "lfm2.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_set_f32(file, "lfm2.rope.freq_base", 10000);
    gguf_set_u32(file, "lfm2.shortconv.l_cache", LFM2_TAPS);
    make_vocabulary(file);
    tiny_add_tensor(file, "token_embd.weight", LFM2_HIDDEN, LFM2_TOKENS, F32);
    tiny_add_tensor(file, "token_embd_norm.weight", LFM2_HIDDEN, 1, F32);
    for (int l = 0; l < LFM2_LAYERS; l++)
        make_layer(file, l);
    gguf_settle(file);
}
