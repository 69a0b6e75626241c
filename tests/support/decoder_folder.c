/* SPDX-License-Identifier: Apache-2.0 */
#include "support/decoder_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "support/rng.h"

enum { HIDDEN = 8, INNER = 12, KV = 4 };

static void put_text(struct bytes *out, const char *text) {
    bytes_put(out, text, strlen(text));
}

static void put_file(struct folder *folder, const char *name, struct bytes *contents) {
    folder_put(folder, name, contents->data, contents->size);
    bytes_release(contents);
}

/* ---- weights -------------------------------------------------------------------------------- */

struct shape {
    const char *name;
    unsigned dims[4]; /* the slowest first; 0: there are no more */
};

/* Adds model.safetensors. Names come after `prefix`; one with a % is of each of `layers`,
 * one that begins with # is of bytes, of which packed weights consist, and one that begins with 3
 * of bytes of four codes from 0 to 2. */
static void make_weights(struct folder *folder, const char *prefix, unsigned layers,
                         const struct shape *tensors, size_t count) {
    struct bytes header = {0}, data = {0}, file = {0};
    put_text(&header, "{");
    for (unsigned l = 0; l < layers; l++)
        for (size_t i = 0; i < count; i++) {
            const unsigned *dims = tensors[i].dims;
            const size_t start = data.size;
            const bool ternary = tensors[i].name[0] == '3';
            const bool packed = tensors[i].name[0] == '#' || ternary;
            const char *whole = tensors[i].name + packed, *number = strchr(whole, '%');
            char name[96], text[256], shape[48] = "";
            struct rng rng = {1 + i + l * 100}; /* a tensor more leaves the others as they are */
            size_t n = 1;
            if (l > 0 && !number)
                continue;
            snprintf(name, sizeof name, "%.*s", number ? (int)(number - whole) : 95, whole);
            if (number)
                snprintf(name + strlen(name), sizeof name - strlen(name), "%u%s", l, number + 1);
            for (size_t d = 0; d < 4 && dims[d] > 0; d++) {
                snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%u", d ? "," : "",
                         dims[d]);
                n *= dims[d];
            }
            for (size_t k = 0; k < n && packed; k++) {
                size_t byte = rng_below(&rng, ternary ? 3 : 128);
                for (size_t c = 1; c < 4 && ternary; c++)
                    byte = byte << 2 | rng_below(&rng, 3);
                bytes_put(&data, &(const unsigned char){(unsigned char)byte}, 1);
            }
            for (size_t k = 0; k < n && !packed; k++)
                bytes_put_f32s(&data, &(const float){(float)rng_below(&rng, 200) / 100 - 1}, 1);
            snprintf(text, sizeof text,
                     "%s\"%s%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                     start > 0 ? "," : "", prefix, name, packed ? "U8" : "F32", shape, start,
                     data.size);
            put_text(&header, text);
        }
    put_text(&header, "}");
    safetensors_put(&file, (const char *)header.data, header.size, data.data, data.size);
    bytes_release(&header);
    bytes_release(&data);
    put_file(folder, "model.safetensors", &file);
}

#define WEIGHTS_OF(folder, prefix, layers, tensors)                                                \
    make_weights(folder, prefix, layers, tensors, sizeof(tensors) / sizeof *(tensors))

static const struct shape llama[] = {{"embed_tokens.weight", {FOLDER_TOKENS, HIDDEN}},
                                     {"norm.weight", {HIDDEN}},
                                     {"layers.%.input_layernorm.weight", {HIDDEN}},
                                     {"layers.%.self_attn.q_proj.weight", {HIDDEN, HIDDEN}},
                                     {"layers.%.self_attn.k_proj.weight", {KV, HIDDEN}},
                                     {"layers.%.self_attn.v_proj.weight", {KV, HIDDEN}},
                                     {"layers.%.self_attn.o_proj.weight", {HIDDEN, HIDDEN}},
                                     {"layers.%.post_attention_layernorm.weight", {HIDDEN}},
                                     {"layers.%.mlp.gate_proj.weight", {INNER, HIDDEN}},
                                     {"layers.%.mlp.up_proj.weight", {INNER, HIDDEN}},
                                     {"layers.%.mlp.down_proj.weight", {HIDDEN, INNER}}};

/* Heads have as many values as KV. Gemma 2 has all but the last two. */
static const struct shape gemma[] = {{"embed_tokens.weight", {FOLDER_TOKENS, HIDDEN}},
                                     {"norm.weight", {HIDDEN}},
                                     {"layers.%.input_layernorm.weight", {HIDDEN}},
                                     {"layers.%.self_attn.q_proj.weight", {HIDDEN, HIDDEN}},
                                     {"layers.%.self_attn.k_proj.weight", {KV, HIDDEN}},
                                     {"layers.%.self_attn.v_proj.weight", {KV, HIDDEN}},
                                     {"layers.%.self_attn.o_proj.weight", {HIDDEN, HIDDEN}},
                                     {"layers.%.post_attention_layernorm.weight", {HIDDEN}},
                                     {"layers.%.pre_feedforward_layernorm.weight", {HIDDEN}},
                                     {"layers.%.post_feedforward_layernorm.weight", {HIDDEN}},
                                     {"layers.%.mlp.gate_proj.weight", {INNER, HIDDEN}},
                                     {"layers.%.mlp.up_proj.weight", {INNER, HIDDEN}},
                                     {"layers.%.mlp.down_proj.weight", {HIDDEN, INNER}},
                                     {"layers.%.self_attn.q_norm.weight", {KV}},
                                     {"layers.%.self_attn.k_norm.weight", {KV}}};

static const struct shape gpt2[] = {{"wte.weight", {FOLDER_TOKENS, HIDDEN}},
                                    {"wpe.weight", {64, HIDDEN}},
                                    {"ln_f.weight", {HIDDEN}},
                                    {"ln_f.bias", {HIDDEN}},
                                    {"h.%.ln_1.weight", {HIDDEN}},
                                    {"h.%.ln_1.bias", {HIDDEN}},
                                    {"h.%.attn.bias", {2, 2}}, /* an old mask */
                                    {"h.%.attn.c_attn.weight", {HIDDEN, 3 * HIDDEN}},
                                    {"h.%.attn.c_attn.bias", {3 * HIDDEN}},
                                    {"h.%.attn.c_proj.weight", {HIDDEN, HIDDEN}},
                                    {"h.%.attn.c_proj.bias", {HIDDEN}},
                                    {"h.%.ln_2.weight", {HIDDEN}},
                                    {"h.%.ln_2.bias", {HIDDEN}},
                                    {"h.%.mlp.c_fc.weight", {HIDDEN, INNER}},
                                    {"h.%.mlp.c_fc.bias", {INNER}},
                                    {"h.%.mlp.c_proj.weight", {INNER, HIDDEN}},
                                    {"h.%.mlp.c_proj.bias", {HIDDEN}}};

static const struct shape lfm2[] = {{"embed_tokens.weight", {FOLDER_TOKENS, HIDDEN}},
                                    {"embedding_norm.weight", {HIDDEN}},
                                    {"layers.%.operator_norm.weight", {HIDDEN}},
                                    {"layers.%.ffn_norm.weight", {HIDDEN}},
                                    {"layers.%.feed_forward.w1.weight", {INNER, HIDDEN}},
                                    {"layers.%.feed_forward.w3.weight", {INNER, HIDDEN}},
                                    {"layers.%.feed_forward.w2.weight", {HIDDEN, INNER}},
                                    {"layers.0.conv.conv.weight", {HIDDEN, 1, 3}},
                                    {"layers.0.conv.in_proj.weight", {3 * HIDDEN, HIDDEN}},
                                    {"layers.0.conv.out_proj.weight", {HIDDEN, HIDDEN}},
                                    {"layers.1.self_attn.q_proj.weight", {HIDDEN, HIDDEN}},
                                    {"layers.1.self_attn.k_proj.weight", {KV, HIDDEN}},
                                    {"layers.1.self_attn.v_proj.weight", {KV, HIDDEN}},
                                    {"layers.1.self_attn.out_proj.weight", {HIDDEN, HIDDEN}},
                                    {"layers.1.self_attn.q_layernorm.weight", {KV}},
                                    {"layers.1.self_attn.k_layernorm.weight", {KV}}};

static const struct shape phi3[] = {
    {"embed_tokens.weight", {FOLDER_TOKENS, HIDDEN}},
    {"norm.weight", {HIDDEN}},
    {"layers.%.input_layernorm.weight", {HIDDEN}},
    {"layers.%.self_attn.qkv_proj.weight", {HIDDEN + 2 * KV, HIDDEN}},
    {"layers.%.self_attn.o_proj.weight", {HIDDEN, HIDDEN}},
    {"layers.%.post_attention_layernorm.weight", {HIDDEN}},
    {"layers.%.mlp.gate_up_proj.weight", {2 * INNER, HIDDEN}},
    {"layers.%.mlp.down_proj.weight", {HIDDEN, INNER}}};

#define ATTENTION_SHAPES                                                                           \
    {"embed_tokens.weight", {FOLDER_TOKENS, HIDDEN}}, {"norm.weight", {HIDDEN}},                   \
        {"layers.%.input_layernorm.weight", {HIDDEN}},                                             \
        {"layers.%.self_attn.q_proj.weight", {HIDDEN, HIDDEN}},                                    \
        {"layers.%.self_attn.k_proj.weight", {KV, HIDDEN}},                                        \
        {"layers.%.self_attn.v_proj.weight", {KV, HIDDEN}},                                        \
        {"layers.%.self_attn.o_proj.weight", {HIDDEN, HIDDEN}}, {                                  \
        "layers.%.post_attention_layernorm.weight", {                                              \
            HIDDEN                                                                                 \
        }                                                                                          \
    }

static const struct shape qwen3_moe[] = {
    ATTENTION_SHAPES,
    {"layers.%.self_attn.q_norm.weight", {KV}},
    {"layers.%.self_attn.k_norm.weight", {KV}},
    {"layers.%.mlp.gate.weight", {2, HIDDEN}},
    {"layers.%.mlp.experts.0.gate_proj.weight", {INNER, HIDDEN}},
    {"layers.%.mlp.experts.0.up_proj.weight", {INNER, HIDDEN}},
    {"layers.%.mlp.experts.0.down_proj.weight", {HIDDEN, INNER}},
    {"layers.%.mlp.experts.1.gate_proj.weight", {INNER, HIDDEN}},
    {"layers.%.mlp.experts.1.up_proj.weight", {INNER, HIDDEN}},
    {"layers.%.mlp.experts.1.down_proj.weight", {HIDDEN, INNER}}};

static const struct shape granite_moe[] = {
    ATTENTION_SHAPES,
    {"layers.%.block_sparse_moe.router.layer.weight", {2, HIDDEN}},
    {"layers.%.block_sparse_moe.input_linear.weight", {2, 2 * INNER, HIDDEN}},
    {"layers.%.block_sparse_moe.output_linear.weight", {2, HIDDEN, INNER}}};

/* Heads have as many values as KV, and experts are two, of `inner` neurons. */
#define GPT_OSS_SHAPES(hidden)                                                                     \
    {"embed_tokens.weight", {FOLDER_TOKENS, hidden}}, {"norm.weight", {hidden}},                   \
        {"layers.%.input_layernorm.weight", {hidden}},                                             \
        {"layers.%.post_attention_layernorm.weight", {hidden}},                                    \
        {"layers.%.self_attn.q_proj.weight", {2 * KV, hidden}},                                    \
        {"layers.%.self_attn.q_proj.bias", {2 * KV}},                                              \
        {"layers.%.self_attn.k_proj.weight", {KV, hidden}},                                        \
        {"layers.%.self_attn.k_proj.bias", {KV}},                                                  \
        {"layers.%.self_attn.v_proj.weight", {KV, hidden}},                                        \
        {"layers.%.self_attn.v_proj.bias", {KV}},                                                  \
        {"layers.%.self_attn.o_proj.weight", {hidden, 2 * KV}},                                    \
        {"layers.%.self_attn.o_proj.bias", {hidden}}, {"layers.%.self_attn.sinks", {2}},           \
        {"layers.%.mlp.router.weight", {2, hidden}}, {"layers.%.mlp.router.bias", {2}}, {          \
        "layers.%.mlp.experts.down_proj_bias", {                                                   \
            2, hidden                                                                              \
        }                                                                                          \
    }

static const struct shape gpt_oss[] = {
    GPT_OSS_SHAPES(HIDDEN),
    {"layers.%.mlp.experts.gate_up_proj", {2, HIDDEN, 2 * INNER}},
    {"layers.%.mlp.experts.gate_up_proj_bias", {2, 2 * INNER}},
    {"layers.%.mlp.experts.down_proj", {2, INNER, HIDDEN}}};

enum { PACKED = 32 }; /* hidden values and neurons of an expert whose matrices are packed */

static const struct shape gpt_oss_packed[] = {
    GPT_OSS_SHAPES(PACKED),
    {"#layers.%.mlp.experts.gate_up_proj_blocks", {2, 2 * PACKED, 1, 16}},
    {"#layers.%.mlp.experts.gate_up_proj_scales", {2, 2 * PACKED, 1}},
    {"layers.%.mlp.experts.gate_up_proj_bias", {2, 2 * PACKED}},
    {"#layers.%.mlp.experts.down_proj_blocks", {2, PACKED, 1, 16}},
    {"#layers.%.mlp.experts.down_proj_scales", {2, PACKED, 1}}};

/* Matrices are packed. */
static const struct shape bitnet[] = {{"embed_tokens.weight", {FOLDER_TOKENS, HIDDEN}},
                                      {"norm.weight", {HIDDEN}},
                                      {"layers.%.input_layernorm.weight", {HIDDEN}},
                                      {"layers.%.post_attention_layernorm.weight", {HIDDEN}},
                                      {"layers.%.self_attn.attn_sub_norm.weight", {HIDDEN}},
                                      {"layers.%.mlp.ffn_sub_norm.weight", {INNER}},
                                      {"3layers.%.self_attn.q_proj.weight", {HIDDEN / 4, HIDDEN}},
                                      {"3layers.%.self_attn.k_proj.weight", {KV / 4, HIDDEN}},
                                      {"3layers.%.self_attn.v_proj.weight", {KV / 4, HIDDEN}},
                                      {"3layers.%.self_attn.o_proj.weight", {HIDDEN / 4, HIDDEN}},
                                      {"3layers.%.mlp.gate_proj.weight", {INNER / 4, HIDDEN}},
                                      {"3layers.%.mlp.up_proj.weight", {INNER / 4, HIDDEN}},
                                      {"3layers.%.mlp.down_proj.weight", {HIDDEN / 4, INNER}},
                                      {"layers.%.self_attn.q_proj.weight_scale", {1}},
                                      {"layers.%.self_attn.k_proj.weight_scale", {1}},
                                      {"layers.%.self_attn.v_proj.weight_scale", {1}},
                                      {"layers.%.self_attn.o_proj.weight_scale", {1}},
                                      {"layers.%.mlp.gate_proj.weight_scale", {1}},
                                      {"layers.%.mlp.up_proj.weight_scale", {1}},
                                      {"layers.%.mlp.down_proj.weight_scale", {1}}};

/* ---- tokenizer.json ------------------------------------------------------------------------- */

static void put_string(struct bytes *out, const char *text) {
    put_text(out, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            put_text(out, "\\");
        bytes_put(out, text, 1);
    }
    put_text(out, "\"");
}

/* Adds a token of an object of ids, or with a score of an array. */
static void put_token(struct bytes *out, const char *text, unsigned id, bool scored) {
    char number[32];
    put_text(out, id > 0 ? "," : "");
    put_text(out, scored ? "[" : "");
    put_string(out, text);
    snprintf(number, sizeof number, scored ? ",-%u.5]" : ":%u", id);
    put_text(out, number);
}

static void put_added(struct bytes *out, unsigned id, const char *text, bool special) {
    char entry[256];
    snprintf(
        entry, sizeof entry,
        "{\"id\":%u,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
        "\"normalized\":false,\"special\":%s}",
        id, text, special ? "true" : "false");
    put_text(out, entry);
}

/* Adds the vocabulary of a byte-level tokenizer. */
static void put_byte_level(struct bytes *out) {
    static const char *const tokens[] = {"he",          "ll",           "llo",         "hello",
                                         "\u0120hello", "\u00c3\u00a9", "\u0120\u0120"};
    unsigned id = 0, others = 0x100;
    for (uint32_t b = 0; b < 256; b++) {
        char text[5] = "";
        const bool printable = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
        text[utf8_encode(printable ? b : others++, text)] = '\0';
        put_token(out, text, id++, false);
    }
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        put_token(out, tokens[i], id++, false);
}

static void make_vocab(struct folder *folder) {
    struct bytes out = {0};
    put_text(&out, "{");
    put_byte_level(&out);
    put_text(&out, "}");
    put_file(folder, "vocab.json", &out);
    folder_put_text(folder, "merges.txt",
                    "#version: 0.2\nh e\nl l\nll o\nhe llo\n\u0120 hello\n\u00c3 \u00a9\n"
                    "\u0120 \u0120\n");
    folder_put_text(folder, "added_tokens.json", "{\"<|endoftext|>\":263,\"<tool>\":264}");
}

static void make_byte_level(struct folder *folder) {
    struct bytes out = {0};
    put_text(&out, "{\"added_tokens\":[");
    put_added(&out, BYTE_LEVEL_END, "<|endoftext|>", true);
    put_text(&out, ",");
    put_added(&out, BYTE_LEVEL_TOOL, "<tool>", false);
    put_text(
        &out,
        "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{"
        "\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
        "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+"
        "[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\","
        "\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
        "\"use_regex\":false}]},\"post_processor\":{\"type\":\"TemplateProcessing\","
        "\"single\":[{\"SpecialToken\":{\"id\":\"<|endoftext|>\",\"type_id\":0}},"
        "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":{\"<|endoftext|>\":{"
        "\"id\":\"<|endoftext|>\",\"ids\":[263],\"tokens\":[\"<|endoftext|>\"]}}},"
        "\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{");
    put_byte_level(&out);
    put_text(&out, "},\"merges\":[\"h e\",[\"l\",\"l\"],\"ll o\",\"he llo\",\"\u0120 hello\","
                   "\"\u00c3 \u00a9\",\"\u0120 \u0120\"]}}");
    put_file(folder, "tokenizer.json", &out);
}

static const char *const pieces[] = {"\u2581", "h",   "e",        "l",           "o",      "he",
                                     "ll",     "llo", "\u2581he", "\u2581hello", "\u00e9", "A"};
enum { PIECES = sizeof pieces / sizeof *pieces };

/* Calls `put` with the tokens of a SentencePiece vocabulary. */
static void each_piece(struct bytes *out, bool flag,
                       void (*put)(struct bytes *out, const char *text, unsigned id, bool flag)) {
    static const char *const special[] = {"<unk>", "<s>", "</s>"};
    unsigned id = 0;
    for (size_t i = 0; i < 3; i++)
        put(out, special[i], id++, flag);
    for (unsigned b = 0; b < 256; b++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", b);
        put(out, text, id++, flag);
    }
    for (size_t i = 0; i < PIECES; i++)
        put(out, pieces[i], id++, flag);
}

static void make_sentencepiece(struct folder *folder, bool unigram) {
    struct bytes out = {0};
    put_text(&out, "{\"added_tokens\":[");
    for (unsigned i = 0; i < 3; i++) {
        put_added(&out, i, (const char *[]){"<unk>", "<s>", "</s>"}[i], true);
        put_text(&out, ",");
    }
    put_added(&out, SENTENCEPIECE_SPACE + PIECES, "<tool>", false);
    put_text(&out,
             "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":"
             "\"\u2581\",\"prepend_scheme\":\"first\",\"split\":false},\"post_processor\":"
             "null,\"model\":{\"byte_fallback\":true,");
    put_text(&out, unigram ? "\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":["
                           : "\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,"
                             "\"vocab\":{");
    each_piece(&out, unigram, put_token);
    put_text(&out, unigram ? "]}}"
                           : "},\"merges\":[\"h e\",\"l l\",\"ll o\",\"\u2581 he\","
                             "\"\u2581he llo\"]}}");
    put_file(folder, "tokenizer.json", &out);
}

/* ---- tokenizer.model ------------------------------------------------------------------------ */

static void put_part(struct bytes *out, unsigned number, const void *data, size_t size) {
    const unsigned char head[] = {(unsigned char)(number << 3 | 2),
                                  (unsigned char)((size & 0x7F) | (size > 0x7F ? 0x80 : 0)),
                                  (unsigned char)(size >> 7)};
    bytes_put(out, head, size > 0x7F ? 3 : 2);
    bytes_put(out, data, size);
}

static void put_piece(struct bytes *out, const char *text, unsigned id, bool flag) {
    struct bytes piece = {0};
    const unsigned type = id == 0 ? 2 : id < 3 ? 3 : id < SENTENCEPIECE_SPACE ? 6 : 1;
    const float score = -(float)id;
    const unsigned char kind[] = {3 << 3, (unsigned char)type}, score_key = 2 << 3 | 5;
    (void)flag;
    put_part(&piece, 1, text, strlen(text));
    bytes_put(&piece, &score_key, 1);
    bytes_put_f32s(&piece, &score, 1);
    bytes_put(&piece, kind, 2);
    put_part(out, 1, piece.data, piece.size);
    bytes_release(&piece);
}

static void make_model(struct folder *folder, bool unigram) {
    const unsigned char trainer[] = {3 << 3, unigram ? 1 : 2};
    const unsigned char no_squeeze[] = {4 << 3, 0};
    struct bytes out = {0}, normalizer = {0}, map = {0};
    each_piece(&out, false, put_piece);
    put_part(&out, 2, trainer, sizeof trainer);
    if (unigram) {
        /* A double array: the root at 0, 'a' at 256 ^ 'a', and its value below that at 512. */
        enum { UNITS = 514, CHILD = 256 ^ 'a' };
        bytes_put_u32(&map, 4 * UNITS);
        for (uint32_t i = 0; i < UNITS; i++)
            bytes_put_u32(&map, i == 0       ? 256u << 10
                                : i == CHILD ? (CHILD ^ 512u) << 10 | 1u << 8 | 'a'
                                : i == 512   ? 1u << 31
                                             : 0);
        bytes_put(&map, "A", 2);
        put_part(&normalizer, 2, map.data, map.size);
    } else {
        bytes_put(&normalizer, no_squeeze, sizeof no_squeeze);
    }
    put_part(&out, 3, normalizer.data, normalizer.size);
    bytes_release(&map);
    bytes_release(&normalizer);
    put_file(folder, "tokenizer.model", &out);
    folder_put_text(folder, "added_tokens.json", "{\"<tool>\":271}");
}

/* ---- the folder ----------------------------------------------------------------------------- */

void decoder_folder_make(struct folder *folder, enum decoder_tokenizer tokenizer) {
    *folder = (struct folder){0};
    WEIGHTS_OF(folder, "model.", 1, llama);
    folder_put_text(folder, "config.json",
                    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\","
                    "\"hidden_size\":8,\"intermediate_size\":12,\"num_hidden_layers\":1,"
                    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"hidden_act\":\"silu\","
                    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-05,\"rope_theta\":500.0,"
                    "\"rope_scaling\":null,\"tie_word_embeddings\":true,\"attention_bias\":false,"
                    "\"mlp_bias\":false,\"vocab_size\":300,\"eos_token_id\":2}");
    folder_put_text(folder, "generation_config.json", "{\"eos_token_id\":[2,5]}");
    folder_put_text(folder, "tokenizer_config.json",
                    tokenizer == TOKENIZER_BYTE_LEVEL
                        ? "{\"eos_token\":\"<|endoftext|>\",\"chat_template\":\"{{ x }}\"}"
                        : "{\"add_bos_token\":true,\"bos_token\":{\"content\":\"<s>\"},"
                          "\"eos_token\":\"</s>\",\"legacy\":true}");
    switch (tokenizer) {
    case TOKENIZER_BYTE_LEVEL:
        make_byte_level(folder);
        break;
    case TOKENIZER_VOCAB:
        make_vocab(folder);
        folder_put_text(folder, "tokenizer_config.json",
                        "{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_prefix_space\":false,"
                        "\"eos_token\":\"<|endoftext|>\",\"unk_token\":\"<|endoftext|>\"}");
        break;
    case TOKENIZER_SENTENCEPIECE:
    case TOKENIZER_UNIGRAM:
        make_sentencepiece(folder, tokenizer == TOKENIZER_UNIGRAM);
        break;
    default:
        make_model(folder, tokenizer == TOKENIZER_MODEL_UNIGRAM);
        break;
    }
}

#define GEMMA_SETTINGS                                                                             \
    "\"hidden_size\":8,\"intermediate_size\":12,\"num_hidden_layers\":2,\"num_attention_heads\":"  \
    "2,"                                                                                           \
    "\"num_key_value_heads\":1,\"head_dim\":4,\"query_pre_attn_scalar\":9,\"sliding_window\":4,"   \
    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-05,\"vocab_size\":300,"                    \
    "\"attention_bias\":false,\"hidden_activation\":\"gelu_pytorch_tanh\""

#define GPT_OSS_SETTINGS                                                                           \
    "{\"architectures\":[\"GptOssForCausalLM\"],\"model_type\":\"gpt_oss\","                       \
    "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":4,"  \
    "\"hidden_act\":\"silu\",\"max_position_embeddings\":64,\"rms_norm_eps\":1e-05,"               \
    "\"attention_bias\":true,\"sliding_window\":4,\"tie_word_embeddings\":true,"                   \
    "\"layer_types\":[\"sliding_attention\",\"full_attention\"],\"swiglu_limit\":7.0,"             \
    "\"num_local_experts\":2,\"num_experts_per_tok\":1,\"vocab_size\":300,\"rope_theta\":500.0,"   \
    "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4.0,\"truncate\":false,"                  \
    "\"original_max_position_embeddings\":16},"

#define BITNET_SETTINGS                                                                            \
    "{\"architectures\":[\"BitNetForCausalLM\"],\"model_type\":\"bitnet\",\"hidden_size\":8,"      \
    "\"intermediate_size\":12,\"num_hidden_layers\":2,\"num_attention_heads\":2,"                  \
    "\"num_key_value_heads\":1,\"hidden_act\":\"relu2\",\"max_position_embeddings\":64,"           \
    "\"rms_norm_eps\":1e-05,\"rope_theta\":500.0,\"tie_word_embeddings\":true,\"vocab_size\":300," \
    "\"quantization_config\":{\"quant_method\":\"bitnet\",\"linear_class\":\"autobitlinear\","     \
    "\"quantization_mode\":"

void decoder_folder_make_family(struct folder *folder, enum decoder_family family) {
    static const char gpt2_config[] =
        "{\"architectures\":[\"GPT2LMHeadModel\"],\"model_type\":\"gpt2\",\"n_embd\":8,"
        "\"n_layer\":2,\"n_head\":2,\"n_positions\":64,\"n_inner\":12,\"vocab_size\":300,"
        "\"activation_function\":\"gelu_new\",\"layer_norm_epsilon\":1e-05,"
        "\"scale_attn_weights\":true,\"scale_attn_by_inverse_layer_idx\":false,"
        "\"add_cross_attention\":false,\"tie_word_embeddings\":true,\"eos_token_id\":2}";
    static const char gemma2_config[] =
        "{\"architectures\":[\"Gemma2ForCausalLM\"],\"model_type\":\"gemma2\"," GEMMA_SETTINGS
        ",\"attn_logit_softcapping\":5.0,\"final_logit_softcapping\":3.0,\"rope_theta\":500.0}";
    static const char gemma3_text_config[] =
        "{\"architectures\":[\"Gemma3ForCausalLM\"],\"model_type\":\"gemma3_text\"," GEMMA_SETTINGS
        ",\"layer_types\":[\"sliding_attention\",\"full_attention\"],\"rope_parameters\":{"
        "\"full_attention\":{\"rope_type\":\"linear\",\"rope_theta\":900.0,\"factor\":8.0},"
        "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":100.0}}}";
    static const char gemma3_config[] =
        "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"model_type\":\"gemma3\","
        "\"vision_config\":{\"hidden_size\":16},\"text_config\":{" GEMMA_SETTINGS
        ",\"sliding_window_pattern\":2,\"rope_theta\":900.0,\"rope_local_base_freq\":100.0,"
        "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8.0}}}";
    static const char lfm2_config[] =
        "{\"architectures\":[\"Lfm2ForCausalLM\"],\"model_type\":\"lfm2\",\"hidden_size\":8,"
        "\"block_ff_dim\":14,\"block_auto_adjust_ff_dim\":true,\"block_ffn_dim_multiplier\":1.2,"
        "\"block_multiple_of\":6,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
        "\"num_key_value_heads\":1,\"conv_L_cache\":3,\"conv_bias\":false,"
        "\"full_attn_idxs\":[1],\"norm_eps\":1e-05,\"rope_theta\":500.0,\"tie_embedding\":true,"
        "\"max_position_embeddings\":64,\"vocab_size\":300}";
    static const char phi3_config[] =
        "{\"architectures\":[\"Phi3ForCausalLM\"],\"model_type\":\"phi3\",\"hidden_size\":8,"
        "\"intermediate_size\":12,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
        "\"num_key_value_heads\":1,\"hidden_act\":\"silu\",\"max_position_embeddings\":64,"
        "\"original_max_position_embeddings\":64,\"rms_norm_eps\":1e-05,\"rope_theta\":500.0,"
        "\"rope_scaling\":null,\"sliding_window\":4,\"tie_word_embeddings\":true,"
        "\"attention_bias\":false,\"vocab_size\":300,\"eos_token_id\":2}";
    static const char qwen3_moe_config[] =
        "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"model_type\":\"qwen3_moe\","
        "\"hidden_size\":8,\"intermediate_size\":20,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"hidden_act\":\"silu\","
        "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-05,\"rope_theta\":500.0,"
        "\"tie_word_embeddings\":true,\"attention_bias\":false,\"vocab_size\":300,"
        "\"num_experts\":2,\"num_experts_per_tok\":1,\"moe_intermediate_size\":12,"
        "\"norm_topk_prob\":false,\"decoder_sparse_step\":1,\"mlp_only_layers\":[]}";
    static const char granite_moe_config[] =
        "{\"architectures\":[\"GraniteMoeForCausalLM\"],\"model_type\":\"granitemoe\","
        "\"hidden_size\":8,\"intermediate_size\":12,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"hidden_act\":\"silu\","
        "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-05,\"rope_theta\":500.0,"
        "\"tie_word_embeddings\":true,\"attention_bias\":false,\"vocab_size\":300,"
        "\"num_local_experts\":2,\"num_experts_per_tok\":2,\"attention_multiplier\":0.5}";
    static const char gpt_oss_config[] =
        GPT_OSS_SETTINGS "\"hidden_size\":8,\"intermediate_size\":12}";
    static const char gpt_oss_packed_config[] =
        GPT_OSS_SETTINGS "\"hidden_size\":32,\"intermediate_size\":32,"
                         "\"quantization_config\":{\"quant_method\":\"mxfp4\"}}";
    static const char bitnet_config[] = BITNET_SETTINGS "\"offline\"}}";
    static const char bitnet_floats_config[] = BITNET_SETTINGS "\"online\"}}";
    static const char *const configs[] = {
        gpt2_config,      gemma2_config,      gemma3_text_config, gemma3_config,
        lfm2_config,      phi3_config,        bitnet_config,      bitnet_floats_config,
        qwen3_moe_config, granite_moe_config, gpt_oss_config,     gpt_oss_packed_config};
    *folder = (struct folder){0};
    switch (family) {
    case FAMILY_GPT2:
        WEIGHTS_OF(folder, "transformer.", 2, gpt2);
        break;
    case FAMILY_GEMMA2:
        make_weights(folder, "model.", 2, gemma, sizeof gemma / sizeof *gemma - 2);
        break;
    case FAMILY_GEMMA3_TEXT:
        WEIGHTS_OF(folder, "model.", 2, gemma);
        break;
    case FAMILY_GEMMA3: {
        enum { TENSORS = sizeof gemma / sizeof *gemma };
        struct shape all[TENSORS + 1];
        memcpy(all, gemma, sizeof gemma);
        all[TENSORS] = (struct shape){"vision_tower.embeddings.weight", {HIDDEN, 3, 2}};
        for (size_t i = 0; i < TENSORS; i++) {
            static char names[TENSORS][96];
            snprintf(names[i], sizeof names[i], "language_model.%s", gemma[i].name);
            all[i].name = names[i];
        }
        WEIGHTS_OF(folder, "model.", 2, all);
        break;
    }
    case FAMILY_PHI3:
        WEIGHTS_OF(folder, "model.", 2, phi3);
        break;
    case FAMILY_QWEN3_MOE:
        WEIGHTS_OF(folder, "model.", 2, qwen3_moe);
        break;
    case FAMILY_GRANITE_MOE:
        WEIGHTS_OF(folder, "model.", 2, granite_moe);
        break;
    case FAMILY_BITNET:
        WEIGHTS_OF(folder, "model.", 2, bitnet);
        break;
    case FAMILY_BITNET_FLOATS: {
        enum { TENSORS = sizeof bitnet / sizeof *bitnet - 7 };
        struct shape floats[TENSORS];
        memcpy(floats, bitnet, sizeof floats);
        for (size_t i = 0; i < TENSORS; i++)
            if (*floats[i].name == '3') {
                floats[i].name++;
                floats[i].dims[0] *= 4;
            }
        WEIGHTS_OF(folder, "model.", 2, floats);
        break;
    }
    case FAMILY_GPT_OSS:
        WEIGHTS_OF(folder, "model.", 2, gpt_oss);
        break;
    case FAMILY_GPT_OSS_PACKED:
        WEIGHTS_OF(folder, "model.", 2, gpt_oss_packed);
        break;
    default:
        WEIGHTS_OF(folder, "model.", 2, lfm2);
        break;
    }
    folder_put_text(folder, "config.json", configs[family]);
    folder_put_text(folder, "generation_config.json", "{\"eos_token_id\":[2,5]}");
    folder_put_text(folder, "tokenizer_config.json",
                    "{\"add_bos_token\":true,\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}");
    make_model(folder, false);
}
