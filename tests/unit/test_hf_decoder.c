/* SPDX-License-Identifier: Apache-2.0
 * Hugging Face folders of decoders: settings that are computed and those that are refused, the ids
 * of each kind of tokenizer, what ends a text, and the file that convert makes of a folder.
 * tests/oracle/decoder_folders.py and codec_folders.py compare the results with transformers and
 * tokenizers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native/open_path.h"
#include "support/allocations.h"
#include "support/decoder_folder.h"
#include "support/folder_edit.h"
#include "tokenizers/codec.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

enum { FORMAT = WISP_ERROR_FORMAT, UNSUPPORTED = WISP_ERROR_UNSUPPORTED };
enum { NOT_FOUND = WISP_ERROR_NOT_FOUND };

static const char CONFIG[] = "config.json", TOKENIZER[] = "tokenizer.json",
                  WEIGHTS[] = "model.safetensors", SETTINGS[] = "tokenizer_config.json",
                  ENDS[] = "generation_config.json";

/* ---- one edit ------------------------------------------------------------------------------- */

struct edit {
    enum decoder_tokenizer tokenizer;
    const char *file, *old, *with;
    int status;
    const char *field, *says;
};

static void check_edits(const struct edit *edits, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct folder folder;
        decoder_folder_make(&folder, edits[i].tokenizer);
        folder_check_edit(&folder, edits[i].file, edits[i].old, edits[i].with, edits[i].status,
                          edits[i].field, edits[i].says);
    }
}

static void every_kind_opens(void **state) {
    (void)state;
    for (enum decoder_tokenizer t = 0; t < DECODER_TOKENIZERS; t++) {
        struct folder folder;
        decoder_folder_make(&folder, t);
        const struct opening opening = folder_open(&folder);
        if (opening.status != WISP_OK)
            fail_msg("%s", opening.error.message);
        folder_release(&folder);
    }
}

static void settings_of_config_json(void **state) {
    static const enum decoder_tokenizer t = TOKENIZER_SENTENCEPIECE;
    static const char llama3[] =
        "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
        "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":32}";
    static const struct edit edits[] = {
        {t, CONFIG, "\"rope_scaling\":null", llama3, WISP_OK, NULL, NULL},
        {t, CONFIG, "\"rope_scaling\":null", "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}",
         WISP_OK, NULL, NULL},
        {t, CONFIG, "\"rope_theta\":500.0,\"rope_scaling\":null",
         "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":500.0}", WISP_OK, NULL,
         NULL},
        {t, CONFIG, "\"rope_theta\":500.0,", "", WISP_OK, NULL, NULL},
        {t, CONFIG, "\"num_key_value_heads\":1", "\"head_dim\":4,\"num_key_value_heads\":1",
         WISP_OK, NULL, NULL},
        {t, CONFIG, "\"num_key_value_heads\":1", "\"head_dim\":null,\"num_key_value_heads\":1",
         WISP_OK, NULL, NULL},
        {t, CONFIG, "\"architectures\":[\"LlamaForCausalLM\"],", "", WISP_OK, NULL, NULL},
        {t, CONFIG, "\"rope_theta\":500.0", "\"sliding_window\":4,\"rope_theta\":500.0", WISP_OK,
         NULL, NULL}, /* which Llama's class does not know */
        {t, CONFIG, "\"model_type\":\"llama\"", "\"model_type\":\"phi\"", UNSUPPORTED, "model_type",
         "phi are not supported, only bert, roberta, xlm-roberta, camembert, distilbert, "
         "mpnet, nomic_bert, modernbert, electra, deberta-v2, new, llama, mistral, qwen2, qwen3, "
         "gpt2, "
         "gemma2, gemma3_text, gemma3, lfm2, phi3, granite, olmo2, olmo3, "
         "smollm3, mistral3, starcoder2, gpt_neox, stablelm, qwen3_moe, olmoe, granitemoe, "
         "lfm2_moe, minicpm, ministral3, glm4, eurobert, gpt_oss, bitnet, clip, siglip, "
         "glm4_moe_lite and "
         "granitemoehybrid"},
        {t, CONFIG, "LlamaForCausalLM", "LlamaForSequenceClassification", UNSUPPORTED,
         "architectures", "only LlamaForCausalLM"},
        {t, CONFIG, "{", "{\"quantization_config\":{\"quant_method\":\"gptq\"},", UNSUPPORTED,
         "quantization_config", "gptq"},
        {t, CONFIG, "\"attention_bias\":false", "\"attention_bias\":true", UNSUPPORTED,
         "attention_bias", "only false"},
        {t, CONFIG, "\"mlp_bias\":false", "\"mlp_bias\":true", UNSUPPORTED, "mlp_bias",
         "only false"},
        {t, CONFIG, "\"silu\"", "\"gelu\"", UNSUPPORTED, "hidden_act", "only silu"},
        {t, CONFIG, "\"silu\"", "\"relu2\"", WISP_OK, NULL, NULL},
        {t, CONFIG, "{", "{\"partial_rotary_factor\":0.5,", UNSUPPORTED, "partial_rotary_factor",
         "only 1"},
        {t, CONFIG, "\"rope_scaling\":null", "\"rope_scaling\":{\"rope_type\":\"su\",\"factor\":2}",
         UNSUPPORTED, "rope_scaling", "type su is not supported"},
        {t, CONFIG, "\"rope_scaling\":null",
         "\"rope_parameters\":{\"rope_type\":\"su\",\"factor\":2}", UNSUPPORTED, "rope_parameters",
         "su"},
        {t, CONFIG, "\"rope_scaling\":null",
         "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":100}", FORMAT, "rope_theta",
         "disagrees"},
        {t, CONFIG, "\"rope_scaling\":null", "\"rope_scaling\":{\"type\":\"linear\"}", NOT_FOUND,
         "factor", "linear"},
        {t, CONFIG, "\"rope_scaling\":null",
         "\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}", FORMAT, "factor", "at least 1"},
        {t, CONFIG, "\"rope_scaling\":null", "\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2}",
         NOT_FOUND, "low_freq_factor", NULL},
        {t, CONFIG, "\"rope_scaling\":null",
         "\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2,\"low_freq_factor\":2,"
         "\"high_freq_factor\":2,\"original_max_position_embeddings\":8}",
         FORMAT, "high_freq_factor", "they must differ"},
        {t, CONFIG, "\"rope_scaling\":null", "\"rope_scaling\":[]", FORMAT, "rope_scaling",
         "object"},
        {t, CONFIG, "\"vocab_size\":300", "\"vocab_size\":299", FORMAT, "vocab_size", "300 rows"},
        {t, CONFIG, "\"hidden_size\":8,", "", NOT_FOUND, "hidden_size", NULL},
        {t, CONFIG, "\"tie_word_embeddings\":true", "\"tie_word_embeddings\":false", NOT_FOUND,
         "lm_head.weight", "does not tie"},
        {t, CONFIG, "\"tie_word_embeddings\":true", "\"tie_word_embeddings\":1", FORMAT,
         "tie_word_embeddings", NULL},
        {t, WEIGHTS, "model.norm.weight", "model.form.weight", UNSUPPORTED, "model.form.weight",
         "does not have"},
        {t, WEIGHTS, "model.layers.0.mlp.up_proj.weight", "model.layers.0.self_attn.q_norm.weight",
         UNSUPPORTED, "blk.0.attn_q_norm.weight", "do not have"},
        {t, WEIGHTS, "model.embed_tokens.weight", "model.embed_tokens.bias", UNSUPPORTED,
         "model.embed_tokens.bias", NULL},
        {t, ENDS, "5", "300", FORMAT, "eos_token_id", "an id"},
        {t, ENDS, "[2,5]", "\"x\"", FORMAT, "eos_token_id", "an id"},
        {t, SETTINGS, "\"</s>\"", "\"<end>\"", FORMAT, "eos_token", "not in the vocabulary"},
        {t, SETTINGS, "{", "{\"add_eos_token\":true,", UNSUPPORTED, "add_eos_token", NULL},
    };
    (void)state;
    check_edits(edits, sizeof edits / sizeof *edits);
}

static void settings_of_other_families(void **state) {
    static const char *const types[] = {"mistral", "qwen2", "qwen3"};
    static const struct {
        const char *type, *settings;
        wisp_status status;
        const char *field;
    } cases[] = {
        {"mistral", "\"sliding_window\":null,", WISP_OK, NULL},
        {"mistral", "\"sliding_window\":64,", WISP_OK, NULL},
        {"mistral", "", WISP_OK, NULL}, /* 4096, of 64 positions */
        {"mistral", "\"sliding_window\":63,", WISP_OK, NULL},
        {"mistral", "\"sliding_window\":0,", WISP_ERROR_FORMAT, "sliding_window"},
        {"qwen2", "\"use_sliding_window\":1,", WISP_ERROR_FORMAT, "use_sliding_window"},
        {"qwen2", "\"max_window_layers\":-1,", WISP_ERROR_FORMAT, "max_window_layers"},
        {"qwen2", "\"layer_types\":[\"sliding_attention\"],", WISP_ERROR_FORMAT, "layer_types"},
        {"qwen2",
         "\"use_sliding_window\":true,\"sliding_window\":null,"
         "\"layer_types\":[\"sliding_attention\"],",
         WISP_ERROR_FORMAT, "layer_types"},
        {"qwen2",
         "\"use_sliding_window\":true,\"sliding_window\":9,"
         "\"layer_types\":[\"sliding_attention\"],",
         WISP_ERROR_NOT_FOUND, "blk.0.attn_q.bias"},
        {"qwen2", "\"layer_types\":[\"full_attention\",\"full_attention\"],", WISP_ERROR_FORMAT,
         "layer_types"},
        {"qwen2", "\"layer_types\":[\"linear_attention\"],", WISP_ERROR_UNSUPPORTED, "layer_types"},
        {"qwen2", "\"layer_types\":[\"full_attention\"],", WISP_ERROR_NOT_FOUND,
         "blk.0.attn_q.bias"}, /* the folder has no biases */
        {"qwen3", "", WISP_ERROR_NOT_FOUND, "head_dim"},
        {"qwen3", "\"head_dim\":4,\"attention_bias\":true,", WISP_ERROR_UNSUPPORTED,
         "attention_bias"},
        {"qwen3", "\"head_dim\":4,", WISP_ERROR_NOT_FOUND, "blk.0.attn_q_norm.weight"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct folder folder;
        char class[64], type[32], with[160];
        for (size_t k = 0; k < 3; k++)
            if (strcmp(cases[i].type, types[k]) == 0)
                snprintf(class, sizeof class, "%sForCausalLM",
                         (const char *[]){"Mistral", "Qwen2", "Qwen3"}[k]);
        snprintf(with, sizeof with, "{%s", cases[i].settings);
        decoder_folder_make(&folder, TOKENIZER_SENTENCEPIECE);
        snprintf(type, sizeof type, "\"%s\"", cases[i].type);
        folder_replace(&folder, CONFIG, "\"llama\"", type);
        folder_replace(&folder, CONFIG, "LlamaForCausalLM", class);
        folder_replace(&folder, CONFIG, "\"attention_bias\":false,", "");
        folder_replace(&folder, CONFIG, "{", with);
        const struct opening opening = folder_open(&folder);
        if (opening.status != cases[i].status)
            fail_msg("%s %s: %s", cases[i].type, cases[i].settings, opening.error.message);
        expect_outcome(&opening, cases[i].status, cases[i].field, NULL);
        folder_release(&folder);
    }
}

static void parts_of_tokenizer_json(void **state) {
    static const enum decoder_tokenizer b = TOKENIZER_BYTE_LEVEL, s = TOKENIZER_SENTENCEPIECE,
                                        u = TOKENIZER_UNIGRAM;
    static const struct edit edits[] = {
        {b, TOKENIZER, "{1,3}", "{1,2}", UNSUPPORTED, "pre_tokenizer", "a pattern is missing"},
        {b, TOKENIZER, "\"ignore_merges\":true", "\"ignore_merges\":false", WISP_OK, NULL, NULL},
        {b, TOKENIZER, "\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}", WISP_OK, NULL,
         NULL},
        {b, TOKENIZER, "\"normalizer\":null", "\"normalizer\":{\"type\":\"NFKC\"}", UNSUPPORTED,
         "normalizer", "NFKC"},
        {b, TOKENIZER, "\"add_prefix_space\":false", "\"add_prefix_space\":true", UNSUPPORTED,
         "add_prefix_space", "true"},
        {b, TOKENIZER, "\"type\":\"ByteLevel\"", "\"type\":\"Digits\"", UNSUPPORTED,
         "ignore_merges", "ByteLevel"},
        {b, TOKENIZER, "\"use_regex\":false", "\"use_regex\":true", UNSUPPORTED, "pre_tokenizer",
         NULL},
        {b, TOKENIZER, "\"Isolated\"", "\"Removed\"", UNSUPPORTED, "pre_tokenizer.behavior",
         "Removed"},
        {b, TOKENIZER, "\"type\":\"BPE\"", "\"type\":\"WordLevel\"", UNSUPPORTED, "model.type",
         "WordLevel"},
        {b, TOKENIZER, "\"type\":\"BPE\"", "\"type\":\"BPE\",\"dropout\":0.1", UNSUPPORTED,
         "dropout", "0.1"},
        {b, TOKENIZER, "\"type\":\"BPE\"", "\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\"",
         UNSUPPORTED, "end_of_word_suffix", "</w>"},
        {b, TOKENIZER, "\"TemplateProcessing\"", "\"BertProcessing\"", UNSUPPORTED,
         "post_processor", "BertProcessing"},
        {b, TOKENIZER, "\"ids\":[263]", "\"ids\":[263,1]", UNSUPPORTED, "post_processor", NULL},
        {b, TOKENIZER, "\"id\":264", "\"id\":265", FORMAT, "added_tokens", "next free"},
        {b, TOKENIZER, "\"added_tokens\":[",
         "\"added_tokens\":[{\"id\":300,\"content\":\"<image>\",\"special\":true},", WISP_OK, NULL,
         NULL},
        {s, TOKENIZER, "\"added_tokens\":[",
         "\"added_tokens\":[{\"id\":300,\"content\":\"<image>\",\"special\":true},", WISP_OK, NULL,
         NULL},
        {b, TOKENIZER, "\"added_tokens\":[",
         "\"added_tokens\":[{\"id\":300,\"content\":\"<image>\",\"special\":false},", FORMAT,
         "added_tokens", "<image>"},
        {b, SETTINGS, "{",
         "{\"added_tokens_decoder\":{\"300\":{\"content\":\"<image>\",\"special\":true}},", WISP_OK,
         NULL, NULL},
        {b, TOKENIZER, "\"he\":256", "\"he\":300", FORMAT, "vocab", "vocab_size of 300"},
        {b, TOKENIZER, "\"he\":256", "\"he\":255", FORMAT, "vocab", "have one id"},
        {b, TOKENIZER, "\"h e\"", "\"h x\"", FORMAT, "tokenizer.ggml.merges", "make no token"},
        {b, TOKENIZER, "[\"l\",\"l\"]", "[\"l\",\"l\",\"l\"]", FORMAT, "model.merges", "pairs"},
        {b, TOKENIZER, "[\"l\",\"l\"]", "[\"l \",\"l\"]", UNSUPPORTED, "model.merges", NULL},
        {b, SETTINGS, "{", "{\"added_tokens_decoder\":{\"264\":{\"content\":\"<tool>\"}},", WISP_OK,
         NULL, NULL},
        {b, SETTINGS, "{", "{\"added_tokens_decoder\":{\"265\":{\"content\":\"<new>\"}},",
         UNSUPPORTED, "added_tokens_decoder", "<new>"},
        {s, TOKENIZER, "\"fuse_unk\":true", "\"fuse_unk\":false", WISP_OK, NULL, NULL},
        {s, TOKENIZER,
         "\"byte_fallback\":true,\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true",
         "\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":false", UNSUPPORTED, "fuse_unk",
         "true"},
        {s, TOKENIZER, "\"type\":\"Metaspace\"", "\"type\":\"WhitespaceSplit\"", UNSUPPORTED,
         "pre_tokenizer", "Metaspace"},
        {s, TOKENIZER, "\"prepend_scheme\":\"first\"", "\"prepend_scheme\":\"last\"", UNSUPPORTED,
         "prepend_scheme", "last"},
        {s, TOKENIZER, "\"normalizer\":null",
         "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
         "\"\u2581\"}",
         UNSUPPORTED, "pre_tokenizer", "once"},
        {u, TOKENIZER, "\"normalizer\":null",
         "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}", FORMAT,
         "tokenizer.ggml.precompiled_charsmap", "0 bytes of a trie"},
        {u, TOKENIZER, "\"normalizer\":null",
         "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"A=AA\"}", FORMAT,
         "precompiled_charsmap", "base64"},
        {u, TOKENIZER, "\"normalizer\":null",
         "\"normalizer\":{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}",
         UNSUPPORTED, "normalizer", "Strip with Replace"},
        {u, TOKENIZER, "\"unk_id\":0", "\"unk_id\":null", UNSUPPORTED, "model.unk_id", NULL},
        {u, TOKENIZER, "\"A\",-270.5", "\"A\",null", FORMAT, "model.vocab", "score"},
        {u, TOKENIZER, "\"A\",-270.5", "\"h\",-270.5", FORMAT, "vocab", "are both"},
    };
    (void)state;
    check_edits(edits, sizeof edits / sizeof *edits);
}

static void parts_of_vocab_and_merges(void **state) {
    static const enum decoder_tokenizer v = TOKENIZER_VOCAB;
    static const char VOCAB[] = "vocab.json", MERGES[] = "merges.txt",
                      ADDED[] = "added_tokens.json";
    static const struct edit edits[] = {
        {v, SETTINGS, "\"GPT2Tokenizer\"", "\"GPT2TokenizerFast\"", WISP_OK, NULL, NULL},
        {v, SETTINGS, "\"GPT2Tokenizer\"", "\"Qwen2Tokenizer\"", WISP_OK, NULL, NULL},
        {v, SETTINGS, "\"GPT2Tokenizer\"", "\"CodeGenTokenizer\"", UNSUPPORTED, "tokenizer_class",
         "only GPT2Tokenizer, Qwen2Tokenizer and CLIPTokenizer"},
        {v, SETTINGS, "\"GPT2Tokenizer\"", "null", UNSUPPORTED, "tokenizer_class", NULL},
        {v, SETTINGS, "\"add_prefix_space\":false", "\"add_prefix_space\":true", UNSUPPORTED,
         "add_prefix_space", "only false"},
        {v, SETTINGS, "{", "{\"additional_special_tokens\":[\"<tool>\",{\"content\":\"x\"}],",
         WISP_OK, NULL, NULL},
        {v, SETTINGS, "{", "{\"additional_special_tokens\":[7],", FORMAT,
         "additional_special_tokens", NULL},
        {v, SETTINGS, "{", "{\"additional_special_tokens\":7,", FORMAT, "additional_special_tokens",
         NULL},
        {v, SETTINGS, "{", "{\"added_tokens_decoder\":{\"263\":{\"content\":\"<|endoftext|>\"}},",
         WISP_OK, NULL, NULL},
        {v, SETTINGS, "{", "{\"added_tokens_decoder\":{\"265\":{\"content\":\"<|endoftext|>\"}},",
         FORMAT, "added_tokens", "next free"},
        {v, SETTINGS, "\"eos_token\":\"<|endoftext|>\"", "\"eos_token\":\"<end>\"", FORMAT,
         "eos_token", "not in the vocabulary"},
        {v, VOCAB, "\"he\":256", "\"he\":257", FORMAT, "vocab", "\"ll\" and \"he\" have one id"},
        {v, VOCAB, "\"he\":256", "\"he\":265", FORMAT, "vocab",
         "vocab.json: vocab: the id of \"he\" is 265, which is not one of 0 to 262"},
        {v, VOCAB, "\"he\":256", "\"he\":-1", FORMAT, "vocab", "-1"},
        {v, VOCAB, "\"he\":256", "\"he\":\"256\"", FORMAT, "vocab", "not one of"},
        {v, VOCAB, "\"he\":256,", "", FORMAT, "vocab", "which is not one of 0 to 261"},
        {v, VOCAB, "\"he\":256", "\"ll\":256", FORMAT, "ll", NULL},
        {v, MERGES, "#version: 0.2\n", "", FORMAT, "merges",
         "merges.txt: merges: line 1 does not begin with \"#version\""},
        {v, MERGES, "h e\n", "h x\n", FORMAT, "merges",
         "merges.txt: merges: line 2, \"h x\": one of the two, or what they make"},
        {v, MERGES, "ll o\n", "ll \xFF\n", FORMAT, "merges", "line 4"},
        {v, MERGES, "l l\n", "l  l\n", FORMAT, "merges", "line 3, \"l  l\": expected two tokens"},
        {v, MERGES, "l l\n", "ll\n", FORMAT, "merges", "line 3"},
        {v, MERGES, "l l\n", " ll\n", FORMAT, "merges", "line 3"},
        {v, MERGES, "l l\n", "ll \n", FORMAT, "merges", "line 3"},
        {v, MERGES, "l l\n", "\nl l\n", FORMAT, "merges", "line 3, \"\""},
        {v, MERGES, "l l\n", "l l\r\n", FORMAT, "merges", "line 3"},
        {v, MERGES, "l l\n", "#version: 0.2\nl l\n", FORMAT, "merges", "line 3"},
        {v, ADDED, "264", "300", FORMAT, "<tool>", NULL},
        {v, ADDED, "264", "265", FORMAT, "added_tokens", "next free"},
    };
    struct folder folder;
    (void)state;
    check_edits(edits, sizeof edits / sizeof *edits);
    decoder_folder_make(&folder, v);
    folder_drop(&folder, MERGES);
    const struct opening opening = folder_open(&folder);
    expect_outcome(&opening, WISP_ERROR_NOT_FOUND, NULL, "merges.txt");
    folder_release(&folder);
}

static void parts_of_tekken(void **state) {
    static const enum decoder_tokenizer t = TOKENIZER_TEKKEN;
    static const char FILE_NAME[] = "tekken.json";
    static const struct edit edits[] = {
        {t, FILE_NAME, "{\"config\"",
         "{\"special_tokens\":[{\"rank\":1,\"token_str\":\"<s>\"},"
         "{\"rank\":2,\"token_str\":\"</s>\"}],\"config\"",
         WISP_OK, NULL, NULL},
        {t, FILE_NAME, "{\"config\"",
         "{\"special_tokens\":[{\"rank\":4,\"token_str\":\"<s>\"}],"
         "\"config\"",
         FORMAT, "special_tokens", "below default_num_special_tokens"},
        {t, FILE_NAME, "{\"config\"", "{\"special_tokens\":7,\"config\"", FORMAT, "special_tokens",
         NULL},
        {t, FILE_NAME, "\\\\p{N}|", "\\\\p{N}{1,2}|", UNSUPPORTED, "config.pattern", "Mistral"},
        {t, FILE_NAME, "vocab_size\":267", "vocab_size\":266", WISP_OK, NULL, NULL},
        {t, FILE_NAME, "vocab_size\":267", "vocab_size\":268", FORMAT, "vocab", "rank 263"},
        {t, FILE_NAME, "vocab_size\":267", "vocab_size\":301", FORMAT, "default_vocab_size",
         "301 is not a number from 4 to 300"},
        {t, FILE_NAME, "special_tokens\":4", "special_tokens\":2", FORMAT,
         "default_num_special_tokens", NULL},
        {t, FILE_NAME, "\"rank\":256", "\"rank\":257", FORMAT, "vocab", "rank 256"},
        {t, FILE_NAME, "\"aGU=\"", "\"aG=U\"", FORMAT, "vocab", "base64"},
    };
    (void)state;
    check_edits(edits, sizeof edits / sizeof *edits);
}

/* ---- ids ------------------------------------------------------------------------------------ */

struct opened {
    struct directory dir;
    struct codec *codec;
};

static void open_codec(struct opened *o, const char *path) {
    wisp_error error;
    if (directory_open_path(&o->dir, path, &error) != WISP_OK ||
        codec_open(&o->dir, &o->codec, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

static void close_codec(struct opened *o) {
    codec_close(o->codec);
    directory_release(&o->dir);
}

static void check_ids(const struct opened *o, const char *text, const int32_t *ids, size_t count) {
    struct token_list list = {0};
    assert_int_equal(codec_encode(o->codec, wisp_text_of(text), true, &list, NULL), WISP_OK);
    if (list.count != count || (count > 0 && memcmp(list.ids, ids, count * sizeof *ids) != 0)) {
        for (size_t i = 0; i < list.count; i++)
            printf("%ld ", (long)list.ids[i]);
        fail_msg("are the ids of \"%s\"", text);
    }
    free(list.ids);
}

#define CHECK(o, text, ...)                                                                        \
    check_ids(o, text, (const int32_t[]){__VA_ARGS__},                                             \
              sizeof(const int32_t[]){__VA_ARGS__} / sizeof(int32_t))

/* Checks a kind of tokenizer as the folder has it, and as the file has it that convert makes. */
static void check_codec(enum decoder_tokenizer tokenizer, void (*check)(const struct opened *o)) {
    struct folder folder;
    struct opened o;
    wisp_error error;
    char file[256], path[256];
    snprintf(path, sizeof path, "%s", temporary_path("model"));
    snprintf(file, sizeof file, "%s", temporary_path("model.gguf"));
    decoder_folder_make(&folder, tokenizer);
    folder_write(&folder, path);
    folder_release(&folder);
    if (wisp_convert(path, file, NULL, &error) != WISP_OK)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < 2; i++) {
        open_codec(&o, i == 0 ? path : file);
        check(&o);
        close_codec(&o);
    }
}

enum { S = SENTENCEPIECE_SPACE, TOOL = 271, BYTE_0 = 3 };

static void check_byte_level(const struct opened *o) {
    CHECK(o, "hello hello", 263, 259, 260);
    CHECK(o, "<tool>hell", 263, 264, 256, 257);
    CHECK(o, "<|endoftext|>", 263, '<', '|', 'e', 'n', 'd', 'o', 'f', 't', 'e', 'x', 't', '|', '>');
    assert_true(codec_is_end(o->codec, 263) && codec_is_end(o->codec, 2));
    assert_true(codec_is_end(o->codec, 5) && !codec_is_end(o->codec, 264));
    const char *template;
    assert_int_equal(metadata_text(&o->dir, "tokenizer.chat_template", &template, NULL), WISP_OK);
    assert_string_equal(template, "{{ x }}");
}

/* The scheme "first" puts no space after a token, nor before one that is there. */
static void check_sentencepiece(const struct opened *o) {
    CHECK(o, "hello", 1, S + 9);
    CHECK(o, " hello", 1, S + 9);
    CHECK(o, "he<tool>he", 1, S + 8, TOOL, S + 5);
    CHECK(o, "<s>\u00e9", 1, S, BYTE_0 + '<', BYTE_0 + 's', BYTE_0 + '>', S + 10);
    assert_true(codec_is_end(o->codec, 2) && codec_is_end(o->codec, 5));
}

/* The best sum of scores, which fall with the id. */
static void check_unigram(const struct opened *o) {
    CHECK(o, "hello", 1, S + 9);
    CHECK(o, "lle", 1, S, S + 6, S + 2);
    CHECK(o, "xx", 1, S, BYTE_0 + 'x', BYTE_0 + 'x');
    CHECK(o, "he<tool>he", 1, S + 8, TOOL, S + 5);
}

/* A legacy tokenizer puts a space after each token too. */
static void check_model_bpe(const struct opened *o) {
    CHECK(o, " hello", 1, S, S + 9);
    CHECK(o, "he<tool>he", 1, S + 8, TOOL, S + 8);
}

/* The character map makes A of a, and spaces are squeezed. */
static void check_model_unigram(const struct opened *o) {
    CHECK(o, "  a  a ", 1, S, S + 11, S, S + 11);
    CHECK(o, "A\u00e9", 1, S, S + 11, S + 10);
}

/* GPT-2's pattern leaves one of two spaces to the word. */
static void check_vocab(const struct opened *o) {
    CHECK(o, "hello  hello", 259, 32, 260);
    CHECK(o, "<tool>hell\u00e9", 264, 256, 257, 261);
    CHECK(o, "<|endoftext|>", '<', '|', 'e', 'n', 'd', 'o', 'f', 't', 'e', 'x', 't', '|', '>');
    assert_true(codec_is_end(o->codec, 263) && codec_is_end(o->codec, 5));
}

/* Special tokens are first, and are not found in texts. */
static void check_tekken(const struct opened *o) {
    CHECK(o, "hello hello", 1, 4 + 259, 4 + 260);
    CHECK(o, "<s>hell\u00e9", 1, 4 + '<', 4 + 's', 4 + '>', 4 + 256, 4 + 257, 4 + 261);
    assert_true(codec_is_end(o->codec, 2) && codec_is_end(o->codec, 5));
}

static void ids_of_each_kind(void **state) {
    (void)state;
    check_codec(TOKENIZER_BYTE_LEVEL, check_byte_level);
    check_codec(TOKENIZER_SENTENCEPIECE, check_sentencepiece);
    check_codec(TOKENIZER_UNIGRAM, check_unigram);
    check_codec(TOKENIZER_MODEL_BPE, check_model_bpe);
    check_codec(TOKENIZER_MODEL_UNIGRAM, check_model_unigram);
    check_codec(TOKENIZER_VOCAB, check_vocab);
    check_codec(TOKENIZER_TEKKEN, check_tekken);
}

/* ---- convert -------------------------------------------------------------------------------- */

static void read_logits(const char *path, float *logits) {
    const int32_t ids[] = {1, 7, 259, 265, 3};
    enum { N = sizeof ids / sizeof *ids };
    wisp_model *model;
    wisp_session *session;
    wisp_error error;
    const wisp_model_options options = {.compute = WISP_COMPUTE_F32};
    if (wisp_model_open(path, &options, &model, &error) != WISP_OK ||
        wisp_session_open(model, NULL, &session, &error) != WISP_OK ||
        wisp_logits(session, ids, N, logits, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_session_close(session);
    wisp_model_close(model);
}

/* Rows of queries and keys change places in the file, and factors of rotary positions become a
 * tensor or a key; the logits keep their bits. Positions that are scaled give others. */
static void a_converted_folder_has_the_same_logits(void **state) {
    static const char linear[] = "{\"rope_type\":\"linear\",\"factor\":3.0}";
    static const char llama3[] =
        "{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
        "\"original_max_position_embeddings\":32}";
    static const char *const scalings[] = {"null", linear, llama3};
    enum { LOGITS = 5 * FOLDER_TOKENS };
    static float logits[3][LOGITS], converted[LOGITS];
    char path[256], file[256], with[256];
    (void)state;
    snprintf(path, sizeof path, "%s", temporary_path("model"));
    snprintf(file, sizeof file, "%s", temporary_path("model.gguf"));
    for (size_t i = 0; i < 3; i++) {
        struct folder folder;
        wisp_error error;
        decoder_folder_make(&folder, TOKENIZER_MODEL_BPE);
        snprintf(with, sizeof with, "\"rope_scaling\":%s", scalings[i]);
        folder_replace(&folder, CONFIG, "\"rope_scaling\":null", with);
        folder_write(&folder, path);
        folder_release(&folder);
        if (wisp_convert(path, file, NULL, &error) != WISP_OK)
            fail_msg("%s", error.message);
        read_logits(path, logits[i]);
        read_logits(file, converted);
        assert_memory_equal(logits[i], converted, sizeof converted);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(logits[i], logits[k], sizeof converted);
    }
}

/* A tied model whose file has the last layer too opens if that is the embedding. */
static void a_tied_last_layer_must_be_the_embedding(void **state) {
    (void)state;
    for (int differs = 0; differs < 2; differs++) {
        struct folder folder;
        decoder_folder_make(&folder, TOKENIZER_BYTE_LEVEL);
        struct bytes *weights = folder_file(&folder, WEIGHTS), file = {0};
        const size_t header = weights->data[0] | (size_t)weights->data[1] << 8;
        const size_t data = 8 + header, bytes = (size_t)FOLDER_TOKENS * 8 * sizeof(float);
        const size_t all = weights->size - data;
        struct bytes text = {0}, values = {0};
        char entry[128];
        bytes_put(&text, weights->data + 8, header - 1);
        snprintf(entry, sizeof entry,
                 ",\"lm_head.weight\":{\"dtype\":\"F32\",\"shape\":[300,8],\"data_offsets\":"
                 "[%zu,%zu]}}",
                 all, all + bytes);
        bytes_put(&text, entry, strlen(entry));
        bytes_put(&values, weights->data + data, all);
        bytes_put(&values, weights->data + data, bytes);
        if (differs)
            bytes_set_f32(&values, all + bytes - sizeof(float), 7);
        safetensors_put(&file, (const char *)text.data, text.size, values.data, values.size);
        folder_put(&folder, WEIGHTS, file.data, file.size);
        const struct opening opening = folder_open(&folder);
        expect_outcome(&opening, differs ? WISP_ERROR_UNSUPPORTED : WISP_OK,
                       differs ? "tie_word_embeddings" : NULL, differs ? "versions 4 and 5" : NULL);
        bytes_release(&text);
        bytes_release(&values);
        bytes_release(&file);
        folder_release(&folder);
    }
}

/* Opens each kind of folder with each allocation failing in turn: an error of memory, and nothing
 * leaks. */
static void memory_may_run_out(void **state) {
    (void)state;
    for (enum decoder_tokenizer t = 0; t < DECODER_TOKENIZERS && allocations_are_watched(); t++) {
        struct folder folder;
        char path[256];
        snprintf(path, sizeof path, "%s", temporary_path("model"));
        decoder_folder_make(&folder, t);
        folder_replace(&folder, CONFIG, "\"rope_scaling\":null",
                       "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,"
                       "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                       "\"original_max_position_embeddings\":32}");
        folder_write(&folder, path);
        folder_release(&folder);
        expect_memory_errors(path);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_opens),
        cmocka_unit_test(settings_of_config_json),
        cmocka_unit_test(settings_of_other_families),
        cmocka_unit_test(parts_of_tokenizer_json),
        cmocka_unit_test(parts_of_vocab_and_merges),
        cmocka_unit_test(parts_of_tekken),
        cmocka_unit_test(ids_of_each_kind),
        cmocka_unit_test(a_converted_folder_has_the_same_logits),
        cmocka_unit_test(a_tied_last_layer_must_be_the_embedding),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests_name("folders of decoders", tests, NULL,
                                       tear_down_temporary_folder);
}
