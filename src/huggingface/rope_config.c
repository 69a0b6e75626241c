/* SPDX-License-Identifier: Apache-2.0
 * Source of the factors: Grattafiori et al., The Llama 3 Herd of Models (2024), as transformers
 * computes them. */
#include "huggingface/rope_config.h"

#include <math.h>
#include <stdio.h>

enum { KEY_BYTES = 96 };

static const char THETA[] = "rope_theta", FACTOR[] = "factor";
static const double USUAL_THETA = 10000; /* of all classes of transformers */

/* The object that describes the scaling; `object` is NULL where there is none. */
struct scaling {
    struct hf_config own; /* its root is the object */
    const char *field;    /* the object's key in config.json */
    const struct json *type;
};

/* transformers 5 takes rope_scaling where both are given, and version 4 knows no rope_parameters.
 */
static wisp_status find_scaling(const struct hf_config *config, struct scaling *s,
                                wisp_error *error) {
    static const char old[] = "rope_scaling";
    const struct json *given = json_get(config->root, old);
    s->field = !json_is_absent(given) ? old : "rope_parameters";
    s->own = (struct hf_config){.root = json_get(config->root, s->field), .file = config->file};
    if (!json_is_absent(s->own.root) && !json_is(s->own.root, JSON_OBJECT))
        return fail(error, WISP_ERROR_FORMAT, config->file, s->field, "an object belongs here");
    s->type = json_get(s->own.root, "rope_type");
    if (json_is_absent(s->type))
        s->type = json_get(s->own.root, "type");
    return WISP_OK;
}

/* Reads a number of the object, which must be there and at least `least`. */
static wisp_status read_number(const struct scaling *s, const char *name, double least,
                               double *value, wisp_error *error) {
    const struct json *given = json_get(s->own.root, name);
    if (!json_to_double(given, value) || !(*value >= least) || !isfinite(*value))
        return fail(error, given ? WISP_ERROR_FORMAT : WISP_ERROR_NOT_FOUND, s->own.file, name,
                    "%s of type %s needs a number of at least %g here, not %.32s", s->field,
                    hf_shown(s->type), least, hf_shown(given));
    return WISP_OK;
}

static wisp_status put_theta(struct directory *dir, const struct hf_config *config,
                             const struct scaling *s, const char *key, wisp_error *error) {
    const struct hf_field theta = {THETA, NULL, key};
    const struct json *outer = json_get(config->root, THETA), *inner = json_get(s->own.root, THETA);
    if (outer && inner)
        TRY(hf_check_spellings(config->file, THETA, outer, s->field, inner, error));
    return hf_put_number(dir, inner ? &s->own : config, &theta, &USUAL_THETA, error);
}

/* A model that rotates a part of each head only. */
static wisp_status check_fraction(const struct hf_config *config, wisp_error *error) {
    static const char field[] = "partial_rotary_factor";
    const struct json *given = json_get(config->root, field);
    double fraction;
    if (json_is_absent(given) || (json_to_double(given, &fraction) && fraction == 1))
        return WISP_OK;
    return hf_unsupported_setting(config, field, given, "1", error);
}

wisp_status hf_put_rope(struct directory *dir, const struct hf_config *config,
                        const char *architecture, wisp_error *error) {
    char key[KEY_BYTES];
    struct scaling s;
    double factor;
    TRY(find_scaling(config, &s, error));
    TRY(check_fraction(config, error));
    TRY(check_fraction(&s.own, error));
    snprintf(key, sizeof key, "%s.rope.freq_base", architecture);
    TRY(put_theta(dir, config, &s, key, error));
    if (json_is_absent(s.type) || json_equals(s.type, "default") || json_equals(s.type, "llama3"))
        return WISP_OK;
    if (!json_equals(s.type, "linear"))
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, s.field,
                    "type %.32s is not supported, only default, linear and llama3",
                    hf_shown(s.type));
    TRY(read_number(&s, FACTOR, 1, &factor, error));
    snprintf(key, sizeof key, "%s.rope.scaling.type", architecture);
    TRY(directory_put_text(dir, key, wisp_text_of("linear"), error));
    snprintf(key, sizeof key, "%s.rope.scaling.factor", architecture);
    return directory_put_f32(dir, key, (float)factor, error);
}

/* ---- the factors of Llama 3.1 --------------------------------------------------------------- */

/* Gives the factors that hf_put_rope_factors has computed. */
static wisp_status make_factors(const struct directory *dir, const struct tensor *tensor,
                                uint64_t first, uint64_t rows, struct tensor_cache *cache,
                                void *buffer, const void **bytes, wisp_error *error) {
    (void)dir, (void)first, (void)rows, (void)cache, (void)buffer, (void)error;
    *bytes = tensor->maker;
    return WISP_OK;
}

wisp_status hf_put_rope_factors(struct directory *dir, const struct hf_config *config,
                                const char *architecture, wisp_error *error) {
    static const double pi = 3.14159265358979323846;
    char key[KEY_BYTES];
    struct scaling s;
    struct tensor *tensor;
    double factor, low, high, original;
    float theta, *factors;
    uint32_t head_size;
    TRY(find_scaling(config, &s, error));
    if (!json_equals(s.type, "llama3"))
        return WISP_OK;
    TRY(read_number(&s, FACTOR, 1, &factor, error));
    TRY(read_number(&s, "low_freq_factor", 1e-6, &low, error));
    TRY(read_number(&s, "high_freq_factor", low, &high, error));
    TRY(read_number(&s, "original_max_position_embeddings", 1, &original, error));
    if (high == low)
        return fail(error, WISP_ERROR_FORMAT, config->file, "high_freq_factor",
                    "is low_freq_factor, which leaves nothing between them");
    snprintf(key, sizeof key, "%s.rope.freq_base", architecture);
    TRY(metadata_f32(dir, key, &theta, error));
    snprintf(key, sizeof key, "%s.rope.dimension_count", architecture);
    TRY(metadata_u32(dir, key, &head_size, error));
    if (head_size < 2 || head_size > 1 << 20) /* the architecture's page refuses it */
        return WISP_OK;
    const uint32_t pairs = head_size / 2;
    ARENA_TAKE(&dir->arena, factors, pairs, error);
    for (uint32_t i = 0; i < pairs; i++) {
        const float angle = 1 / powf(theta, (float)(2 * i) / (float)head_size);
        const double turns = original * (double)angle / (2 * pi);
        const double share = fmin(fmax((turns - low) / (high - low), 0), 1); /* of the angle kept */
        factors[i] = (float)(1 / ((1 - share) / factor + share));
    }
    TRY(directory_add_tensor(dir, &tensor, error));
    *tensor = (struct tensor){.name = "rope_freqs.weight",
                              .format = block_format_by_id(BLOCK_F32),
                              .n_dims = 1,
                              .dims = {pairs, 1, 1, 1},
                              .rows = 1,
                              .row_bytes = pairs * sizeof *factors,
                              .bytes = pairs * sizeof *factors,
                              .make = make_factors,
                              .maker = factors};
    return WISP_OK;
}
