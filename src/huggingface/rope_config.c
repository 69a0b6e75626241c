/* SPDX-License-Identifier: Apache-2.0
 * Source of the factors: Grattafiori et al., The Llama 3 Herd of Models (2024), as transformers
 * computes them. */
#include "huggingface/rope_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/number_text.h"

enum { KEY_BYTES = 96 };

static const char THETA[] = "rope_theta", FACTOR[] = "factor", OLD[] = "rope_scaling",
                  PARAMETERS[] = "rope_parameters", GLOBAL[] = "full_attention",
                  LOCAL[] = "sliding_attention", ORIGINAL[] = "original_max_position_embeddings";

/* Takes the object of the key `field`, which may be absent, as the scaling. */
static wisp_status take_object(const struct hf_config *config, const struct json *object,
                               const char *field, struct hf_rope_scaling *s, wisp_error *error) {
    s->field = field;
    s->own = (struct hf_config){.root = object, .file = config->file};
    if (!json_is_absent(object) && !json_is(object, JSON_OBJECT))
        return fail(error, WISP_ERROR_FORMAT, config->file, field, "expected an object");
    s->type = json_get(object, "rope_type");
    if (json_is_absent(s->type))
        s->type = json_get(object, "type");
    return WISP_OK;
}

wisp_status hf_find_rope_scaling(const struct hf_config *config, struct hf_rope_scaling *s,
                                 wisp_error *error) {
    const struct json *given = json_get(config->root, OLD);
    const char *field = !json_is_absent(given) ? OLD : PARAMETERS;
    return take_object(config, json_get(config->root, field), field, s, error);
}

/* Reads a number of the object, which must be there and at least `least`. */
static wisp_status read_number(const struct hf_rope_scaling *s, const char *name, double least,
                               double *value, wisp_error *error) {
    const struct json *given = json_get(s->own.root, name);
    if (!json_to_double(given, value) || !(*value >= least) || !isfinite(*value))
        return fail(error, given ? WISP_ERROR_FORMAT : WISP_ERROR_NOT_FOUND, s->own.file, name,
                    "%s of type %s needs a number of at least %s here, not %.32s", s->field,
                    hf_shown(s->type), number_text(least, 6).text, hf_shown(given));
    return WISP_OK;
}

/* Adds a base, which may be in the object, or outside it under the name `outside`. */
static wisp_status put_theta(struct directory *dir, const struct hf_config *config,
                             const struct hf_rope_scaling *s, const char *outside, double usual,
                             const char *key, wisp_error *error) {
    const struct json *outer = json_get(config->root, outside);
    const struct json *inner = json_get(s->own.root, THETA);
    const struct hf_field theta = {inner ? THETA : outside, NULL, key};
    if (outer && inner)
        TRY(hf_check_spellings(config->file, outside, outer, s->field, inner, error));
    return hf_put_number(dir, inner ? &s->own : config, &theta, &usual, error);
}

static const char FRACTION[] = "partial_rotary_factor";

/* Reads the part of each head that is rotated. Refuses others than 1 unless `may_differ`. */
static wisp_status read_fraction(const struct hf_config *config, const char *name, bool may_differ,
                                 double *fraction, wisp_error *error) {
    const struct json *given = json_get(config->root, name);
    if (json_is_absent(given))
        return WISP_OK;
    if (!json_to_double(given, fraction) || (!may_differ && *fraction != 1))
        return hf_unsupported_setting(config, name, given, may_differ ? "numbers" : "1", error);
    return WISP_OK;
}

/* Adds how many values of a head are rotated. Like the classes it drops a fraction of a value. */
static wisp_status put_rotated(struct directory *dir, const struct hf_config *config,
                               const struct hf_rope_scaling *s, const char *architecture,
                               const struct hf_rope *rope, uint32_t head_size, wisp_error *error) {
    char key[KEY_BYTES];
    double fraction = rope->usual_fraction > 0 ? rope->usual_fraction : 1;
    TRY(read_fraction(config, rope->old_fraction ? rope->old_fraction : FRACTION,
                      rope->may_be_partial, &fraction, error));
    TRY(read_fraction(&s->own, FRACTION, rope->may_be_partial, &fraction, error));
    if (!(fraction > 0 && fraction <= 1))
        return fail(error, WISP_ERROR_FORMAT, config->file, FRACTION,
                    "%s is not above 0 and at most 1", number_text(fraction, 6).text);
    snprintf(key, sizeof key, "%s.rope.dimension_count", architecture);
    return directory_put_u32(dir, key, (uint32_t)(fraction * head_size), error);
}

/* ---- YaRN ----------------------------------------------------------------------------------- */

/* Reads a number above 0 that may be absent. transformers takes null and 0 for absent too. */
static wisp_status read_optional(const struct hf_rope_scaling *s, const char *name, double *value,
                                 wisp_error *error) {
    const struct json *given = json_get(s->own.root, name);
    double number = 0;
    if (!json_is_absent(given) &&
        (!json_to_double(given, &number) || !(number >= 0) || !isfinite((float)number)))
        return fail(error, WISP_ERROR_FORMAT, s->own.file, name, "%.32s is not a number above 0",
                    hf_shown(given));
    if (number > 0)
        *value = number;
    return WISP_OK;
}

static double usual_attention_factor(double factor, double share) {
    return factor <= 1 ? 1 : 0.1 * share * log(factor) + 1;
}

/* Adds the attention factor if config.json gives one. llama.cpp multiplies the usual factor by
 * its own key, which therefore gets the quotient of the two. */
static wisp_status put_attention_factor(struct directory *dir, const struct hf_rope_scaling *s,
                                        const char *architecture, double factor,
                                        wisp_error *error) {
    const double usual = usual_attention_factor(factor, 1);
    double given = 0, share = 0, share_of_all = 0;
    char key[KEY_BYTES];
    TRY(read_optional(s, "attention_factor", &given, error));
    TRY(read_optional(s, "mscale", &share, error));
    TRY(read_optional(s, "mscale_all_dim", &share_of_all, error));
    if (given == 0 && share > 0 && share_of_all > 0)
        given =
            usual_attention_factor(factor, share) / usual_attention_factor(factor, share_of_all);
    if (given == 0)
        return WISP_OK;
    snprintf(key, sizeof key, "%s.rope.scaling.yarn_attn_factor", architecture);
    TRY(directory_put_f32(dir, key, (float)given, error));
    snprintf(key, sizeof key, "%s.rope.scaling.attn_factor", architecture);
    return directory_put_f32(dir, key, (float)(given / usual), error);
}

static wisp_status put_yarn(struct directory *dir, const struct hf_config *config,
                            const struct hf_rope_scaling *s, const char *architecture,
                            const struct hf_rope *rope, double factor, wisp_error *error) {
    const struct hf_setting truncated[] = {
        {"truncate", rope->between_pairs ? JSON_FALSE : JSON_TRUE}, {0}};
    static const struct {
        const char *field, *key;
    } bounds[] = {{"beta_fast", "yarn_beta_fast"}, {"beta_slow", "yarn_beta_slow"}};
    const struct hf_field positions = {"max_position_embeddings", NULL, NULL};
    const struct json *outer = json_get(config->root, ORIGINAL);
    const struct json *inner = json_get(s->own.root, ORIGINAL);
    uint32_t original;
    char key[KEY_BYTES];
    TRY(hf_check_settings(&s->own, truncated, error));
    /* Versions of transformers differ in which of the two they take. */
    if (outer && (!inner || hf_check_spellings(config->file, ORIGINAL, outer, s->field, inner,
                                               NULL) != WISP_OK))
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, ORIGINAL,
                    "%.32s outside %s, which has %.32s", hf_shown(outer), s->field,
                    hf_shown(inner));
    TRY(hf_read_size_or(config, &positions, 0, &original, error));
    if (!json_is_absent(inner)) {
        const struct hf_field field = {ORIGINAL, NULL, NULL};
        TRY(hf_read_size_or(&s->own, &field, 0, &original, error));
    }
    snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", architecture);
    TRY(directory_put_u32(dir, key, original, error));
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        double turns = 0;
        TRY(read_optional(s, bounds[i].field, &turns, error));
        snprintf(key, sizeof key, "%s.rope.scaling.%s", architecture, bounds[i].key);
        if (turns > 0)
            TRY(directory_put_f32(dir, key, (float)turns, error));
    }
    return put_attention_factor(dir, s, architecture, factor, error);
}

/* ---- LongRoPE ------------------------------------------------------------------------------- */

/* Reads the length that the model was trained with: as in transformers, one outside the object
 * counts before one in it, and max_position_embeddings if there is none. */
static wisp_status read_original(const struct hf_config *config, const struct hf_rope_scaling *s,
                                 uint32_t *original, wisp_error *error) {
    static const struct hf_field positions = {"max_position_embeddings", NULL, NULL},
                                 field = {ORIGINAL, NULL, NULL};
    const struct json *outer = json_get(config->root, ORIGINAL);
    const struct json *inner = json_get(s->own.root, ORIGINAL);
    if (!json_is_absent(outer) && !json_is_absent(inner))
        TRY(hf_check_spellings(config->file, ORIGINAL, outer, s->field, inner, error));
    if (json_is_absent(outer) && json_is_absent(inner))
        return hf_read_size_or(config, &positions, 0, original, error);
    return hf_read_size_or(json_is_absent(outer) ? &s->own : config, &field, 0, original, error);
}

static wisp_status put_longrope(struct directory *dir, const struct hf_config *config,
                                const struct hf_rope_scaling *s, const char *architecture,
                                wisp_error *error) {
    static const char attention[] = "attention_factor";
    static const struct hf_field positions = {"max_position_embeddings", NULL, NULL};
    uint32_t original, all;
    double factor, length = 1;
    char key[KEY_BYTES];
    TRY(read_original(config, s, &original, error));
    TRY(hf_read_size_or(config, &positions, 0, &all, error));
    factor = (double)all / (double)original;
    if (!json_is_absent(json_get(s->own.root, FACTOR)))
        TRY(read_number(s, FACTOR, 1, &factor, error));
    if (!json_is_absent(json_get(s->own.root, attention))) {
        TRY(read_number(s, attention, 1e-6, &length, error));
    } else if (factor > 1) {
        if (original < 2)
            return fail(error, WISP_ERROR_FORMAT, config->file, ORIGINAL,
                        "1, from which no %s follows", attention);
        length = sqrt(1 + log(factor) / log((double)original));
    }
    snprintf(key, sizeof key, "%s.rope.scaling.type", architecture);
    TRY(directory_put_text(dir, key, wisp_text_of("longrope"), error));
    snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", architecture);
    TRY(directory_put_u32(dir, key, original, error));
    snprintf(key, sizeof key, "%s.rope.scaling.attn_factor", architecture);
    return directory_put_f32(dir, key, (float)length, error);
}

/* ---- all types ------------------------------------------------------------------------------ */

static wisp_status put_scaling(struct directory *dir, const struct hf_config *config,
                               const struct hf_rope_scaling *s, const char *architecture,
                               const struct hf_rope *rope, wisp_error *error) {
    const bool has_factors = rope->has_factors;
    const bool is_yarn = json_equals(s->type, "yarn");
    char key[KEY_BYTES];
    double factor;
    if (json_is_absent(s->type) || json_equals(s->type, "default") ||
        (has_factors && json_equals(s->type, "llama3")))
        return WISP_OK;
    if (has_factors && json_equals(s->type, "longrope"))
        return put_longrope(dir, config, s, architecture, error);
    if (!is_yarn && !json_equals(s->type, "linear") && !json_equals(s->type, "dynamic"))
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, s->field,
                    "type %.32s is not supported, only default, linear, %syarn and dynamic",
                    hf_shown(s->type), has_factors ? "llama3, longrope, " : "");
    TRY(read_number(s, FACTOR, 1, &factor, error));
    if (json_equals(s->type, "dynamic"))
        return WISP_OK;
    snprintf(key, sizeof key, "%s.rope.scaling.type", architecture);
    TRY(directory_put_text(dir, key, wisp_text_of(is_yarn ? "yarn" : "linear"), error));
    snprintf(key, sizeof key, "%s.rope.scaling.factor", architecture);
    TRY(directory_put_f32(dir, key, (float)factor, error));
    return is_yarn ? put_yarn(dir, config, s, architecture, rope, factor, error) : WISP_OK;
}

/* Finds the objects of global and of local layers. */
static wisp_status find_scalings(const struct hf_config *config, struct hf_rope_scaling *global,
                                 struct hf_rope_scaling *local, wisp_error *error) {
    const struct json *old = json_get(config->root, OLD);
    struct hf_rope_scaling both;
    TRY(take_object(config, json_get(config->root, PARAMETERS), PARAMETERS, &both, error));
    for (const struct json *entry = json_is_absent(both.own.root) ? NULL : both.own.root->first;
         entry; entry = entry->next)
        if (strcmp(entry->key, GLOBAL) != 0 && strcmp(entry->key, LOCAL) != 0)
            return fail(error, WISP_ERROR_UNSUPPORTED, config->file, PARAMETERS,
                        "%.32s is not supported, only %s and %s", entry->key, GLOBAL, LOCAL);
    TRY(take_object(config, json_get(both.own.root, GLOBAL), GLOBAL, global, error));
    TRY(take_object(config, json_get(both.own.root, LOCAL), LOCAL, local, error));
    if (!json_is_absent(local->type) && !json_equals(local->type, "default"))
        return hf_unsupported_setting(config, LOCAL, local->type, "default", error);
    if (json_is_absent(old))
        return WISP_OK;
    if (!json_is_absent(global->own.root))
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, OLD,
                    "beside %s of %s, which it would change", GLOBAL, PARAMETERS);
    return take_object(config, old, OLD, global, error);
}

wisp_status hf_put_rope(struct directory *dir, const struct hf_config *config,
                        const char *architecture, const struct hf_rope *rope, uint32_t head_size,
                        wisp_error *error) {
    double local_fraction;
    char key[KEY_BYTES];
    struct hf_rope_scaling s, local;
    if (rope->by_layers) {
        TRY(find_scalings(config, &s, &local, error));
        TRY(read_fraction(&local.own, FRACTION, false, &local_fraction, error));
        snprintf(key, sizeof key, "%s.rope.freq_base_swa", architecture);
        TRY(put_theta(dir, config, &local, "rope_local_base_freq", rope->usual_local_theta, key,
                      error));
    } else {
        TRY(hf_find_rope_scaling(config, &s, error));
    }
    TRY(put_rotated(dir, config, &s, architecture, rope, head_size, error));
    snprintf(key, sizeof key, "%s.rope.freq_base", architecture);
    TRY(put_theta(dir, config, &s, rope->old_theta ? rope->old_theta : THETA, rope->usual_theta,
                  key, error));
    return put_scaling(dir, config, &s, architecture, rope, error);
}

/* ---- factors -------------------------------------------------------------------------------- */

/* Copies the factors, which are in memory, in the order of a file's bytes. */
static wisp_status make_factors(const struct directory *dir, const struct tensor *tensor,
                                uint64_t first, uint64_t rows, struct tensor_cache *cache,
                                void *buffer, const void **bytes, wisp_error *error) {
    (void)dir, (void)first, (void)rows, (void)cache, (void)error;
    memcpy(buffer, tensor->maker, (size_t)tensor->bytes);
    swap_file_numbers(buffer, (size_t)tensor->dims[0], sizeof(float));
    *bytes = buffer;
    return WISP_OK;
}

/* Adds a tensor of factors, which the caller fills. */
static wisp_status add_factors(struct directory *dir, const char *name, uint32_t pairs,
                               float **factors, wisp_error *error) {
    struct tensor *tensor;
    ARENA_TAKE(&dir->arena, *factors, pairs, error);
    TRY(directory_add_tensor(dir, &tensor, error));
    *tensor = (struct tensor){.name = name,
                              .format = block_format_by_id(BLOCK_F32),
                              .n_dims = 1,
                              .dims = {pairs, 1, 1, 1},
                              .rows = 1,
                              .row_bytes = pairs * sizeof **factors,
                              .bytes = pairs * sizeof **factors,
                              .make = make_factors,
                              .maker = *factors};
    return WISP_OK;
}

static wisp_status add_llama3(struct directory *dir, const struct hf_rope_scaling *s,
                              const char *architecture, uint32_t head_size, wisp_error *error) {
    static const double pi = 3.14159265358979323846;
    char key[KEY_BYTES];
    double factor, low, high, original;
    float theta, *factors;
    TRY(read_number(s, FACTOR, 1, &factor, error));
    TRY(read_number(s, "low_freq_factor", 1e-6, &low, error));
    TRY(read_number(s, "high_freq_factor", low, &high, error));
    TRY(read_number(s, ORIGINAL, 1, &original, error));
    if (high == low)
        return fail(error, WISP_ERROR_FORMAT, s->own.file, "high_freq_factor",
                    "is low_freq_factor; they must differ");
    snprintf(key, sizeof key, "%s.rope.freq_base", architecture);
    TRY(metadata_f32(dir, key, &theta, error));
    TRY(add_factors(dir, "rope_freqs.weight", head_size / 2, &factors, error));
    for (uint32_t i = 0; i < head_size / 2; i++) {
        const float angle = 1 / powf(theta, (float)(2 * i) / (float)head_size);
        const double turns = original * (double)angle / (2 * pi);
        const double share =
            fmin(fmax((turns - low) / (high - low), 0), 1); /* the part of the angle that is kept */
        factors[i] = (float)(1 / ((1 - share) / factor + share));
    }
    return WISP_OK;
}

/* Adds the factors of a list. */
static wisp_status add_listed(struct directory *dir, const struct hf_rope_scaling *s,
                              const char *field, const char *name, uint32_t pairs,
                              wisp_error *error) {
    const struct json *list = json_get(s->own.root, field);
    float *factors;
    double value;
    if (!list)
        return fail(error, WISP_ERROR_NOT_FOUND, s->own.file, field,
                    "%s of type %s needs this list", s->field, hf_shown(s->type));
    if (!json_is(list, JSON_ARRAY) || list->count != pairs)
        return fail(error, WISP_ERROR_FORMAT, s->own.file, field,
                    "not a list of %u numbers, one for each pair of a head's values", pairs);
    TRY(add_factors(dir, name, pairs, &factors, error));
    for (const struct json *entry = list->first; entry; entry = entry->next) {
        if (!json_to_double(entry, &value) || !(value >= 1) || !isfinite((float)value))
            return fail(error, WISP_ERROR_FORMAT, s->own.file, field,
                        "%.32s is not a number of at least 1", hf_shown(entry));
        *factors++ = (float)value;
    }
    return WISP_OK;
}

wisp_status hf_put_rope_factors(struct directory *dir, const struct hf_config *config,
                                const char *architecture, wisp_error *error) {
    char key[KEY_BYTES];
    struct hf_rope_scaling s;
    uint32_t head_size;
    TRY(hf_find_rope_scaling(config, &s, error));
    const bool is_long = json_equals(s.type, "longrope");
    if (!is_long && !json_equals(s.type, "llama3"))
        return WISP_OK;
    snprintf(key, sizeof key, "%s.rope.dimension_count", architecture);
    TRY(metadata_u32(dir, key, &head_size, error));
    if (head_size < 2 || head_size > 1 << 20) /* the architecture's page refuses it */
        return WISP_OK;
    if (!is_long)
        return add_llama3(dir, &s, architecture, head_size, error);
    TRY(add_listed(dir, &s, "short_factor", "rope_factors_short.weight", head_size / 2, error));
    return add_listed(dir, &s, "long_factor", "rope_factors_long.weight", head_size / 2, error);
}
