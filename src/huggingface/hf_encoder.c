/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/hf_encoder.h"

#include <stdio.h>
#include <string.h>

#include "formats/schema.h"
#include "huggingface/hf_bert.h"

enum { NAME_BYTES = 96 };

wisp_status hf_encoder_find(const struct hf_config *config, const struct hf_encoder **encoder,
                            wisp_error *error) {
    static const struct hf_encoder *const encoders[] = {&hf_bert, &hf_nomic_bert};
    const struct json *type = json_get(config->root, "model_type");
    for (size_t i = 0; i < sizeof encoders / sizeof *encoders; i++)
        if (json_equals(type, encoders[i]->type)) {
            *encoder = encoders[i];
            return WISP_OK;
        }
    return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "model_type",
                "models of type %.32s are not supported, only bert and nomic_bert",
                json_is(type, JSON_STRING) ? type->text : "(none)");
}

/* ---- config.json ---------------------------------------------------------------------------- */

const char *hf_shown(const struct json *value) {
    static const char *const names[] = {"null", "false", "true", "", "", "an array", "an object"};
    if (!value)
        return "(none)";
    return value->text ? value->text : names[value->type];
}

const struct json *hf_field_find(const struct hf_config *config, const struct hf_field *field,
                                 const char **name) {
    const struct json *given = json_get(config->root, field->field);
    *name = field->field;
    if (given || !field->other)
        return given;
    given = json_get(config->root, field->other);
    *name = given ? field->other : field->field;
    return given;
}

static wisp_status missing(const struct hf_config *config, const char *name, wisp_error *error) {
    return fail(error, WISP_ERROR_NOT_FOUND, config->file, name, "the key is missing");
}

wisp_status hf_put_size(struct directory *dir, const struct hf_config *config,
                        const struct hf_field *field, wisp_error *error) {
    const char *name;
    const struct json *given = hf_field_find(config, field, &name);
    uint64_t value;
    if (!given)
        return missing(config, name, error);
    if (!json_to_u64(given, &value) || value == 0 || value > UINT32_MAX)
        return fail(error, WISP_ERROR_FORMAT, config->file, name,
                    "%.32s is no whole number from 1 to %u", hf_shown(given), UINT32_MAX);
    return directory_put_u32(dir, field->key, (uint32_t)value, error);
}

wisp_status hf_put_number(struct directory *dir, const struct hf_config *config,
                          const struct hf_field *field, const double *fallback, wisp_error *error) {
    const char *name;
    const struct json *given = hf_field_find(config, field, &name);
    double value = fallback ? *fallback : 0;
    if (!given && !fallback)
        return missing(config, name, error);
    if (given && !json_to_double(given, &value))
        return fail(error, WISP_ERROR_FORMAT, config->file, name, "%.32s is not a number",
                    hf_shown(given));
    return directory_put_f32(dir, field->key, (float)value, error);
}

/* ---- tensor names --------------------------------------------------------------------------- */

/* What follows `prefix` in `text`, or NULL. */
static const char *after(const char *text, const char *prefix) {
    const size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

/* Checkpoints from TensorFlow call a norm's weight gamma and its bias beta. */
static const char *plain_suffix(const char *suffix) {
    if (strcmp(suffix, "gamma") == 0)
        return "weight";
    if (strcmp(suffix, "beta") == 0)
        return "bias";
    return strcmp(suffix, "weight") == 0 || strcmp(suffix, "bias") == 0 ? suffix : NULL;
}

static bool translate(const char *hf, const char *prefix, const struct hf_name *names, char *gguf) {
    for (; names->hf; names++) {
        const char *end = after(hf, names->hf), *suffix = end ? plain_suffix(end) : NULL;
        if (!end)
            continue;
        if (!suffix || (names->unbiased && strcmp(suffix, "bias") == 0))
            return false;
        snprintf(gguf, NAME_BYTES, "%s%s%s", prefix, names->gguf, suffix);
        return true;
    }
    return false;
}

/* "encoder.layer.<N>.rest": writes "blk.<N>." and returns the rest, or NULL. */
static const char *layer_prefix(const char *name, const char *start, char *prefix,
                                size_t capacity) {
    const char *digits = after(name, start);
    const size_t length = digits ? strspn(digits, "0123456789") : 0;
    if (length == 0 || length > 6 || digits[length] != '.')
        return NULL;
    snprintf(prefix, capacity, TENSOR_LAYER_PREFIX "%.*s.", (int)length, digits);
    return digits + length + 1;
}

static bool gguf_name(const struct hf_encoder *encoder, const char *hf, char *gguf) {
    char prefix[16];
    const char *rest = layer_prefix(hf, encoder->layer, prefix, sizeof prefix);
    return rest ? translate(rest, prefix, encoder->layer_names, gguf)
                : translate(hf, "", encoder->names, gguf);
}

/* Without what stands before all names where there is a training head. */
static const char *without_model(const char *name) {
    static const char *const models[] = {"bert.", "nomic_bert."};
    const char *rest = NULL;
    for (size_t i = 0; !rest && i < sizeof models / sizeof *models; i++)
        rest = after(name, models[i]);
    return rest ? rest : name;
}

static bool is_droppable(const char *name) {
    return after(name, "pooler.") || after(name, "cls.") ||
           strcmp(name, "embeddings.position_ids") == 0;
}

wisp_status hf_encoder_rename_tensors(struct directory *dir, const struct hf_encoder *encoder,
                                      wisp_error *error) {
    size_t kept = 0;
    for (size_t i = 0; i < dir->n_tensors; i++) {
        struct tensor *tensor = &dir->tensors[i];
        const char *name = without_model(tensor->name);
        char renamed[NAME_BYTES];
        if (is_droppable(name))
            continue;
        if (!gguf_name(encoder, name, renamed))
            return fail(error, WISP_ERROR_UNSUPPORTED, dir->sources[tensor->source].name,
                        tensor->name, "a tensor that an encoder of type %s does not have",
                        encoder->type);
        tensor->name = arena_copy_text(&dir->arena, renamed, strlen(renamed));
        if (!tensor->name)
            return fail_memory(error, strlen(renamed));
        dir->tensors[kept++] = *tensor;
    }
    dir->n_tensors = kept;
    return WISP_OK;
}
