/* SPDX-License-Identifier: Apache-2.0
 * Embeddings of decoders: settings of folders and files that are followed or refused, and rows that
 * depend on nothing but their text. test_models.c compares the same folders, unchanged, with
 * sentence-transformers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "support/decoder_folder.h"
#include "support/decoders.h"
#include "support/folder_edit.h"
#include "support/golden.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

enum { FORMAT = WISP_ERROR_FORMAT, UNSUPPORTED = WISP_ERROR_UNSUPPORTED };

static const char CONFIG[] = "config.json", TOKENIZER[] = "tokenizer_config.json";
static const char qwen3[] = "qwen3-embedding", gemma[] = "embeddinggemma", last[] = "gemma3-last",
                  lfm2[] = "lfm2-embedding";

static void settings_of_folders(void **state) {
    static const struct model_edit edits[] = {
        {qwen3, CONFIG, "Qwen3Model", "Qwen3ForCausalLM", WISP_OK, NULL, NULL},
        {qwen3, CONFIG, "Qwen3Model", "Qwen3ForTokenClassification", UNSUPPORTED, "architectures",
         "only Qwen3ForCausalLM"},
        {qwen3, CONFIG, "{", "{\"is_causal\":true,", WISP_OK, NULL, NULL},
        {qwen3, CONFIG, "{", "{\"is_causal\":false,", UNSUPPORTED, "is_causal", "only true"},
        {qwen3, CONFIG, "{", "{\"use_bidirectional_attention\":true,", UNSUPPORTED,
         "use_bidirectional_attention", "only false"},
        {qwen3, CONFIG, "{", "{\"auto_map\":{\"AutoModel\":\"modeling.Model\"},", UNSUPPORTED,
         "auto_map", "modeling.Model"},
        {qwen3, TOKENIZER, "{", "{\"add_eos_token\":1,", FORMAT, "add_eos_token", "true or false"},
        {qwen3, "modules.json", "pooling.Pooling", "pooling.Pool", UNSUPPORTED, "type", "Pool are"},
        {gemma, CONFIG, "\"use_bidirectional_attention\": true",
         "\"use_bidirectional_attention\": false", WISP_OK, NULL, NULL},
        {gemma, CONFIG, "Gemma3TextModel", "Gemma3ForCausalLM", UNSUPPORTED, "architectures",
         "only Gemma3TextModel"},
        {gemma, CONFIG, "\"attn_logit_softcapping\": null", "\"attn_logit_softcapping\": 5.0",
         UNSUPPORTED, "attention", "full does not compute"},
        {last, CONFIG, "Gemma3TextModel", "Gemma3ForCausalLM", WISP_OK, NULL, NULL},
        {last, CONFIG, "\"sliding_window\": 7", "\"sliding_window\": 1", WISP_OK, NULL, NULL},
        {lfm2, CONFIG, "\"lfm2\"", "\"lfm2_bidirectional\"", WISP_OK, NULL, NULL},
        {lfm2, CONFIG, "Lfm2BidirectionalModel", "Lfm2Model", WISP_OK, NULL, NULL},
        {lfm2, CONFIG, "{", "{\"auto_map\":{\"AutoModel\":\"modeling.Lfm2BidirectionalModel\"},",
         WISP_OK, NULL, NULL}, /* as LFM2.5-Embedding names what transformers has now */
        {lfm2, CONFIG, "\"conv_bias\": false", "\"conv_bias\": true", UNSUPPORTED, "conv_bias",
         "only false"},
    };
    (void)state;
    check_model_edits(edits, sizeof edits / sizeof *edits);
}

/* Other decoders, as no known model has them: the output layer is left out, and a family whose
 * folders have not been tried is refused. */
static void folders_of_other_decoders(void **state) {
    static const char modules[] =
        "[{\"idx\":0,\"name\":\"0\",\"path\":\"\",\"type\":\"sentence_transformers.models."
        "Transformer\"},{\"idx\":1,\"name\":\"1\",\"path\":\"1_Pooling\",\"type\":"
        "\"sentence_transformers.models.Pooling\"}]";
    static const char pooling[] = "{\"pooling_mode_lasttoken\":true}";
    static const char *const others[] = {"tie_word_embeddings\":true",
                                         "tie_word_embeddings\":false"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct folder folder;
        decoder_folder_make(&folder, TOKENIZER_SENTENCEPIECE);
        folder_put_text(&folder, "modules.json", modules);
        folder_put_text(&folder, "1_Pooling/config.json", pooling);
        folder_replace(&folder, CONFIG, others[0], others[i]);
        const char *path = temporary_path("model");
        folder_write(&folder, path);
        struct opening opening = open_path(path, folder_size(&folder));
        expect_outcome(&opening, WISP_OK, NULL, NULL);
        folder_release(&folder);
    }
    struct folder folder;
    decoder_folder_make_family(&folder, FAMILY_GPT2);
    folder_put_text(&folder, "modules.json", modules);
    folder_put_text(&folder, "1_Pooling/config.json", pooling);
    const char *path = temporary_path("model");
    folder_write(&folder, path);
    const struct opening opening = open_path(path, folder_size(&folder));
    expect_outcome(&opening, WISP_ERROR_UNSUPPORTED, "model_type", "gpt2 with a modules.json");
    folder_release(&folder);
}

static void keys_of_files(void **state) {
    static const struct {
        const char *decoder;
        uint32_t pooling;
        int causal; /* -1: no key */
        int status;
        const char *field, *says;
    } cases[] = {
        {"llama", 3, -1, WISP_OK, NULL, NULL},
        {"llama", 3, 0, WISP_OK, NULL, NULL},
        {"llama with windows", 3, 1, WISP_OK, NULL, NULL},
        {"llama with windows", 1, 0, WISP_OK, NULL, NULL},
        {"llama", 2, 1, WISP_OK, NULL, NULL},
        {"llama", 0, 1, WISP_OK, NULL, NULL},
        {"llama", 4, -1, UNSUPPORTED, "llama.pooling_type", "type 4 of a decoder"},
        {"llama", 0, 0, UNSUPPORTED, "llama.attention.causal", "only true"},
        {"gpt2", 3, -1, UNSUPPORTED, "gpt2.pooling_type", "3 is not supported, only 0"},
        {"gemma2", 3, -1, UNSUPPORTED, "attention",
         "full does not compute"}, /* scores are capped */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tiny_decoder *decoder = find_tiny(cases[i].decoder);
        struct gguf file;
        struct bytes bytes = {0};
        char key[64];
        decoder_make(&file, decoder);
        snprintf(key, sizeof key, "%s.pooling_type", decoder->architecture);
        gguf_set_u32(&file, key, cases[i].pooling);
        snprintf(key, sizeof key, "%s.attention.causal", decoder->architecture);
        if (cases[i].causal >= 0)
            gguf_set_bool(&file, key, (unsigned char)cases[i].causal);
        gguf_write_bytes(&file, &bytes);
        gguf_release(&file);
        expect_opening(&bytes, (wisp_status)cases[i].status, cases[i].field, cases[i].says);
        bytes_release(&bytes);
    }
}

enum { TEXTS = 6, MOST_VALUES = 64 };

/* Rows have the same bits with any number of threads, alone and in batches. */
static void rows_depend_on_their_text_alone(void **state) {
    static const char *const names[] = {qwen3, gemma, last, lfm2};
    static const char *const lines[TEXTS] = {
        "the cat sat on the mat",
        "",
        "water",
        "the cat sat on the mat, the water, the cat and the mat sat on the cat on the mat",
        "a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s",
        "find the water"};
    wisp_text texts[TEXTS];
    (void)state;
    for (size_t t = 0; t < TEXTS; t++)
        texts[t] = (wisp_text){lines[t], strlen(lines[t])};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (wisp_compute compute = WISP_COMPUTE_F32; compute <= WISP_COMPUTE_INT8; compute++) {
            char path[GOLDEN_PATH_BYTES], name[64];
            float rows[TEXTS * MOST_VALUES], alone[MOST_VALUES];
            snprintf(name, sizeof name, "models/%s", names[i]);
            wisp_model *model = open_model_or_fail(data_path(name, path), compute, NULL);
            const size_t size = wisp_model_dimensions(model);
            assert_true(size <= MOST_VALUES);
            wisp_session *session = open_session_or_fail(model, 1);
            assert_int_equal(wisp_embed(session, texts, TEXTS, NULL, rows, NULL), WISP_OK);
            wisp_session_close(session);
            for (uint32_t threads = 1; threads <= 4; threads++) {
                session = open_session_or_fail(model, threads);
                for (size_t t = 0; t < TEXTS; t++) {
                    assert_int_equal(wisp_embed(session, &texts[t], 1, NULL, alone, NULL), WISP_OK);
                    assert_memory_equal(alone, rows + t * size, size * sizeof *alone);
                }
                wisp_session_close(session);
            }
            wisp_model_close(model);
        }
}

/* Else it would get the row of the text beside it. */
static void a_text_without_tokens_is_refused(void **state) {
    (void)state;
    static const char *const models[] = {"qwen3-embedding", "modernbert", "eurobert"};
    const wisp_text texts[] = {wisp_text_of("the cat"), wisp_text_of(""), wisp_text_of("a")};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct folder folder;
        wisp_error error;
        float rows[3 * 64];
        folder_read_model(&folder, models[i]);
        folder_replace(&folder, "tokenizer.json", "\"post_processor\": {",
                       "\"post_processor\": null, \"other\": {");
        const char *path = temporary_path("no-tokens");
        folder_write(&folder, path);
        folder_release(&folder);
        wisp_model *model = open_model_or_fail(path, WISP_COMPUTE_F32, NULL);
        wisp_session *session = open_session_or_fail(model, 1);
        assert_true(wisp_model_dimensions(model) <= 64);
        assert_int_equal(wisp_embed(session, texts, 3, NULL, rows, &error), WISP_ERROR_ARGUMENT);
        assert_non_null(strstr(error.message, "text 1 has no tokens"));
        assert_int_equal(wisp_embed(session, texts, 1, NULL, rows, &error), WISP_OK);
        wisp_session_close(session);
        wisp_model_close(model);
    }
}

static void what_decoders_that_embed_cannot_do(void **state) {
    char path[GOLDEN_PATH_BYTES];
    wisp_error error;
    wisp_model *model = NULL;
    wisp_session *session = NULL;
    wisp_model_info info;
    (void)state;
    data_path("models/qwen3-embedding", path);
    const wisp_model_options portable = {.portable = true};
    assert_int_equal(wisp_model_open(path, &portable, &model, &error), WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "portable");
    model = open_model_or_fail(path, WISP_COMPUTE_AUTO, NULL);
    wisp_model_get_info(model, &info);
    assert_string_equal(info.pooling, "last");
    assert_int_equal(info.max_tokens, 100);
    assert_string_equal(wisp_model_prompt(model, "query"), "Instruct: find the water\nQuery:");
    const wisp_session_options local = {.attention = "local"};
    assert_int_equal(wisp_session_open(model, &local, &session, &error), WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "attention");
    session = open_session_or_fail(model, 1);
    const wisp_generate_options options = {.max_tokens = 1};
    const wisp_status status = wisp_generate(session, wisp_text_of("a"), &options, NULL, &error);
    assert_int_equal(status, WISP_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "generate no text"));
    wisp_session_close(session);
    wisp_model_close(model);
}

static void memory_runs_out(void **state) {
    char path[GOLDEN_PATH_BYTES];
    (void)state;
    expect_memory_errors(data_path("models/embeddinggemma", path));
    expect_memory_errors(data_path("models/lfm2-embedding", path));
}

/* The values are PyTorch's, in f64: torch.nn.functional's function of each name. */
static void activations_of_dense_modules(void **state) {
    static const float inputs[] = {-3.0f, -0.5f, 0.0f, 0.75f, 4.0f};
    static const struct {
        const char *class;
        double outputs[5];
    } activations[] = {
        {"Tanh", {-0.9950547537, -0.4621171573, 0, 0.6351489524, 0.9993292997}},
        {"ReLU", {0, 0, 0, 0.75, 4}},
        {"Sigmoid", {0.04742587318, 0.3775406688, 0.5, 0.6791786992, 0.98201379}},
        {"SiLU", {-0.1422776195, -0.1887703344, 0, 0.5093840244, 3.92805516}},
        {"GELU", {-0.004049694095, -0.1542687694, 0, 0.5800294857, 3.999873315}},
        {"ELU", {-0.9502129316, -0.3934693403, 0, 0.75, 4}},
        {"LeakyReLU", {-0.03, -0.005, 0, 0.75, 4}},
        {"Softplus", {0.04858735157, 0.4740769842, 0.6931471806, 1.136871006, 4.018149928}},
        {"Mish", {-0.1456474613, -0.2207437747, 0, 0.6100183352, 3.997412807}},
        {"Softsign", {-0.75, -0.3333333333, 0, 0.4285714286, 0.8}},
    };
    (void)state;
    /* The second module of a model that does not normalise: W = 0, so that its row is
     * activation(b).
     */
    static const char header[] =
        "{\"linear.bias\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,20]},"
        "\"linear.weight\":{\"dtype\":\"F32\",\"shape\":[5,36],\"data_offsets\":[20,740]}}";
    static const float zeros[5 * 36] = {0};
    for (size_t a = 0; a < sizeof activations / sizeof *activations; a++) {
        char config[256];
        float row[5];
        struct folder folder;
        struct bytes data = {0}, weights = {0};
        bytes_put_f32s(&data, inputs, 5);
        bytes_put_f32s(&data, zeros, sizeof zeros / sizeof *zeros);
        safetensors_put(&weights, header, strlen(header), data.data, data.size);
        folder_read_model(&folder, "dense-twice");
        snprintf(config, sizeof config,
                 "{\"in_features\":36,\"out_features\":5,\"bias\":true,"
                 "\"activation_function\":\"torch.nn.modules.activation.%s\"}",
                 activations[a].class);
        folder_put_text(&folder, "3_Dense/config.json", config);
        folder_put(&folder, "3_Dense/model.safetensors", weights.data, weights.size);
        const char *path = temporary_path("model");
        folder_write(&folder, path);
        wisp_model *model = open_model_or_fail(path, WISP_COMPUTE_F32, NULL);
        wisp_session *session = open_session_or_fail(model, 1);
        const wisp_text text = wisp_text_of("water");
        assert_int_equal(wisp_embed(session, &text, 1, NULL, row, NULL), WISP_OK);
        for (size_t i = 0; i < 5; i++)
            if (!(fabs((double)row[i] - activations[a].outputs[i]) <= 1e-6))
                fail_msg("%s(%g): %.9g instead of %.9g", activations[a].class, (double)inputs[i],
                         (double)row[i], activations[a].outputs[i]);
        wisp_session_close(session);
        wisp_model_close(model);
        folder_release(&folder);
        bytes_release(&data);
        bytes_release(&weights);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_of_folders),
        cmocka_unit_test(folders_of_other_decoders),
        cmocka_unit_test(keys_of_files),
        cmocka_unit_test(rows_depend_on_their_text_alone),
        cmocka_unit_test(a_text_without_tokens_is_refused),
        cmocka_unit_test(what_decoders_that_embed_cannot_do),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(activations_of_dense_modules),
    };
    return cmocka_run_group_tests_name("embeddings of decoders", tests, NULL,
                                       tear_down_temporary_folder);
}
