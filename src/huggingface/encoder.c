/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/encoder.h"
#include "formats/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 96 };

/* ---- config.json ---------------------------------------------------------------------------- */

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

wisp_status hf_put_size_or(struct directory *dir, const struct hf_config *config,
                           const struct hf_field *field, uint32_t fallback, wisp_error *error) {
    const struct json *given;
    const char *name;
    uint64_t value = fallback;
    TRY(find_field(config, field, fallback != 0, &given, &name, error));
    if ((given && !json_to_u64(given, &value)) || value == 0 || value > UINT32_MAX)
        return fail(error, WISP_ERROR_FORMAT, config->file, name,
                    "%.32s is no whole number from 1 to %u", hf_shown(given), UINT32_MAX);
    return directory_put_u32(dir, field->key, (uint32_t)value, error);
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

/* ---- tensor names --------------------------------------------------------------------------- */

/* The part of `text` after `prefix`, or NULL where it does not start with it. */
static const char *after(const char *text, const char *prefix) {
    const size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

/* The GGUF name of a tensor, which is "encoder.layer.<N>.rest" or one of those that are of no
 * layer; false where the encoder has no such tensor. */
static bool gguf_name(const struct hf_encoder *encoder, const char *hf, char *gguf) {
    const char *digits = after(hf, encoder->layer);
    const size_t length = digits ? strspn(digits, "0123456789") : 0;
    const bool is_layer = length > 0 && length <= 6 && digits[length] == '.';
    const struct hf_name *name = is_layer ? encoder->layer_names : encoder->names;
    char prefix[16] = "";
    if (is_layer) {
        snprintf(prefix, sizeof prefix, TENSOR_LAYER_PREFIX "%.*s.", (int)length, digits);
        hf = digits + length + 1;
    }
    const char *suffix = NULL;
    while (name->hf && !(suffix = after(hf, name->hf)))
        name++;
    if (!name->hf)
        return false;
    if (strcmp(suffix, "gamma") == 0) /* checkpoints from TensorFlow name norms so */
        suffix = "weight";
    if (strcmp(suffix, "beta") == 0)
        suffix = "bias";
    const bool is_bias = strcmp(suffix, "bias") == 0;
    if ((!is_bias && strcmp(suffix, "weight") != 0) || (is_bias && name->unbiased))
        return false;
    snprintf(gguf, NAME_BYTES, "%s%s%s", prefix, name->gguf, suffix);
    return true;
}

/* Whether a tensor belongs to a layer beyond the block_count that read_config has put into the
 * directory. transformers leaves such layers out. */
static bool is_beyond_layers(const struct directory *dir, const struct hf_encoder *encoder,
                             const char *name) {
    const char *digits = after(name, encoder->layer);
    const size_t length = digits ? strspn(digits, "0123456789") : 0;
    if (length == 0 || length > 6)
        return false;
    for (size_t i = 0; i < dir->n_metadata; i++) {
        const char *key = after(dir->metadata[i].key, encoder->architecture);
        if (key && strcmp(key, ".block_count") == 0)
            return strtoul(digits, NULL, 10) >= dir->metadata[i].as.u;
    }
    return false;
}

static bool is_droppable(const char *name) {
    return after(name, "pooler.") || after(name, "cls.") ||
           strcmp(name, "embeddings.position_ids") == 0;
}

/* Reports a tensor that the encoder does not have. Rerankers and other classifiers are the usual
 * case: their last layer makes scores of what an encoder gives. */
static wisp_status refuse_tensor(const struct directory *dir, const struct tensor *tensor,
                                 const struct hf_encoder *encoder, const struct hf_config *config,
                                 wisp_error *error) {
    const char *file = dir->sources[tensor->source].name;
    const struct json *classes = json_get(config->root, "architectures");
    const struct json *class = json_is(classes, JSON_ARRAY) ? classes->first : NULL;
    if (after(tensor->name, "classifier."))
        return fail(error, WISP_ERROR_UNSUPPORTED, file, tensor->name,
                    "the weights of a classifier or reranker (%.64s), which scores texts and was "
                    "not trained to embed them: wisp runs models that make embeddings",
                    hf_shown(class));
    return fail(error, WISP_ERROR_UNSUPPORTED, file, tensor->name,
                "a tensor that an encoder of type %s does not have", encoder->type);
}

wisp_status hf_encoder_rename_tensors(struct directory *dir, const struct hf_encoder *encoder,
                                      const struct hf_config *config, wisp_error *error) {
    size_t kept = 0;
    for (size_t i = 0; i < dir->n_tensors; i++) {
        struct tensor *tensor = &dir->tensors[i];
        const char *name = tensor->name, *rest = NULL;
        char renamed[NAME_BYTES];
        for (size_t p = 0; p < 2 && encoder->prefixes[p] && !rest; p++)
            rest = after(name, encoder->prefixes[p]);
        name = rest ? rest : name;
        if (is_droppable(name) || is_beyond_layers(dir, encoder, name))
            continue;
        if (!gguf_name(encoder, name, renamed))
            return refuse_tensor(dir, tensor, encoder, config, error);
        tensor->name = arena_copy_text(&dir->arena, renamed, strlen(renamed));
        if (!tensor->name)
            return fail_memory(error, strlen(renamed));
        dir->tensors[kept++] = *tensor;
    }
    dir->n_tensors = kept;
    return WISP_OK;
}
