/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/config.h"

wisp_status hf_check_spellings(const char *file, const char *name, const struct json *given,
                               const char *other_name, const struct json *other,
                               wisp_error *error) {
    double value, other_value;
    if (json_to_double(given, &value) && json_to_double(other, &other_value) &&
        value == other_value)
        return WISP_OK;
    return fail(error, WISP_ERROR_FORMAT, file, name, "%.32s disagrees with %s = %.32s",
                hf_shown(given), other_name, hf_shown(other));
}

/* Finds the field under one of its names, and sets *name to that. Without `optional`, its absence
 * is an error, and so are two spellings with different numbers: versions of transformers follow
 * different ones. */
static wisp_status find_field(const struct hf_config *config, const struct hf_field *field,
                              bool optional, const struct json **given, const char **name,
                              wisp_error *error) {
    *name = field->field;
    *given = json_get(config->root, field->field);
    const struct json *other = field->other ? json_get(config->root, field->other) : NULL;
    if (*given && other)
        return hf_check_spellings(config->file, *name, *given, field->other, other, error);
    if (other) {
        *given = other;
        *name = field->other;
    }
    return *given || optional
               ? WISP_OK
               : fail(error, WISP_ERROR_NOT_FOUND, config->file, *name, "the key is missing");
}

wisp_status hf_put_size(struct directory *dir, const struct hf_config *config,
                        const struct hf_field *field, wisp_error *error) {
    return hf_put_size_or(dir, config, field, 0, error);
}

wisp_status hf_read_size_or(const struct hf_config *config, const struct hf_field *field,
                            uint32_t fallback, uint32_t *size, wisp_error *error) {
    const struct json *given;
    const char *name;
    uint64_t value = fallback;
    TRY(find_field(config, field, fallback != 0, &given, &name, error));
    if ((given && !json_to_u64(given, &value)) || value == 0 || value > UINT32_MAX)
        return fail(error, WISP_ERROR_FORMAT, config->file, name,
                    "%.32s is not a whole number from 1 to %u", hf_shown(given), UINT32_MAX);
    *size = (uint32_t)value;
    return WISP_OK;
}

wisp_status hf_put_size_or(struct directory *dir, const struct hf_config *config,
                           const struct hf_field *field, uint32_t fallback, wisp_error *error) {
    uint32_t size;
    TRY(hf_read_size_or(config, field, fallback, &size, error));
    return directory_put_u32(dir, field->key, size, error);
}

wisp_status hf_put_number(struct directory *dir, const struct hf_config *config,
                          const struct hf_field *field, const double *fallback, wisp_error *error) {
    const struct json *given;
    const char *name;
    double value = fallback ? *fallback : 0;
    TRY(find_field(config, field, fallback != NULL, &given, &name, error));
    if (given && !json_to_double(given, &value))
        return fail(error, WISP_ERROR_FORMAT, config->file, name, "%.32s is not a number",
                    hf_shown(given));
    return directory_put_f32(dir, field->key, (float)value, error);
}

wisp_status hf_check_settings(const struct hf_config *config, const struct hf_setting *settings,
                              wisp_error *error) {
    for (; settings->field; settings++) {
        const struct json *given = json_get(config->root, settings->field);
        const struct json wanted = {.type = settings->wanted};
        if (given && given->type != wanted.type)
            return hf_unsupported_setting(config, settings->field, given, hf_shown(&wanted), error);
    }
    return WISP_OK;
}

wisp_status hf_unsupported_setting(const struct hf_config *config, const char *field,
                                   const struct json *given, const char *wanted,
                                   wisp_error *error) {
    return fail(error, WISP_ERROR_UNSUPPORTED, config->file, field,
                "%.32s is not supported, only %s", hf_shown(given), wanted);
}
