/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/clip_images.h"

#include <math.h>
#include <string.h>

#include "formats/schema.h"

enum { USUAL_SIZE = 224, USUAL_PATCH = 32, CHANNELS = 3, MOST_SIDE = 4096 };

static const char file_name[] = "preprocessor_config.json";

/* ---- vision_config -------------------------------------------------------------------------- */

/* Refuses an activation that is not that of the text tower: one key says it for both. */
static wisp_status check_activation(const struct hf_config *texts, const struct hf_config *images,
                                    wisp_error *error) {
    static const char field[] = "hidden_act";
    const struct json *of_texts = json_get(texts->root, field);
    const struct json *given = json_get(images->root, field);
    const char *wanted = json_is(of_texts, JSON_STRING) ? of_texts->text : hf_clip_activations[0];
    return json_is_absent(given)
               ? (strcmp(wanted, hf_clip_activations[0]) == 0
                      ? WISP_OK
                      : hf_unsupported_setting(images, field, given, wanted, error))
           : json_equals(given, wanted)
               ? WISP_OK
               : hf_unsupported_setting(images, field, given, wanted, error);
}

/* Adds the sizes, and sets *side to the pixels of an image. */
static wisp_status put_sizes(struct directory *dir, const struct hf_config *images, uint32_t *side,
                             wisp_error *error) {
    static const struct {
        struct hf_field field;
        uint32_t usual;
    } sizes[] = {{{"hidden_size", NULL, "clip.vision.embedding_length"}, 768},
                 {{"intermediate_size", NULL, "clip.vision.feed_forward_length"}, 3072},
                 {{"num_hidden_layers", NULL, "clip.vision.block_count"}, 12},
                 {{"num_attention_heads", NULL, "clip.vision.attention.head_count"}, 12},
                 {{"patch_size", NULL, KEY_PATCH_SIZE}, USUAL_PATCH},
                 {{"image_size", NULL, KEY_IMAGE_SIZE}, USUAL_SIZE}};
    static const struct hf_field image = {"image_size", NULL, NULL},
                                 patch = {"patch_size", NULL, NULL},
                                 channels = {"num_channels", NULL, NULL};
    uint32_t pixels, n_channels;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(hf_put_size_or(dir, images, &sizes[i].field, sizes[i].usual, error));
    TRY(hf_read_size_or(images, &image, USUAL_SIZE, side, error));
    TRY(hf_read_size_or(images, &patch, USUAL_PATCH, &pixels, error));
    TRY(hf_read_size_or(images, &channels, CHANNELS, &n_channels, error));
    if (n_channels != CHANNELS)
        return fail(error, WISP_ERROR_UNSUPPORTED, images->file, channels.field,
                    "%u is not supported, only 3", n_channels);
    if (*side > MOST_SIDE || pixels > *side)
        return fail(error, WISP_ERROR_FORMAT, images->file, image.field,
                    "%u pixels with patches of %u", *side, pixels);
    const uint32_t patches = *side / pixels;
    return directory_put_u32(dir, "clip.vision.context_length", patches * patches + 1, error);
}

/* ---- preprocessor_config.json --------------------------------------------------------------- */

/* Refuses a step that is left out. */
static wisp_status check_steps(const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting steps[] = {
        {"do_resize", JSON_TRUE},    {"do_center_crop", JSON_TRUE}, {"do_rescale", JSON_TRUE},
        {"do_normalize", JSON_TRUE}, {"do_convert_rgb", JSON_TRUE}, {0}};
    static const double bicubic = 3, factor = 1.0 / 255;
    const struct json *resample = json_get(config->root, "resample");
    const struct json *scale = json_get(config->root, "rescale_factor");
    double value = bicubic;
    TRY(hf_check_settings(config, steps, error));
    if (!json_is_absent(resample) && (!json_to_double(resample, &value) || value != bicubic))
        return hf_unsupported_setting(config, resample->key, resample, "3 (bicubic)", error);
    if (!json_is_absent(scale) && (!json_to_double(scale, &value) || fabs(value - factor) > 1e-9))
        return hf_unsupported_setting(config, scale->key, scale, "1 / 255", error);
    return WISP_OK;
}

/* Refuses another size than that of the image tower: `field` is a number, or an object with the
 * members `names`, which end with NULL. */
static wisp_status check_side(const struct hf_config *config, const char *field,
                              const char *const *names, uint32_t side, wisp_error *error) {
    const struct json *given = json_get(config->root, field);
    uint64_t value;
    bool fits = json_to_u64(given, &value) && value == side;
    if (json_is(given, JSON_OBJECT))
        for (fits = true; *names; names++)
            fits = fits && json_to_u64(json_get(given, *names), &value) && value == side;
    if (fits || (json_is_absent(given) && side == USUAL_SIZE))
        return WISP_OK;
    return fail(error, WISP_ERROR_UNSUPPORTED, config->file, field,
                "%.32s is not supported, only the image_size of vision_config, %u", hf_shown(given),
                side);
}

/* Adds the mean or the standard deviation of pixels. */
static wisp_status put_channels(struct directory *dir, const struct hf_config *config,
                                const char *field, const char *key, const double *usual,
                                wisp_error *error) {
    const struct json *given = json_get(config->root, field), *entry;
    float *values;
    ARENA_TAKE(&dir->arena, values, CHANNELS, error);
    for (size_t i = 0; i < CHANNELS; i++)
        values[i] = (float)usual[i];
    if (json_is_absent(given))
        return directory_put_numbers(dir, key, VALUE_F32, values, CHANNELS, error);
    entry = json_is(given, JSON_ARRAY) && given->count == CHANNELS ? given->first : NULL;
    for (size_t i = 0; i < CHANNELS; i++, entry = entry->next) {
        double value;
        if (!entry || !json_to_double(entry, &value))
            return fail(error, WISP_ERROR_FORMAT, config->file, field, "expected three numbers");
        values[i] = (float)value;
    }
    return directory_put_numbers(dir, key, VALUE_F32, values, CHANNELS, error);
}

wisp_status hf_read_clip_images(struct directory *dir, const char *folder,
                                const struct hf_config *config, wisp_error *error) {
    static const char *const edges[] = {"shortest_edge", NULL};
    static const char *const sides[] = {"height", "width", NULL};
    static const double mean[] = {0.48145466, 0.4578275, 0.40821073};
    static const double std[] = {0.26862954, 0.26130258, 0.27577711};
    static const double usual_epsilon = 1e-5;
    static const struct hf_field epsilon = {"layer_norm_eps", NULL,
                                            "clip.vision.attention.layer_norm_epsilon"};
    char path[HF_PATH_BYTES];
    struct hf_config texts = *config, images = *config, pixels = *config;
    uint32_t side;
    texts.root = json_get(config->root, "text_config");
    images.root = json_get(config->root, "vision_config");
    if (!json_is(images.root, JSON_OBJECT))
        return fail(error, WISP_ERROR_FORMAT, config->file, "vision_config", "expected an object");
    TRY(check_activation(&texts, &images, error));
    TRY(put_sizes(dir, &images, &side, error));
    TRY(hf_put_number(dir, &images, &epsilon, &usual_epsilon, error));
    TRY(hf_read_json(dir, folder, file_name, false, JSON_OBJECT, &pixels.root, error));
    pixels.file = hf_path_of(path, folder, file_name);
    TRY(check_steps(&pixels, error));
    TRY(check_side(&pixels, "size", edges, side, error));
    TRY(check_side(&pixels, "crop_size", sides, side, error));
    TRY(put_channels(dir, &pixels, "image_mean", KEY_IMAGE_MEAN, mean, error));
    return put_channels(dir, &pixels, "image_std", KEY_IMAGE_STD, std, error);
}

/* ---- tensors -------------------------------------------------------------------------------- */

static const struct hf_name names[] = {
    {"embeddings.patch_embedding.", "patch_embd.", true},
    {"embeddings.class_embedding", "class_embd", true},
    {"embeddings.position_embedding.", "position_embd.", true},
    {"pre_layrnorm.", "pre_ln.", false},
    {"post_layernorm.", "post_ln.", false},
    {"visual_projection.", TENSOR_DENSE_2 ".", true},
    {0},
};

static const struct hf_name layer_names[] = {
    {"layer_norm1.", "ln1.", false},
    {"self_attn.q_proj.", "attn_q.", false},
    {"self_attn.k_proj.", "attn_k.", false},
    {"self_attn.v_proj.", "attn_v.", false},
    {"self_attn.out_proj.", "attn_out.", false},
    {"layer_norm2.", "ln2.", false},
    {"mlp.fc1.", TENSOR_FFN_UP ".", false},
    {"mlp.fc2.", TENSOR_FFN_DOWN ".", false},
    {0},
};

const struct hf_names hf_clip_images = {"encoder.layers.", names, layer_names};
