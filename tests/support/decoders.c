/* SPDX-License-Identifier: Apache-2.0 */
#include "support/decoders.h"

#include <stdio.h>
#include <string.h>

#include "formats/directory.h"
#include "support/opening.h"

enum { HEADS = 4, KV_HEADS = 2, HEAD_SIZE = 8, SPECIAL = 3, BYTES = 256 };
/* Of latent attention, whose heads have keys of HEAD_SIZE values, too. */
enum { LATENT = 12, Q_LATENT = 20, ROTATED = 4, VALUE_SIZE = 6 };

const struct tiny_decoder tiny_decoders[] = {
    {.name = "llama", .architecture = "llama"},
    {.name = "llama with windows", .architecture = "llama", .window = 21},
    {.name = "llama with gates of ReLU", .architecture = "llama", .activation = "relu"},
    {.name = "llama with gates of squared ReLU", .architecture = "llama", .activation = "relu2"},
    {.name = "llama with ReLU", .architecture = "llama", .activation = "relu", .ungated = true},
    {.name = "llama with squared ReLU",
     .architecture = "llama",
     .activation = "relu2",
     .ungated = true},
    {.name = "qwen2", .architecture = "qwen2"},
    {.name = "qwen3", .architecture = "qwen3"},
    {.name = "gpt2", .architecture = "gpt2"},
    {.name = "gpt2 with ReLU", .architecture = "gpt2", .activation = "relu"},
    {.name = "gemma2", .architecture = "gemma2", .window = 30},
    {.name = "gemma3", .architecture = "gemma3", .window = 17},
    {.name = "granite", .architecture = "granite"},
    {.name = "minicpm", .architecture = "minicpm"},
    {.name = "olmo2", .architecture = "olmo2"},
    {.name = "olmo2 with windows", .architecture = "olmo2", .window = 19},
    {.name = "smollm3", .architecture = "smollm3"},
    {.name = "starcoder2", .architecture = "starcoder2", .window = 23},
    {.name = "phi3", .architecture = "phi3", .window = 25},
    {.name = "phi3 that rotates a part of each head", .architecture = "phi3", .rotated = 6},
    {.name = "gptneox", .architecture = "gptneox", .rotated = 4},
    {.name = "gptneox with ReLU", .architecture = "gptneox", .activation = "relu"},
    {.name = "stablelm", .architecture = "stablelm", .rotated = 2},
    {.name = "qwen3moe", .architecture = "qwen3moe", .experts = 6},
    {.name = "olmoe", .architecture = "olmoe", .experts = 4},
    {.name = "granitemoe", .architecture = "granitemoe", .experts = 9},
    {.name = "gpt-oss", .architecture = "gpt-oss", .experts = 5, .window = 18},
    {.name = "deepseek2", .architecture = "deepseek2", .experts = 6, .rotated = 4},
    {.name = "bitnet", .architecture = "bitnet-b1.58"},
    {.name = "bitnet with SiLU", .architecture = "bitnet"},
    {.name = "mistral3", .architecture = "mistral3"},
    {.name = "glm4", .architecture = "glm4", .rotated = 4},
    {.name = "a decoder that only tests have", .architecture = "other-decoder"},
    {0}};

static bool is(const struct tiny_decoder *d, const char *architecture) {
    return strcmp(d->architecture, architecture) == 0;
}

static bool is_gemma(const struct tiny_decoder *d) {
    return is(d, "gemma2") || is(d, "gemma3");
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Returns a key of the architecture. The string is valid until the next call. */
static const char *key_of(const struct tiny_decoder *d, const char *name) {
    static char key[64];
    snprintf(key, sizeof key, "%s.%s", d->architecture, name);
    return key;
}

static void make_vocabulary(struct gguf *file) {
    static char spellings[DECODER_VOCABULARY][8];
    const char *tokens[DECODER_VOCABULARY];
    int32_t types[DECODER_VOCABULARY];
    float scores[DECODER_VOCABULARY];
    static const char *const special[SPECIAL] = {"<unk>", "<s>", "</s>"};
    struct bytes array = {0};
    for (int i = 0; i < DECODER_VOCABULARY; i++) {
        if (i < SPECIAL)
            snprintf(spellings[i], sizeof spellings[i], "%s", special[i]);
        else if (i < SPECIAL + BYTES)
            snprintf(spellings[i], sizeof spellings[i], "<0x%02X>", i - SPECIAL);
        else
            snprintf(spellings[i], sizeof spellings[i], "%c", 'a' + i - SPECIAL - BYTES);
        tokens[i] = spellings[i];
        types[i] = i == 0 ? 2 : i < SPECIAL ? 3 : i < SPECIAL + BYTES ? 6 : 1;
        scores[i] = -(float)i;
    }
    bytes_put_u32(&array, VALUE_F32);
    bytes_put_u64(&array, DECODER_VOCABULARY);
    bytes_put_f32s(&array, scores, DECODER_VOCABULARY);
    gguf_set_text(file, "tokenizer.ggml.model", "llama");
    gguf_set_texts(file, "tokenizer.ggml.tokens", tokens, DECODER_VOCABULARY);
    gguf_set(file, "tokenizer.ggml.scores", VALUE_ARRAY, array.data, array.size);
    gguf_set_i32s(file, "tokenizer.ggml.token_type", types, DECODER_VOCABULARY);
    gguf_set_u32(file, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_u32(file, "tokenizer.ggml.eos_token_id", 2);
    bytes_release(&array);
}

static bool has_layer_norms(const struct tiny_decoder *d) {
    return is(d, "gpt2") || is(d, "starcoder2") || is(d, "gptneox") || is(d, "stablelm");
}

static void make_keys(struct gguf *file, const struct tiny_decoder *d) {
    gguf_set_text(file, "general.architecture", d->architecture);
    gguf_set_text(file, "general.name", "tiny");
    gguf_set_u32(file, key_of(d, "context_length"), DECODER_POSITIONS);
    gguf_set_u32(file, key_of(d, "embedding_length"), DECODER_HIDDEN);
    gguf_set_u32(file, key_of(d, "feed_forward_length"), DECODER_WIDE);
    gguf_set_u32(file, key_of(d, "block_count"), DECODER_LAYERS);
    gguf_set_u32(file, key_of(d, "attention.head_count"), HEADS);
    if (d->activation)
        gguf_set_text(file, "wisp.hidden_act", d->activation);
    if (is(d, "gpt2")) {
        gguf_set_f32(file, key_of(d, "attention.layer_norm_epsilon"), 1e-5f);
        return;
    }
    const bool latent = is(d, "deepseek2");
    gguf_set_u32(file, key_of(d, "attention.head_count_kv"),
                 latent             ? 1
                 : is(d, "gptneox") ? HEADS
                                    : KV_HEADS);
    gguf_set_u32(file, key_of(d, "attention.key_length"), latent ? LATENT + ROTATED : HEAD_SIZE);
    gguf_set_u32(file, key_of(d, "attention.value_length"), latent ? LATENT : HEAD_SIZE);
    if (latent) {
        gguf_set_u32(file, key_of(d, "attention.kv_lora_rank"), LATENT);
        gguf_set_u32(file, key_of(d, "attention.q_lora_rank"), Q_LATENT);
        gguf_set_u32(file, key_of(d, "attention.key_length_mla"), HEAD_SIZE);
        gguf_set_u32(file, key_of(d, "attention.value_length_mla"), VALUE_SIZE);
        gguf_set_u32(file, key_of(d, "leading_dense_block_count"), 1);
        gguf_set_u32(file, key_of(d, "expert_shared_count"), 1);
        gguf_set_f32(file, key_of(d, "expert_weights_scale"), 1.8f);
    }
    gguf_set_f32(file,
                 key_of(d, has_layer_norms(d) ? "attention.layer_norm_epsilon"
                                              : "attention.layer_norm_rms_epsilon"),
                 1e-5f);
    gguf_set_u32(file, key_of(d, "rope.dimension_count"), d->rotated > 0 ? d->rotated : HEAD_SIZE);
    gguf_set_f32(file, key_of(d, "rope.freq_base"), 1000);
    if (d->window > 0)
        gguf_set_u32(file, key_of(d, "attention.sliding_window"), d->window);
    if (d->experts > 0) {
        gguf_set_u32(file, key_of(d, "expert_count"), d->experts);
        gguf_set_u32(file, key_of(d, "expert_used_count"), DECODER_USED_EXPERTS);
        gguf_set_u32(file, key_of(d, "expert_feed_forward_length"), DECODER_EXPERT);
    }
    if (is(d, "granite") || is(d, "granitemoe")) {
        gguf_set_f32(file, key_of(d, "attention.scale"), 0.4f);
        gguf_set_f32(file, key_of(d, "embedding_scale"), 6);
        gguf_set_f32(file, key_of(d, "residual_scale"), 0.3f);
        gguf_set_f32(file, key_of(d, "logit_scale"), 4);
    }
    if (is(d, "mistral3")) {
        gguf_set_f32(file, key_of(d, "attention.temperature_scale"), 0.5f);
        gguf_set_u32(file, key_of(d, "rope.scaling.original_context_length"), 7);
    }
    if (is(d, "gemma2")) {
        gguf_set_f32(file, key_of(d, "attn_logit_softcapping"), 5);
        gguf_set_f32(file, key_of(d, "final_logit_softcapping"), 3);
    }
    if (is(d, "gpt-oss")) {
        gguf_set_text(file, key_of(d, "rope.scaling.type"), "yarn");
        gguf_set_f32(file, key_of(d, "rope.scaling.factor"), 4);
        gguf_set_u32(file, key_of(d, "rope.scaling.original_context_length"), 64);
    }
    if (is(d, "gemma3")) { /* the middle layer is global, positions scaled linearly */
        gguf_set_u32(file, key_of(d, "attention.sliding_window_pattern"), 2);
        gguf_set_f32(file, key_of(d, "rope.freq_base_swa"), 100);
        gguf_set_text(file, key_of(d, "rope.scaling.type"), "linear");
        gguf_set_f32(file, key_of(d, "rope.scaling.factor"), 8);
    }
}

/* ---- tensors -------------------------------------------------------------------------------- */

static void add_weight(struct gguf *file, const char *name, uint64_t inputs, uint64_t outputs) {
    char full[80];
    snprintf(full, sizeof full, "%s.weight", name);
    tiny_add_tensor(file, full, inputs, outputs, BLOCK_F32);
}

/* Adds a weight, and with `biased` a bias of `outputs` values. A norm has one output. */
static void add(struct gguf *file, const char *name, uint64_t inputs, uint64_t outputs,
                bool biased) {
    char full[80];
    add_weight(file, name, inputs, outputs);
    snprintf(full, sizeof full, "%s.bias", name);
    if (biased)
        tiny_add_tensor(file, full, outputs > 1 ? outputs : inputs, 1, BLOCK_F32);
}

/* Adds a tensor of the matrices of all experts, and with `biased` one of their biases. */
static void add_experts(struct gguf *file, uint32_t layer, const char *part, uint64_t inputs,
                        uint64_t outputs, uint64_t experts, bool biased) {
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s.bias", layer, part);
    if (biased)
        tiny_add_tensor(file, name, outputs, experts, BLOCK_F32);
    snprintf(name, sizeof name, "blk.%u.%s", layer, part);
    add_weight(file, name, inputs, outputs * experts);
    struct gguf_tensor *tensor = &file->tensors[file->n_tensors - 1];
    tensor->n_dims = 3;
    tensor->dims[1] = outputs;
    tensor->dims[2] = experts;
}

/* Adds a tensor of a matrix for each head. */
static void add_heads(struct gguf *file, uint32_t layer, const char *part, uint64_t inputs,
                      uint64_t outputs) {
    add_experts(file, layer, part, inputs, outputs, HEADS, false);
}

/* A layer with latent attention, the first of which is dense. */
static void make_latent_layer(struct gguf *file, const struct tiny_decoder *d, uint32_t layer) {
    enum { H = DECODER_HIDDEN, WIDE = DECODER_WIDE, SHARED = DECODER_EXPERT };
    const bool dense = layer == 0;
    const struct {
        const char *name;
        uint64_t inputs, outputs;
        bool present;
    } parts[] = {{"attn_norm", H, 1, true},
                 {"attn_q_a", H, Q_LATENT, true},
                 {"attn_q_a_norm", Q_LATENT, 1, true},
                 {"attn_q_b", Q_LATENT, HEADS * HEAD_SIZE, true},
                 {"attn_kv_a_mqa", H, LATENT + ROTATED, true},
                 {"attn_kv_a_norm", LATENT, 1, true},
                 {"attn_output", HEADS * VALUE_SIZE, H, true},
                 {"ffn_norm", H, 1, true},
                 {"ffn_gate", H, WIDE, dense},
                 {"ffn_up", H, WIDE, dense},
                 {"ffn_down", WIDE, H, dense},
                 {"ffn_gate_inp", H, d->experts, !dense},
                 {"ffn_gate_shexp", H, SHARED, !dense},
                 {"ffn_up_shexp", H, SHARED, !dense},
                 {"ffn_down_shexp", SHARED, H, !dense}};
    char name[64];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(name, sizeof name, "blk.%u.%s", layer, parts[i].name);
        if (parts[i].present)
            add(file, name, parts[i].inputs, parts[i].outputs, false);
    }
    add_heads(file, layer, "attn_k_b", HEAD_SIZE - ROTATED, LATENT);
    add_heads(file, layer, "attn_v_b", LATENT, VALUE_SIZE);
    if (dense)
        return;
    snprintf(name, sizeof name, "blk.%u.exp_probs_b.bias", layer);
    tiny_add_tensor(file, name, d->experts, 1, BLOCK_F32);
    add_experts(file, layer, "ffn_gate_exps", H, DECODER_EXPERT, d->experts, false);
    add_experts(file, layer, "ffn_up_exps", H, DECODER_EXPERT, d->experts, false);
    add_experts(file, layer, "ffn_down_exps", DECODER_EXPERT, H, d->experts, false);
}

static void make_layer(struct gguf *file, const struct tiny_decoder *d, uint32_t layer) {
    enum { H = DECODER_HIDDEN, WIDE = DECODER_WIDE, Q = HEADS * HEAD_SIZE };
    enum { KV = KV_HEADS * HEAD_SIZE };
    const bool phi3 = is(d, "phi3"); /* whose files stack matrices */
    const bool gpt2 = is(d, "gpt2") || is(d, "gptneox"), apart = !gpt2 && !phi3,
               star = is(d, "starcoder2"), oss = is(d, "gpt-oss"), biased = gpt2 || star || oss,
               qwen2 = is(d, "qwen2"), olmo2 = is(d, "olmo2"), norm_biased = has_layer_norms(d);
    const bool glm4 = is(d, "glm4");                 /* which stacks W_gate on W_up */
    const bool after = is_gemma(d) || olmo2 || glm4; /* norms after blocks */
    const bool wide = olmo2 || is(d, "olmoe");
    const bool normal_heads = is(d, "qwen3") || is(d, "gemma3") || is(d, "qwen3moe") || wide;
    const bool dense = d->experts == 0, bitnet = is(d, "bitnet") || is(d, "bitnet-b1.58");
    const struct {
        const char *name;
        uint64_t inputs, outputs;
        bool present, biased;
    } parts[] = {{"attn_norm", H, 1, !olmo2, norm_biased},
                 {"attn_qkv", H, gpt2 ? 3 * Q : Q + 2 * KV, !apart, gpt2},
                 {"attn_q", H, Q, apart, qwen2 || star || oss},
                 {"attn_k", H, KV, apart, qwen2 || star || oss},
                 {"attn_v", H, KV, apart, qwen2 || star || oss},
                 {"attn_q_norm", wide ? Q : HEAD_SIZE, 1, normal_heads, false},
                 {"attn_k_norm", wide ? KV : HEAD_SIZE, 1, normal_heads, false},
                 {"attn_output", Q, H, true, biased},
                 {"attn_sinks", HEADS, 1, oss, false},
                 {"attn_sub_norm", Q, 1, bitnet, false},
                 {"ffn_sub_norm", WIDE, 1, bitnet, false},
                 {"post_attention_norm", H, 1, after || oss, false},
                 {"ffn_norm", H, 1, !olmo2 && !oss, norm_biased},
                 {"ffn_gate", H, WIDE, apart && !star && !glm4 && !d->ungated && dense, false},
                 {"ffn_up", H, phi3 || glm4 ? 2 * WIDE : WIDE, dense, biased},
                 {"ffn_down", WIDE, H, dense, biased},
                 {"ffn_gate_inp", H, d->experts, !dense, oss},
                 {"post_ffw_norm", H, 1, after, false}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.%s", layer, parts[i].name);
        if (parts[i].present)
            add(file, name, parts[i].inputs, parts[i].outputs, parts[i].biased);
    }
    if (!dense) {
        add_experts(file, layer, "ffn_gate_exps", H, DECODER_EXPERT, d->experts, oss);
        add_experts(file, layer, "ffn_up_exps", H, DECODER_EXPERT, d->experts, oss);
        add_experts(file, layer, "ffn_down_exps", DECODER_EXPERT, H, d->experts, oss);
    }
}

const struct tiny_decoder *find_tiny(const char *name) {
    const struct tiny_decoder *tiny = tiny_decoders;
    while (strcmp(tiny->name, name) != 0)
        tiny++;
    return tiny;
}

const char *write_decoder(const struct tiny_decoder *d, const char *name) {
    struct gguf file;
    decoder_make(&file, d);
    return write_made(&file, name);
}

void decoder_make(struct gguf *file, const struct tiny_decoder *d) {
    const bool gpt2 = is(d, "gpt2");
    *file = (struct gguf){.magic = {'G', 'G', 'U', 'F'}, .version = 3, .alignment = 32};
    make_keys(file, d);
    make_vocabulary(file);
    add_weight(file, "token_embd", DECODER_HIDDEN, DECODER_VOCABULARY);
    if (gpt2)
        add_weight(file, "position_embd", DECODER_HIDDEN, DECODER_POSITIONS);
    add(file, "output_norm", DECODER_HIDDEN, 1, has_layer_norms(d));
    for (uint32_t layer = 0; layer < DECODER_LAYERS; layer++)
        (is(d, "deepseek2") ? make_latent_layer : make_layer)(file, d, layer);
    gguf_settle(file);
}

wisp_status decoder_open(struct gguf *file, struct opened_decoder *decoder, wisp_error *error) {
    const wisp_model_options options = {.compute = WISP_COMPUTE_F32};
    *decoder = (struct opened_decoder){0};
    gguf_write_bytes(file, &decoder->bytes);
    gguf_release(file);
    const wisp_source source = {
        .size = decoder->bytes.size, .data = decoder->bytes.data, .name = "tiny.gguf"};
    return wisp_model_open_source(&source, &options, &decoder->model, error);
}

void decoder_release(struct opened_decoder *decoder) {
    wisp_model_close(decoder->model);
    bytes_release(&decoder->bytes);
}

/* Sets the ids of the text [DECODER_POSITIONS]. */
static void make_ids(int32_t *ids) {
    for (int32_t t = 0; t < DECODER_POSITIONS; t++)
        ids[t] = (t * t * 31 + t * 7 + 3) % DECODER_VOCABULARY;
}

wisp_status decoder_logits(wisp_session *session, size_t n, float *logits, wisp_error *error) {
    int32_t ids[DECODER_POSITIONS];
    make_ids(ids);
    return wisp_logits(session, ids, n, logits, error);
}

wisp_status decoder_logits_one_by_one(wisp_session *session, size_t n, float *logits,
                                      wisp_error *error) {
    int32_t ids[DECODER_POSITIONS];
    wisp_status status = WISP_OK;
    make_ids(ids);
    for (size_t t = 0; t < n && status == WISP_OK; t++)
        status = wisp_next_logits(session, ids, t + 1, logits + t * DECODER_VOCABULARY, error);
    return status;
}
