/* SPDX-License-Identifier: Apache-2.0
 * Hugging Face folders of GPT-2, Gemma 2, Gemma 3, LFM2 and Phi-3: settings that are computed and
 * those that are refused, rotary positions by YaRN, and the file that convert makes of a folder.
 * tests/oracle/decoder_folders.py compares logits with transformers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "native/open_path.h"
#include "support/allocations.h"
#include "support/decoder_folder.h"
#include "support/folder_edit.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

enum { FORMAT = WISP_ERROR_FORMAT, UNSUPPORTED = WISP_ERROR_UNSUPPORTED };
enum { NOT_FOUND = WISP_ERROR_NOT_FOUND };

static const char CONFIG[] = "config.json", WEIGHTS[] = "model.safetensors";

static void settings_of_gpt2(void **state) {
    static const enum decoder_family f = FAMILY_GPT2;
    static const struct family_edit edits[] = {
        {f, CONFIG, "\"n_embd\"", "\"hidden_size\"", WISP_OK, NULL, NULL},
        {f, CONFIG, "{", "{\"hidden_size\":8,", WISP_OK, NULL, NULL},
        {f, CONFIG, "{", "{\"n_ctx\":32,", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"gelu_new\"", "\"relu\"", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"activation_function\":\"gelu_new\",", "", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"tie_word_embeddings\":true,", "", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"scale_attn_weights\":true,", "", WISP_OK, NULL, NULL},
        {f, CONFIG, "{", "{\"hidden_size\":9,", FORMAT, "n_embd", "disagrees"},
        {f, CONFIG, "\"n_positions\":64,", "", NOT_FOUND, "n_positions", NULL},
        {f, CONFIG, "\"n_inner\":12", "\"n_inner\":null", FORMAT, "blk.0.ffn_up.weight", "32"},
        {f, CONFIG, "\"gelu_new\"", "\"silu\"", UNSUPPORTED, "activation_function",
         "only gelu_new, gelu, relu and relu2"},
        {f, CONFIG, "\"scale_attn_weights\":true", "\"scale_attn_weights\":false", UNSUPPORTED,
         "scale_attn_weights", "only true"},
        {f, CONFIG, "layer_idx\":false", "layer_idx\":true", UNSUPPORTED,
         "scale_attn_by_inverse_layer_idx", "only false"},
        {f, CONFIG, "attention\":false", "attention\":true", UNSUPPORTED, "add_cross_attention",
         "only false"},
        {f, CONFIG, "GPT2LMHeadModel", "GPT2ForSequenceClassification", UNSUPPORTED,
         "architectures", "only GPT2LMHeadModel"},
        {f, CONFIG, "\"tie_word_embeddings\":true", "\"tie_word_embeddings\":false", NOT_FOUND,
         "lm_head.weight", NULL},
        {f, WEIGHTS, "h.0.mlp.c_fc.bias", "h.0.mlp.c_fc.blas", UNSUPPORTED,
         "transformer.h.0.mlp.c_fc.blas", "type gpt2 does not have"},
        {f, WEIGHTS, "[8,24]", "[24,8]", FORMAT, "blk.0.attn_qkv.weight", "[8, 24]"},
        {f, WEIGHTS, "[8,24]", "[192]", FORMAT, "blk.0.attn_qkv.weight", NULL},
    };
    (void)state;
    check_family_edits(edits, sizeof edits / sizeof *edits);
}

static void settings_of_gemma(void **state) {
    static const enum decoder_family f = FAMILY_GEMMA2, g = FAMILY_GEMMA3_TEXT, h = FAMILY_GEMMA3;
    static const struct family_edit edits[] = {
        {f, CONFIG, "softcapping\":5.0", "softcapping\":null", WISP_OK, NULL, NULL},
        {f, CONFIG, "{", "{\"hidden_act\":\"silu\",", WISP_OK, NULL, NULL}, /* is not read */
        {f, CONFIG, "{", "{\"layer_types\":[\"full_attention\",\"full_attention\"],", WISP_OK, NULL,
         NULL},
        {f, CONFIG, "\"query_pre_attn_scalar\":9,", "", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"sliding_window\":4,", "", WISP_OK, NULL, NULL},
        {f, CONFIG, "{", "{\"tie_word_embeddings\":false,", NOT_FOUND, "lm_head.weight", NULL},
        {f, CONFIG, "\"head_dim\":4,", "", NOT_FOUND, "head_dim", NULL},
        {f, CONFIG, "softcapping\":5.0", "softcapping\":\"x\"", FORMAT, "attn_logit_softcapping",
         "not a number"},
        {f, CONFIG, "softcapping\":3.0", "softcapping\":-1", FORMAT,
         "gemma2.final_logit_softcapping", NULL},
        {f, CONFIG, "\"query_pre_attn_scalar\":9", "\"query_pre_attn_scalar\":0", FORMAT,
         "query_pre_attn_scalar", NULL},
        {f, CONFIG, "\"sliding_window\":4", "\"sliding_window\":null", FORMAT, "sliding_window",
         "null"},
        {f, CONFIG, "pytorch_tanh", "fast", UNSUPPORTED, "hidden_activation",
         "only gelu_pytorch_tanh and relu"},
        {f, CONFIG, "\"attention_bias\":false", "\"attention_bias\":true", UNSUPPORTED,
         "attention_bias", NULL},
        {f, CONFIG, "{", "{\"use_bidirectional_attention\":true,", UNSUPPORTED,
         "use_bidirectional_attention", "only false"},
        {f, CONFIG, "{", "{\"layer_types\":[\"full_attention\"],", FORMAT, "layer_types",
         "num_hidden_layers = 2"},
        {f, CONFIG, "{", "{\"rope_scaling\":{\"type\":\"llama3\"},", UNSUPPORTED, "rope_scaling",
         "only default, linear, yarn and dynamic"},
        {f, WEIGHTS, "layers.1.mlp.up_proj", "layers.1.self_attn.q_norm", UNSUPPORTED,
         "blk.1.attn_q_norm.weight", "do not have"},
        {g, CONFIG, "\"sliding_attention\":{", "\"conv\":{", UNSUPPORTED, "rope_parameters",
         "only full_attention and sliding_attention"},
        {g, CONFIG, "\"default\"", "\"linear\"", UNSUPPORTED, "sliding_attention", "only default"},
        {g, CONFIG, "\"rope_parameters\":{",
         "\"rope_scaling\":{\"factor\":2},\"rope_parameters\":{", UNSUPPORTED, "rope_scaling",
         "beside full_attention"},
        {g, CONFIG, "\"rope_parameters\":{", "\"rope_theta\":5,\"rope_parameters\":{", FORMAT,
         "rope_theta", "disagrees"},
        {g, CONFIG, "\"linear\"", "\"longrope\"", UNSUPPORTED, "full_attention", "longrope"},
        {g, CONFIG, "\"full_attention\":{", "\"full_attention\":[{", FORMAT, NULL, NULL},
        {h, CONFIG, "\"sliding_window_pattern\":2", "\"sliding_window_pattern\":0", FORMAT,
         "sliding_window_pattern", NULL},
        {h, CONFIG, "\"text_config\"", "\"texts_config\"", FORMAT, "text_config", "object"},
        {h, CONFIG, "\"num_attention_heads\":2,", "", FORMAT, "blk.0.attn_q.weight", NULL},
        {h, WEIGHTS, "model.vision_tower.embeddings", "model.visions_tower.embedding", UNSUPPORTED,
         "model.visions_tower.embedding.weight", "does not have"},
    };
    (void)state;
    check_family_edits(edits, sizeof edits / sizeof *edits);
}

static void settings_of_phi3(void **state) {
    static const enum decoder_family f = FAMILY_PHI3;
    static const char old_yarn[] = "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}";
    static const char longrope[] = "\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1,1],"
                                   "\"long_factor\":[1,2]}";
    static const struct family_edit edits[] = {
        {f, CONFIG, "{", "{\"partial_rotary_factor\":1.0,", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"rope_scaling\":null", longrope, WISP_OK, NULL, NULL},
        {f, CONFIG, "\"sliding_window\":4", "\"sliding_window\":null", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"sliding_window\":4,", "", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"rms_norm_eps\":1e-05,", "", WISP_OK, NULL, NULL},
        {f, CONFIG, "{", "{\"partial_rotary_factor\":0.5,", WISP_OK, NULL, NULL},
        {f, CONFIG, "{", "{\"partial_rotary_factor\":0.75,", FORMAT, "llama.rope.dimension_count",
         "3 of a head's 4 values"},
        {f, CONFIG, "{", "{\"partial_rotary_factor\":1.5,", FORMAT, "partial_rotary_factor",
         "at most 1"},
        {f, CONFIG, "{", "{\"partial_rotary_factor\":true,", UNSUPPORTED, "partial_rotary_factor",
         "only numbers"},
        {f, CONFIG, "\"rope_scaling\":null", old_yarn, UNSUPPORTED, "rope_scaling",
         "only longrope"},
        {f, CONFIG,
         "\"original_max_position_embeddings\":64,\"rms_norm_eps\":1e-05,"
         "\"rope_theta\":500.0,\"rope_scaling\":null",
         longrope, NOT_FOUND, "original_max_position_embeddings", NULL},
        {f, CONFIG, "\"intermediate_size\":12", "\"intermediate_size\":13", FORMAT,
         "model.layers.0.mlp.gate_up_proj.weight", "26 rows"},
        {f, CONFIG, "\"num_key_value_heads\":1", "\"num_key_value_heads\":2", FORMAT,
         "model.layers.0.self_attn.qkv_proj.weight", "24 rows"},
        {f, CONFIG, "Phi3ForCausalLM", "Phi3ForTokenClassification", UNSUPPORTED, "architectures",
         "only Phi3ForCausalLM"},
        {f, WEIGHTS, "layers.1.mlp.gate_up_proj", "layers.1.self_attn.q_proj", UNSUPPORTED,
         "model.layers.1.self_attn.q_proj.weight", "phi3 does not have"},
        {f, WEIGHTS, "[24,8]", "[192]", FORMAT, "model.layers.0.mlp.gate_up_proj.weight", NULL},
    };
    (void)state;
    check_family_edits(edits, sizeof edits / sizeof *edits);
}

static void settings_of_bitnet(void **state) {
    static const enum decoder_family p = FAMILY_BITNET, f = FAMILY_BITNET_FLOATS;
    static const struct family_edit edits[] = {
        {p, CONFIG, "\"quantization_mode\":\"offline\"", "\"quantization_mode\":null", WISP_OK,
         NULL, NULL},
        {p, CONFIG, "\"hidden_act\":\"relu2\"", "\"hidden_act\":\"silu\"", WISP_OK, NULL, NULL},
        {p, CONFIG, "relu2", "gelu", UNSUPPORTED, "hidden_act", "only relu2, relu and silu"},
        {p, CONFIG, "autobitlinear", "bitlinear", UNSUPPORTED, "linear_class",
         "only autobitlinear"},
        {p, CONFIG, "offline", "sometimes", UNSUPPORTED, "quantization_mode",
         "only offline and online"},
        {p, CONFIG, "\"quant_method\":\"bitnet\"",
         "\"use_rms_norm\":true,\"quant_method\":\"bitnet\"", UNSUPPORTED, "use_rms_norm",
         "only false"},
        {p, CONFIG, "{", "{\"attention_bias\":true,", UNSUPPORTED, "attention_bias", "only false"},
        {p, CONFIG, "offline", "online", FORMAT, NULL, "not a matrix of floats"},
        {f, CONFIG, "online", "offline", FORMAT, NULL, "not a matrix of bytes"},
        {p, CONFIG, "\"intermediate_size\":12", "\"intermediate_size\":16", FORMAT,
         "blk.0.ffn_up.weight", "16"},
        {p, WEIGHTS, "0.mlp.up_proj.weight_scale", "0.mlp.up_proj.weight_scalf", NOT_FOUND,
         "model.layers.0.mlp.up_proj.weight_scale", "missing"},
    };
    (void)state;
    check_family_edits(edits, sizeof edits / sizeof *edits);
}

/* The code 3 stands for no weight. */
static void packed_codes_are_checked(void **state) {
    static const char name[] = "\"model.layers.0.mlp.up_proj.weight\"", place[] = "offsets\":[";
    struct folder folder;
    (void)state;
    decoder_folder_make_family(&folder, FAMILY_BITNET);
    unsigned char *file = (unsigned char *)folder_file(&folder, WEIGHTS)->data;
    const char *entry = strstr((const char *)file + 8, name);
    assert_non_null(entry);
    const char *offset = strstr(entry, place) + strlen(place);
    file[8 + load_u64(file) + strtoul(offset, NULL, 10)] = 0x20 | 3;
    folder_write(&folder, temporary_path("model"));
    folder_release(&folder);
    const struct opening opening = open_path(temporary_path("model"), 1 << 20);
    expect_outcome(&opening, WISP_ERROR_FORMAT, "model.layers.0.mlp.up_proj.weight",
                   "the code 3 in row 0");
}

static void settings_of_lfm2(void **state) {
    static const enum decoder_family f = FAMILY_LFM2;
    static const struct family_edit edits[] = {
        {f, CONFIG, "\"full_attn_idxs\":[1]", "\"layer_types\":[\"conv\",\"full_attention\"]",
         WISP_OK, NULL, NULL},
        {f, CONFIG, "\"tie_embedding\":true,", "", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"tie_embedding\":true", "\"tie_word_embeddings\":true", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"block_ff_dim\":14,\"block_auto_adjust_ff_dim\":true",
         "\"intermediate_size\":12,\"block_auto_adjust_ff_dim\":false", WISP_OK, NULL, NULL},
        {f, CONFIG, "\"block_ff_dim\":14", "\"block_ff_dim\":14,\"intermediate_size\":99", WISP_OK,
         NULL, NULL},
        {f, CONFIG, "\"conv_L_cache\":3,", "", WISP_OK, NULL, NULL},
        {f, CONFIG, "{", "{\"tie_word_embeddings\":true,\"use_pos_enc\":true,", WISP_OK, NULL,
         NULL},
        {f, CONFIG, "{",
         "{\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
         "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":32},",
         WISP_OK, NULL, NULL},
        {f, CONFIG, "\"tie_embedding\":true",
         "\"tie_embedding\":false,\"tie_word_embeddings\":true", NOT_FOUND, "lm_head.weight", NULL},
        {f, CONFIG, "\"tie_embedding\":true", "\"tie_embedding\":1", FORMAT, "tie_embedding", NULL},
        {f, CONFIG, "\"conv_bias\":false", "\"conv_bias\":true", UNSUPPORTED, "conv_bias",
         "only false"},
        {f, CONFIG, "\"full_attn_idxs\":[1]", "\"layer_types\":[\"conv\",\"linear_attention\"]",
         UNSUPPORTED, "layer_types", "only conv, full_attention"},
        {f, CONFIG, "\"full_attn_idxs\":[1]", "\"full_attn_idxs\":[2]", FORMAT, "full_attn_idxs",
         "of which there are 2"},
        {f, CONFIG, "\"full_attn_idxs\":[1]", "\"full_attn_idxs\":1", FORMAT, "full_attn_idxs",
         "list"},
        {f, CONFIG, "\"full_attn_idxs\":[1]", "\"full_attn_idxs\":[0]", NOT_FOUND,
         "blk.0.attn_q.weight", NULL},
        {f, CONFIG, "multiplier\":1.2", "multiplier\":-1", FORMAT, "block_ffn_dim_multiplier",
         "above 0"},
        {f, CONFIG, "multiplier\":1.2", "multiplier\":1e300", FORMAT, "block_ffn_dim_multiplier",
         "makes no size"},
        {f, CONFIG, "multiplier\":1.2", "multiplier\":null", FORMAT, "blk.0.ffn_up.weight", "9"},
        {f, CONFIG, "\"block_auto_adjust_ff_dim\":true", "\"block_auto_adjust_ff_dim\":1", FORMAT,
         "block_auto_adjust_ff_dim", NULL},
        {f, CONFIG, "\"conv_L_cache\":3", "\"conv_L_cache\":4", FORMAT,
         "blk.0.shortconv.conv.weight", NULL},
        {f, CONFIG, "\"num_key_value_heads\":1,", "", NOT_FOUND, "num_key_value_heads", NULL},
        {f, WEIGHTS, "[8,1,3]", "[8,3,1]", FORMAT, "blk.0.shortconv.conv.weight", NULL},
    };
    (void)state;
    check_family_edits(edits, sizeof edits / sizeof *edits);
}

/* ---- rotary positions ----------------------------------------------------------------------- */

/* Opens the Llama with another value of "rope_scaling". */
static struct opening open_scaled(const char *scaling) {
    char with[320];
    struct folder folder;
    decoder_folder_make(&folder, TOKENIZER_MODEL_BPE);
    snprintf(with, sizeof with, "\"rope_scaling\":%s", scaling);
    folder_replace(&folder, CONFIG, "\"rope_scaling\":null", with);
    folder_write(&folder, temporary_path("model"));
    const struct opening opening = open_path(temporary_path("model"), folder_size(&folder));
    folder_release(&folder);
    return opening;
}

#define YARN "{\"rope_type\":\"yarn\",\"factor\":4"

#define LONGROPE "{\"rope_type\":\"longrope\",\"short_factor\":[1,1.5],\"long_factor\":[2,9]"

static const char ORIGINAL[] = "original_max_position_embeddings";

static void settings_of_scaling(void **state) {
    static const struct {
        const char *scaling;
        int status;
        const char *field, *says;
    } cases[] = {
        {YARN "}", WISP_OK, NULL, NULL},
        {YARN ",\"original_max_position_embeddings\":null,\"beta_fast\":null}", WISP_OK, NULL,
         NULL},
        {YARN ",\"truncate\":true,\"attention_factor\":null}", WISP_OK, NULL, NULL},
        {"{\"type\":\"dynamic\",\"factor\":2}", WISP_OK, NULL, NULL},
        {"{\"type\":\"yarn\"}", NOT_FOUND, "factor", NULL},
        {"{\"type\":\"dynamic\"}", NOT_FOUND, "factor", NULL},
        {YARN ",\"original_max_position_embeddings\":0}", FORMAT,
         "original_max_position_embeddings", NULL},
        {YARN ",\"beta_slow\":-1}", FORMAT, "beta_slow", "above 0"},
        {YARN ",\"beta_fast\":\"x\"}", FORMAT, "beta_fast", "above 0"},
        {YARN ",\"attention_factor\":1e60}", FORMAT, "attention_factor", "above 0"},
        {YARN ",\"mscale\":[]}", FORMAT, "mscale", "above 0"},
        {YARN ",\"truncate\":false}", UNSUPPORTED, "truncate", "only true"},
        {YARN ",\"rope_theta\":1},\"rope_theta\":1,\"x\":{", FORMAT, NULL, NULL},
        {YARN "},\"original_max_position_embeddings\":9,\"x\":{}", UNSUPPORTED,
         "original_max_position_embeddings", "outside"},
        {"{\"rope_type\":\"su\",\"factor\":4}", UNSUPPORTED, "rope_scaling",
         "type su is not supported, only default, linear, llama3, longrope, yarn and dynamic"},
        {LONGROPE "}", WISP_OK, NULL, NULL},
        {LONGROPE ",\"factor\":null,\"attention_factor\":null}", WISP_OK, NULL, NULL},
        {LONGROPE ",\"original_max_position_embeddings\":32},"
                  "\"original_max_position_embeddings\":32,\"x\":{}",
         WISP_OK, NULL, NULL},
        {LONGROPE ",\"original_max_position_embeddings\":32},"
                  "\"original_max_position_embeddings\":33,\"x\":{}",
         FORMAT, ORIGINAL, "disagrees"},
        {LONGROPE "},\"original_max_position_embeddings\":0,\"x\":{}", FORMAT, ORIGINAL, NULL},
        {LONGROPE ",\"original_max_position_embeddings\":1}", FORMAT, ORIGINAL,
         "no attention_factor follows"},
        {LONGROPE ",\"factor\":0.5}", FORMAT, "factor", "at least 1"},
        {LONGROPE ",\"attention_factor\":0}", FORMAT, "attention_factor", "here, not 0"},
        {"{\"type\":\"longrope\",\"short_factor\":[1,1]}", NOT_FOUND, "long_factor", "this list"},
        {"{\"type\":\"longrope\",\"long_factor\":[1,1]}", NOT_FOUND, "short_factor", "this list"},
        {"{\"type\":\"longrope\",\"short_factor\":[1],\"long_factor\":[1,1]}", FORMAT,
         "short_factor", "not a list of 2 numbers"},
        {"{\"type\":\"longrope\",\"short_factor\":[1,1],\"long_factor\":2}", FORMAT, "long_factor",
         "not a list of 2 numbers"},
        {"{\"type\":\"longrope\",\"short_factor\":[1,0.5],\"long_factor\":[1,1]}", FORMAT,
         "short_factor", "0.5 is not a number of at least 1"},
        {"{\"type\":\"longrope\",\"short_factor\":[1,1],\"long_factor\":[1,1e60]}", FORMAT,
         "long_factor", "not a number"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct opening opening = open_scaled(cases[i].scaling);
        if ((int)opening.status != cases[i].status)
            fail_msg("%s: %s", cases[i].scaling, opening.error.message);
        expect_outcome(&opening, (wisp_status)cases[i].status, cases[i].field, cases[i].says);
    }
}

/* ---- converted files ------------------------------------------------------------------------ */

enum { N = 40, LOGITS = N * FOLDER_TOKENS };

static void read_logits(const char *path, float *logits) {
    wisp_model *model;
    wisp_session *session;
    wisp_error error;
    int32_t ids[N];
    const wisp_model_options options = {.compute = WISP_COMPUTE_F32};
    for (int32_t i = 0; i < N; i++)
        ids[i] = 3 + i * i % 250;
    if (wisp_model_open(path, &options, &model, &error) != WISP_OK ||
        wisp_session_open(model, NULL, &session, &error) != WISP_OK ||
        wisp_logits(session, ids, N, logits, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_session_close(session);
    wisp_model_close(model);
}

/* Matrices of GPT-2 are transposed, norms of Gemma get 1 more, taps of LFM2 become a matrix: a file
 * with plain matrices, one with neurons as rows and the folder give the same bits. */
static void converted_families_have_the_same_logits(void **state) {
    static float logits[LOGITS], converted[LOGITS];
    char path[256], file[256];
    (void)state;
    snprintf(path, sizeof path, "%s", temporary_path("model"));
    snprintf(file, sizeof file, "%s", temporary_path("model.gguf"));
    for (enum decoder_family f = 0; f < DECODER_FAMILIES; f++) {
        struct folder folder;
        decoder_folder_make_family(&folder, f);
        folder_write(&folder, path);
        folder_release(&folder);
        read_logits(path, logits);
        for (int neurons = 0; neurons < (f < FAMILY_QWEN3_MOE ? 2 : 1); neurons++) {
            const wisp_convert_options options = {.neurons = neurons};
            struct directory dir;
            wisp_error error;
            if (wisp_convert(path, file, &options, &error) != WISP_OK ||
                directory_open_path(&dir, file, &error) != WISP_OK)
                fail_msg("%s", error.message);
            assert_true((directory_find_metadata(&dir, "wisp.neurons.types") != NULL) == neurons);
            directory_release(&dir);
            read_logits(file, converted);
            assert_memory_equal(logits, converted, sizeof logits);
        }
    }
}

/* Two forms of one Gemma 3, of which the second has a part that reads images. */
static void forms_of_gemma3_agree(void **state) {
    static float logits[2][LOGITS];
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct folder folder;
        decoder_folder_make_family(&folder, i == 0 ? FAMILY_GEMMA3_TEXT : FAMILY_GEMMA3);
        folder_write(&folder, temporary_path("model"));
        folder_release(&folder);
        read_logits(temporary_path("model"), logits[i]);
    }
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
}

static void scaling_converts(void **state) {
    static const char *const scalings[] = {"null",
                                           YARN "}",
                                           YARN ",\"original_max_position_embeddings\":100000}",
                                           YARN ",\"attention_factor\":1.5}",
                                           YARN ",\"mscale\":0.5,\"mscale_all_dim\":1}",
                                           YARN ",\"beta_fast\":2,\"beta_slow\":0.25}",
                                           LONGROPE "}",
                                           LONGROPE ",\"factor\":8}",
                                           LONGROPE ",\"original_max_position_embeddings\":20}"};
    enum { SCALINGS = sizeof scalings / sizeof *scalings };
    static float logits[SCALINGS][LOGITS], converted[LOGITS];
    char path[256], file[256];
    wisp_error error;
    (void)state;
    snprintf(path, sizeof path, "%s", temporary_path("model"));
    snprintf(file, sizeof file, "%s", temporary_path("model.gguf"));
    for (size_t i = 0; i < SCALINGS; i++) {
        const struct opening opening = open_scaled(scalings[i]);
        expect_outcome(&opening, WISP_OK, NULL, NULL);
        if (wisp_convert(path, file, NULL, &error) != WISP_OK)
            fail_msg("%s", error.message);
        read_logits(path, logits[i]);
        read_logits(file, converted);
        assert_memory_equal(logits[i], converted, sizeof converted);
        for (size_t k = 0; k < i; k++)
            if (memcmp(logits[i], logits[k], sizeof converted) == 0)
                fail_msg("%s and %s give the same logits", scalings[k], scalings[i]);
    }
}

/* Opens each folder with each allocation failing in turn: an error of memory, and nothing leaks. */
static void memory_may_run_out(void **state) {
    (void)state;
    for (enum decoder_family f = 0; f < DECODER_FAMILIES && allocations_are_watched(); f++) {
        struct folder folder;
        char path[256];
        snprintf(path, sizeof path, "%s", temporary_path("model"));
        decoder_folder_make_family(&folder, f);
        folder_write(&folder, path);
        folder_release(&folder);
        expect_memory_errors(path);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_of_gpt2),
        cmocka_unit_test(settings_of_gemma),
        cmocka_unit_test(settings_of_lfm2),
        cmocka_unit_test(settings_of_bitnet),
        cmocka_unit_test(packed_codes_are_checked),
        cmocka_unit_test(settings_of_phi3),
        cmocka_unit_test(settings_of_scaling),
        cmocka_unit_test(converted_families_have_the_same_logits),
        cmocka_unit_test(forms_of_gemma3_agree),
        cmocka_unit_test(scaling_converts),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests_name("folders of other decoders", tests, NULL,
                                       tear_down_temporary_folder);
}
