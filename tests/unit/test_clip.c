/* SPDX-License-Identifier: Apache-2.0
 * The settings of folders of CLIP and SigLIP. test_models.c has goldens, and
 * test_encoder_families.c makes the text towers sparse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "support/folder.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

#define FORMAT WISP_ERROR_FORMAT
#define UNSUPPORTED WISP_ERROR_UNSUPPORTED
#define NOT_FOUND WISP_ERROR_NOT_FOUND

enum { DIMENSIONS = 20 }; /* of tests/data/models/clip */

static const char CONFIG[] = "config.json", TOKENS[] = "tokenizer.json",
                  PIXELS[] = "preprocessor_config.json", WEIGHTS[] = "model.safetensors",
                  VOCAB[] = "vocab.json", SETTINGS[] = "tokenizer_config.json";

static const struct folder_case {
    const char *model, *file, *old, *with;
    wisp_status status;
    const char *field;
    const char *says;
} cases[] = {
    {"clip", CONFIG, "\"quick_gelu\"", "\"gelu\"", UNSUPPORTED, "hidden_act",
     "quick_gelu is not supported, only gelu"}, /* of the other tower */
    {"clip", CONFIG, "\"quick_gelu\"", "\"silu\"", UNSUPPORTED, "hidden_act",
     "silu is not supported, only quick_gelu, gelu and gelu_pytorch_tanh"},
    {"clip", CONFIG, "\"eos_token_id\": 569", "\"eos_token_id\": 2", WISP_OK, NULL, NULL},
    {"clip", CONFIG, "\"eos_token_id\": 569", "\"eos_token_id\": 7", UNSUPPORTED, "eos_token_id",
     "7 is not supported, only 2 and vocab_size - 1 = 569"},
    {"clip", CONFIG, "\"eos_token_id\": 569", "\"x\": 7", UNSUPPORTED, "eos_token_id", "49407"},
    {"clip", CONFIG, "\"eos_token_id\": 569", "\"eos_token_id\": [569]", FORMAT, "eos_token_id",
     "id of a token"},
    {"clip", CONFIG, "\"CLIPModel\"", "\"CLIPForImageClassification\"", UNSUPPORTED,
     "architectures", "only CLIPModel"},
    {"clip", CONFIG, "\"patch_size\": 8", "\"patch_size\": 80", FORMAT, "image_size",
     "32 pixels with patches of 80"},
    {"clip", CONFIG, "\"num_channels\": 3", "\"num_channels\": 4", UNSUPPORTED, "num_channels",
     "only 3"},
    {"clip", CONFIG, "\"vision_config\"", "\"vision\"", FORMAT, "vision_config", "an object"},
    {"clip", PIXELS, "\"do_center_crop\": true", "\"do_center_crop\": false", UNSUPPORTED, "size",
     "image_size of vision_config, 32"},
    {"clip", PIXELS, "\"do_center_crop\": true", "\"do_center_crop\": 7", FORMAT, "do_center_crop",
     "true or false"},
    {"clip", PIXELS, "\"resample\": 3", "\"resample\": 2", WISP_OK, NULL, NULL},
    {"clip", PIXELS, "\"resample\": 3", "\"resample\": 1", UNSUPPORTED, "resample",
     "1 is not supported, only 2 (bilinear) and 3 (bicubic)"},
    {"clip", PIXELS, "\"do_convert_rgb\": true", "\"do_convert_rgb\": false", UNSUPPORTED,
     "do_convert_rgb", "only true and null"},
    {"clip", PIXELS, "0.00392156862745098", "0.0078", UNSUPPORTED, "rescale_factor", "1 / 255"},
    {"clip", PIXELS, "\"shortest_edge\": 32", "\"shortest_edge\": 36", UNSUPPORTED, "size",
     "image_size of vision_config, 32"},
    {"clip", PIXELS, "\"width\": 32", "\"width\": 30", UNSUPPORTED, "crop_size", "32"},
    {"clip", PIXELS, "\"image_std\": [", "\"image_std\": [1,", FORMAT, "image_std",
     "three numbers"},
    {"clip", CONFIG, "\"text_config\"", "\"text\"", FORMAT, "text_config", "an object"},
    {"clip", CONFIG, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4", NOT_FOUND,
     "blk.3.attn_q.weight", "missing"},
    {"clip", WEIGHTS, "text_model.final_layer_norm.bias", "text_model.final_layer_norm.mean",
     UNSUPPORTED, "text_model.final_layer_norm.mean", "type clip"},
    {"clip", WEIGHTS, "\"text_projection.weight", "\"logit_scale_ection.weight", NOT_FOUND,
     "dense_2.weight", "projection"},
    {"clip", TOKENS, "\"end_of_word_suffix\": \"</w>\"", "\"end_of_word_suffix\": \"@@\"",
     UNSUPPORTED, "end_of_word_suffix", "only null and \"</w>\""},
    {"clip", TOKENS, "\"end_of_word_suffix\": \"</w>\"", "\"end_of_word_suffix\": null",
     UNSUPPORTED, "end_of_word_suffix", "Lowercase"},
    {"clip", TOKENS, "\"type\": \"Lowercase\"", "\"type\": \"NFKC\"", UNSUPPORTED, "normalizer",
     "NFKC is not supported"},
    {"clip-text", CONFIG, "\"gelu\"", "\"gelu_pytorch_tanh\"", WISP_OK, NULL, NULL},
    {"siglip", CONFIG, "\"gelu_pytorch_tanh\"", "\"silu\"", UNSUPPORTED, "hidden_act",
     "silu is not supported, only gelu_pytorch_tanh, gelu and quick_gelu"},
    {"siglip", CONFIG, "\"patch_size\": 7", "\"patch_size\": 7, \"vision_use_head\": false",
     UNSUPPORTED, "vision_use_head", "only true"},
    {"siglip", CONFIG, "\"SiglipModel\"", "\"SiglipForImageClassification\"", UNSUPPORTED,
     "architectures", "only SiglipModel"},
    {"siglip", PIXELS, "\"do_convert_rgb\": true", "\"do_convert_rgb\": null", WISP_OK, NULL, NULL},
    {"siglip", PIXELS, "\"height\": 30", "\"shortest_edge\": 30", UNSUPPORTED, "size", "30"},
    {"siglip", PIXELS, "\"do_resize\": true", "\"do_center_crop\": true", UNSUPPORTED, "size",
     "image_size of vision_config, 30"},
    {"siglip", WEIGHTS, "\"text_model.head.weight\"", "\"text_model.head.scales\"", UNSUPPORTED,
     "text_model.head.scales", "type siglip"},
    {"siglip", WEIGHTS, "\"text_model.head.weight\"", "\"logit_bias_of_nothing_\"", NOT_FOUND,
     "dense_2.weight", "projection"},
    {"siglip", SETTINGS, "\"pad_token\": \"</s>\"", "\"pad_token\": \"<none>\"", FORMAT,
     "pad_token", "texts are filled up"},
    {"siglip", SETTINGS, "\"do_lower_case\": true", "\"do_lower_case\": 1", FORMAT, "do_lower_case",
     "true or false"},
    {"siglip", SETTINGS, "\"do_lower_case\": true", "\"padding_side\": \"left\"", UNSUPPORTED,
     "padding_side", "left is not supported, only right"},
    {"siglip", SETTINGS, "\"eos_token\": \"</s>\"", "\"x\": \"</s>\"", WISP_OK, NULL, NULL},
    {"siglip2", SETTINGS, "\"padding_side\": \"right\"", "\"x\": 1", UNSUPPORTED, "padding_side",
     "only right"},
    {"siglip-text", TOKENS, "[\\\\!", "[", UNSUPPORTED, "normalizer",
     "all punctuation of ASCII, or none"},
    {"siglip-text", TOKENS, "[\\\\!", "[^\\\\!", UNSUPPORTED, "normalizer",
     "Replace is not supported"},
    {"siglip-text", TOKENS, "[\\\\!", "[a-z\\\\!", UNSUPPORTED, "normalizer",
     "Replace is not supported"},
    {"clip-text", VOCAB, "\"<|startoftext|>\"", "\"<|startoftext|\"", FORMAT, "<|startoftext|>",
     "missing"},
};

static void folders_say_what_is_read(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct folder_case *c = &cases[i];
        static struct folder folder;
        print_message("%s, case %zu\n", c->with, i);
        folder_read_model(&folder, c->model);
        folder_replace(&folder, c->file, c->old, c->with);
        const char *path = temporary_path("model");
        folder_write(&folder, path);
        const struct opening opening = open_path(path, folder_size(&folder));
        expect_outcome(&opening, c->status, c->field, c->says);
        folder_release(&folder);
    }
}

/* sentence-transformers would pool what the tower gives a second time. */
static void modules_are_refused(void **state) {
    (void)state;
    static struct folder folder;
    folder_read_model(&folder, "clip-text");
    folder_put_text(&folder, "modules.json",
                    "[{\"type\":\"sentence_transformers.models.Transformer\",\"path\":\"\"}]");
    const char *path = temporary_path("modules");
    folder_write(&folder, path);
    const struct opening opening = open_path(path, folder_size(&folder));
    expect_outcome(&opening, UNSUPPORTED, "type", "model of type clip_text_model");
    folder_release(&folder);
}

/* Reads a model into the folder of the first of sentence-transformers' modules. */
static void put_modules(struct folder *folder, const char *model, const char *modules) {
    folder_read_model(folder, model);
    for (size_t i = 0; i < folder->n; i++) {
        struct folder_file *file = &folder->files[i];
        char name[sizeof file->name];
        assert_in_range(snprintf(name, sizeof name, "0_CLIPModel/%s", file->name), 1, sizeof name);
        memcpy(file->name, name, sizeof name);
    }
    folder_put_text(folder, "modules.json", modules);
}

static void embed(const char *path, float *row) {
    const wisp_text text = wisp_text_of("the cat sat on the mat");
    wisp_model *model = open_model_or_fail(path, WISP_COMPUTE_F32, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    wisp_images *images;
    wisp_error error;
    assert_int_equal(wisp_model_dimensions(model), DIMENSIONS);
    assert_int_equal(wisp_embed(session, &text, 1, NULL, row, &error), WISP_OK);
    assert_int_equal(wisp_images_open(model, 1, &images, &error), WISP_OK);
    wisp_images_close(images);
    wisp_session_close(session);
    wisp_model_close(model);
}

/* A folder of sentence-transformers with a CLIPModel alone is what the folder in it is. */
static void a_clip_model_is_a_module(void **state) {
#define CLIP_MODULE "{\"type\":\"sentence_transformers.models.CLIPModel\",\"path\":\"0_CLIPModel\"}"
    static const struct {
        const char *model, *modules;
        wisp_status status;
        const char *says;
    } wrong[] = {
        {"clip",
         "[" CLIP_MODULE ",{\"type\":\"sentence_transformers.models.Normalize\",\"path\":\"\"}]",
         UNSUPPORTED, "modules behind a CLIPModel"},
        {"rank-bert", "[" CLIP_MODULE "]", UNSUPPORTED, "not of type clip"},
        {"clip-text", "[" CLIP_MODULE "]", UNSUPPORTED, "not of type clip"},
    };
    float alone[DIMENSIONS], within[DIMENSIONS];
    static struct folder folder;
    char path[GOLDEN_PATH_BYTES];
    (void)state;
    put_modules(&folder, "clip", "[" CLIP_MODULE "]");
    const char *module = temporary_path("module");
    folder_write(&folder, module);
    embed(module, within);
    embed(data_path("models/clip", path), alone);
    assert_memory_equal(within, alone, sizeof alone);
    folder_release(&folder);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_modules(&folder, wrong[i].model, wrong[i].modules);
        folder_write(&folder, module);
        const struct opening opening = open_path(module, folder_size(&folder));
        expect_outcome(&opening, wrong[i].status, "type", wrong[i].says);
        folder_release(&folder);
    }
}

static void memory_may_run_out(void **state) {
    (void)state;
    char path[GOLDEN_PATH_BYTES];
    expect_memory_errors(data_path("models/clip-text", path));
    expect_memory_errors(data_path("models/siglip", path));
    expect_memory_errors(data_path("models/siglip-text", path));
}

/* A text is filled up to all positions, and one that is too long keeps its last token. */
static void texts_are_filled_up(void **state) {
    (void)state;
    enum { LENGTH = 24, LAST = 1 };
    static const struct {
        const char *text;
        bool is_empty, is_full;
    } texts[] = {{"", true, false},
                 {"  ?! ", true, false},
                 {"a cat", false, false},
                 {"the the the the the the the the the the the the the the the", false, true}};
    char path[GOLDEN_PATH_BYTES];
    wisp_model *model =
        open_model_or_fail(data_path("models/siglip", path), WISP_COMPUTE_F32, NULL);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int32_t ids[LENGTH];
        size_t count;
        wisp_error error;
        assert_int_equal(
            wisp_tokenize(model, wisp_text_of(texts[i].text), ids, LENGTH, &count, &error),
            WISP_OK);
        assert_int_equal(count, LENGTH);
        assert_int_equal(ids[LENGTH - 1], LAST);
        assert_int_equal(ids[0] == LAST, texts[i].is_empty);
        assert_int_equal(ids[LENGTH - 2] != LAST, texts[i].is_full);
    }
    wisp_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_say_what_is_read), cmocka_unit_test(modules_are_refused),
        cmocka_unit_test(a_clip_model_is_a_module), cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(texts_are_filled_up),
    };
    return cmocka_run_group_tests_name("clip", tests, NULL, tear_down_temporary_folder);
}
