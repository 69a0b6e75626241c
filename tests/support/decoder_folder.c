/* SPDX-License-Identifier: Apache-2.0 */
#include "support/decoder_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "support/rng.h"

enum { HIDDEN = FOLDER_HIDDEN, INNER = FOLDER_INNER, KV = FOLDER_KV };

static void put_text(struct bytes *out, const char *text) {
    bytes_put(out, text, strlen(text));
}

static void put_file(struct folder *folder, const char *name, struct bytes *contents) {
    folder_put(folder, name, contents->data, contents->size);
    bytes_release(contents);
}

/* ---- weights -------------------------------------------------------------------------------- */

void decoder_folder_put_weights(struct folder *folder, const char *prefix, unsigned layers,
                                const struct folder_shape *tensors, size_t count) {
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

static const struct folder_shape llama[] = {{"embed_tokens.weight", {FOLDER_TOKENS, HIDDEN}},
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

/* ---- tekken.json ---------------------------------------------------------------------------- */

/* Adds a token of at most 6 bytes. */
static void put_ranked(struct bytes *out, const char *token, size_t length, unsigned rank) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char entry[96], encoded[9] = "";
    for (size_t i = 0, at = 0; i < length; i += 3, at += 4) {
        uint32_t bits = 0;
        for (size_t j = 0; j < 3; j++)
            bits = bits << 8 | (i + j < length ? (unsigned char)token[i + j] : 0);
        for (size_t j = 0; j < 4; j++)
            encoded[at + j] = i + j <= length ? digits[bits >> (18 - 6 * j) & 63] : '=';
    }
    snprintf(entry, sizeof entry, "%s{\"rank\":%u,\"token_bytes\":\"%s\",\"token_str\":null}",
             rank > 0 ? "," : "", rank, encoded);
    put_text(out, entry);
}

static void make_tekken(struct folder *folder) {
    static const char *const tokens[] = {"he", "ll", "llo", "hello", " hello", "\u00e9", "  "};
    struct bytes out = {0};
    put_text(
        &out,
        "{\"config\":{\"pattern\":\"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}"
        "\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
        "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*|"
        "\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|"
        "\\\\s+\",\"default_vocab_size\":267,\"default_num_special_tokens\":4},\"vocab\":[");
    for (unsigned b = 0; b < 256; b++)
        put_ranked(&out, (const char[]){(char)b}, 1, b);
    for (unsigned i = 0; i < sizeof tokens / sizeof *tokens; i++)
        put_ranked(&out, tokens[i], strlen(tokens[i]), 256 + i);
    put_text(&out, "]}");
    put_file(folder, "tekken.json", &out);
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

void decoder_folder_put_model(struct folder *folder, bool unigram) {
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
    decoder_folder_put_weights(folder, "model.", 1, llama, sizeof llama / sizeof *llama);
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
    case TOKENIZER_TEKKEN:
        make_tekken(folder);
        break;
    case TOKENIZER_SENTENCEPIECE:
    case TOKENIZER_UNIGRAM:
        make_sentencepiece(folder, tokenizer == TOKENIZER_UNIGRAM);
        break;
    default:
        decoder_folder_put_model(folder, tokenizer == TOKENIZER_MODEL_UNIGRAM);
        break;
    }
}
