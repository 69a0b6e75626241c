/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/clip_images.h"

#include <math.h>
#include <string.h>

#include "formats/schema.h"

enum { USUAL_SIZE = 224, CHANNELS = 3, MOST_SIDE = 4096 };

static const char file_name[] = "preprocessor_config.json";

/* ---- vision_config -------------------------------------------------------------------------- */

/* Refuses an activation that is not that of the text tower: one key says it for both. */
static wisp_status check_activation(const struct hf_config *texts, const struct hf_config *images,
                                    const char *usual, wisp_error *error) {
    static const char field[] = "hidden_act";
    const struct json *of_texts = json_get(texts->root, field);
    const struct json *given = json_get(images->root, field);
    const char *wanted = json_is(of_texts, JSON_STRING) ? of_texts->text : usual;
    const bool fits =
        json_is_absent(given) ? strcmp(wanted, usual) == 0 : json_equals(given, wanted);
    return fits ? WISP_OK : hf_unsupported_setting(images, field, given, wanted, error);
}

/* Adds the sizes, and sets *side to the pixels of an image. */
static wisp_status put_sizes(struct directory *dir, const struct hf_images *family,
                             const struct hf_config *images, uint32_t *side, wisp_error *error) {
    const struct {
        struct hf_field field;
        uint32_t usual;
    } sizes[] = {{{"hidden_size", NULL, "clip.vision.embedding_length"}, 768},
                 {{"intermediate_size", NULL, "clip.vision.feed_forward_length"}, 3072},
                 {{"num_hidden_layers", NULL, "clip.vision.block_count"}, 12},
                 {{"num_attention_heads", NULL, "clip.vision.attention.head_count"}, 12},
                 {{"patch_size", NULL, KEY_PATCH_SIZE}, family->patch},
                 {{"image_size", NULL, KEY_IMAGE_SIZE}, USUAL_SIZE}};
    static const struct hf_field image = {"image_size", NULL, NULL},
                                 patch = {"patch_size", NULL, NULL},
                                 channels = {"num_channels", NULL, NULL};
    uint32_t pixels, n_channels;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(hf_put_size_or(dir, images, &sizes[i].field, sizes[i].usual, error));
    TRY(hf_read_size_or(images, &image, USUAL_SIZE, side, error));
    TRY(hf_read_size_or(images, &patch, family->patch, &pixels, error));
    TRY(hf_read_size_or(images, &channels, CHANNELS, &n_channels, error));
    if (n_channels != CHANNELS)
        return fail(error, WISP_ERROR_UNSUPPORTED, images->file, channels.field,
                    "%u is not supported, only 3", n_channels);
    if (*side > MOST_SIDE || pixels > *side)
        return fail(error, WISP_ERROR_FORMAT, images->file, image.field,
                    "%u pixels with patches of %u", *side, pixels);
    const uint32_t patches = *side / pixels;
    return directory_put_u32(dir, "clip.vision.context_length",
                             patches * patches + family->has_class, error);
}

/* ---- preprocessor_config.json --------------------------------------------------------------- */

/* Refuses a step that is left out. */
static wisp_status check_steps(const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting steps[] = {
        {"do_resize", JSON_TRUE}, {"do_rescale", JSON_TRUE}, {"do_normalize", JSON_TRUE}, {0}};
    static const double factor = 1.0 / 255;
    const struct json *scale = json_get(config->root, "rescale_factor");
    const struct json *converts = json_get(config->root, "do_convert_rgb");
    double value;
    TRY(hf_check_settings(config, steps, error));
    if (!json_is_absent(converts) && !json_is(converts, JSON_TRUE))
        return hf_unsupported_setting(config, converts->key, converts, "true and null", error);
    if (!json_is_absent(scale) && (!json_to_double(scale, &value) || fabs(value - factor) > 1e-9))
        return hf_unsupported_setting(config, scale->key, scale, "1 / 255", error);
    return WISP_OK;
}

/* Adds the filter, which has Pillow's number. */
static wisp_status put_filter(struct directory *dir, const struct hf_config *config,
                              wisp_error *error) {
    static const struct {
        uint64_t number;
        const char *name;
    } filters[] = {{2, "bilinear"}, {3, "bicubic"}};
    const struct json *given = json_get(config->root, "resample");
    uint64_t number = 3;
    if (!json_is_absent(given) && !json_to_u64(given, &number))
        number = 0;
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (filters[i].number == number)
            return directory_put_text(dir, KEY_IMAGE_FILTER, wisp_text_of(filters[i].name), error);
    return hf_unsupported_setting(config, "resample", given, "2 (bilinear) and 3 (bicubic)", error);
}

/* Refuses another size than that of the image tower: `field` is an object with the members `names`,
 * which end with NULL, or with `plain` a number. */
static wisp_status check_side(const struct hf_config *config, const char *field,
                              const char *const *names, bool plain, uint32_t side,
                              wisp_error *error) {
    const struct json *given = json_get(config->root, field);
    uint64_t value;
    bool fits = plain && json_to_u64(given, &value) && value == side;
    if (json_is(given, JSON_OBJECT))
        for (fits = true; *names; names++)
            fits = fits && json_to_u64(json_get(given, *names), &value) && value == side;
    if (fits || (json_is_absent(given) && side == USUAL_SIZE))
        return WISP_OK;
    return fail(error, WISP_ERROR_UNSUPPORTED, config->file, field,
                "%.32s is not supported, only the image_size of vision_config, %u", hf_shown(given),
                side);
}

/* Adds whether images are cropped, and refuses sizes other than that of the image tower. */
static wisp_status put_fit(struct directory *dir, const struct hf_config *config, bool crops,
                           uint32_t side, wisp_error *error) {
    static const char *const edges[] = {"shortest_edge", NULL};
    static const char *const sides[] = {"height", "width", NULL};
    const struct json *given = json_get(config->root, "do_center_crop");
    if (given && !json_to_bool(given, &crops)) {
        if (!json_is(given, JSON_NULL))
            return fail(error, WISP_ERROR_FORMAT, config->file, given->key,
                        "expected true or false");
        crops = false;
    }
    TRY(check_side(config, "size", crops ? edges : sides, crops, side, error));
    if (crops)
        TRY(check_side(config, "crop_size", sides, true, side, error));
    return directory_put_bool(dir, KEY_IMAGE_CROPS, crops, error);
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

wisp_status hf_read_images(struct directory *dir, const char *folder,
                           const struct hf_images *family, const struct hf_config *config,
                           wisp_error *error) {
    static const struct hf_field epsilon = {"layer_norm_eps", NULL,
                                            "clip.vision.attention.layer_norm_epsilon"};
    char path[HF_PATH_BYTES];
    struct hf_config texts = *config, images = *config, pixels = *config;
    uint32_t side;
    texts.root = json_get(config->root, "text_config");
    images.root = json_get(config->root, "vision_config");
    if (!json_is(images.root, JSON_OBJECT))
        return fail(error, WISP_ERROR_FORMAT, config->file, "vision_config", "expected an object");
    TRY(check_activation(&texts, &images, family->activations[0], error));
    TRY(hf_check_settings(&images, family->settings, error));
    TRY(put_sizes(dir, family, &images, &side, error));
    TRY(hf_put_number(dir, &images, &epsilon, &family->epsilon, error));
    TRY(hf_read_json(dir, folder, file_name, false, JSON_OBJECT, &pixels.root, error));
    pixels.file = hf_path_of(path, folder, file_name);
    TRY(check_steps(&pixels, error));
    TRY(put_filter(dir, &pixels, error));
    TRY(put_fit(dir, &pixels, family->crops, side, error));
    TRY(put_channels(dir, &pixels, "image_mean", KEY_IMAGE_MEAN, family->mean, error));
    return put_channels(dir, &pixels, "image_std", KEY_IMAGE_STD, family->std, error);
}

/* ---- the families --------------------------------------------------------------------------- */

static const struct hf_name clip_names[] = {
    {"embeddings.patch_embedding.", "patch_embd.", true},
    {"embeddings.class_embedding", "class_embd", true},
    {"embeddings.position_embedding.", "position_embd.", true},
    {"pre_layrnorm.", "pre_ln.", false},
    {"post_layernorm.", "post_ln.", false},
    {"visual_projection.", TENSOR_DENSE_2 ".", true},
    {0},
};

static const struct hf_name siglip_names[] = {
    {"embeddings.patch_embedding.", "patch_embd.", false},
    {"embeddings.position_embedding.", "position_embd.", true},
    {"post_layernorm.", "post_ln.", false},
    {"head.probe", "pool_probe", true},
    {"head.attention.in_proj_", "pool_qkv.", false},
    {"head.attention.out_proj.", "pool_output.", false},
    {"head.layernorm.", "pool_norm.", false},
    {"head.mlp.fc1.", "pool_up.", false},
    {"head.mlp.fc2.", "pool_down.", false},
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

static const struct hf_setting no_settings[] = {{0}},
                               has_head[] = {{"vision_use_head", JSON_TRUE}, {0}};

const struct hf_images hf_clip_images = {.tensors = {"encoder.layers.", clip_names, layer_names},
                                         .activations = hf_clip_activations,
                                         .settings = no_settings,
                                         .patch = 32,
                                         .epsilon = 1e-5,
                                         .has_class = true,
                                         .crops = true,
                                         .mean = {0.48145466, 0.4578275, 0.40821073},
                                         .std = {0.26862954, 0.26130258, 0.27577711}};

const struct hf_images hf_siglip_images = {
    .tensors = {"encoder.layers.", siglip_names, layer_names},
    .activations = hf_siglip_activations,
    .settings = has_head,
    .patch = 16,
    .epsilon = 1e-6,
    .mean = {0.5, 0.5, 0.5},
    .std = {0.5, 0.5, 0.5}};
