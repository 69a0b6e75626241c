/* SPDX-License-Identifier: Apache-2.0
 * Attention settings of a model's file: the policies that `auto` stands for, and the masks of
 * `learned`. */
#include <stdlib.h>
#include <string.h>

#include "attention/learned.h"
#include "base/byte_order.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "formats/schema.h"

static bool is_norm(const char *name) {
    static const char end[] = "norm.weight";
    const size_t length = strlen(name);
    return length >= strlen(end) && strcmp(name + length - strlen(end), end) == 0;
}

wisp_status attention_masks_model(const struct directory *dir, unsigned char *digest,
                                  wisp_error *error) {
    struct sha256 hash;
    sha256_start(&hash);
    for (size_t i = 0; i < dir->n_tensors; i++) {
        const struct tensor *tensor = dir->tensors_by_name[i];
        float *values = NULL;
        if (!is_norm(tensor->name) || tensor->n_dims != 1)
            continue;
        const size_t n = (size_t)tensor->dims[0];
        const wisp_status status = directory_load_floats(dir, tensor->name, 1, n, &values, error);
        if (status == WISP_OK) {
            swap_file_numbers(values, n, sizeof *values);
            sha256_add(&hash, tensor->name, strlen(tensor->name) + 1);
            sha256_add(&hash, values, n * sizeof *values);
        }
        memory_free(values);
        TRY(status);
    }
    sha256_finish(&hash, digest);
    return WISP_OK;
}

/* Points *numbers to an array of `count` elements of a type. */
static wisp_status find_array(const struct directory *dir, const char *key, enum value_type type,
                              uint64_t count, const void **numbers, wisp_error *error) {
    const struct metadata *entry = directory_find_metadata(dir, key);
    if (!entry || entry->type != VALUE_ARRAY || entry->element != type || entry->count != count)
        return fail(error, WISP_ERROR_FORMAT, dir->file, key,
                    "masks of attention need %s[%llu] here, for the model's layers and key-value "
                    "heads",
                    value_type_name(type), (unsigned long long)count);
    *numbers = entry->as.numbers;
    return WISP_OK;
}

static wisp_status check_heads(const struct directory *dir, const struct attention_masks *m,
                               wisp_error *error) {
    for (size_t i = 0; i < m->layers * m->kv_heads; i++) {
        if (m->kinds[i] >= ATTENTION_KINDS)
            return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_ATTENTION_KINDS,
                        "%u at %zu is none of the kinds 0 to %d", m->kinds[i], i,
                        ATTENTION_KINDS - 1);
        if (m->windows[i] < KV_STEP)
            return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_ATTENTION_WINDOWS,
                        "%d at %zu is less than %d", m->windows[i], i, KV_STEP);
    }
    return WISP_OK;
}

static wisp_status check_model(const struct directory *dir, wisp_error *error) {
    unsigned char digest[MASK_MODEL_BYTES];
    const void *model;
    TRY(find_array(dir, KEY_ATTENTION_MODEL, VALUE_U8, MASK_MODEL_BYTES, &model, error));
    TRY(attention_masks_model(dir, digest, error));
    if (memcmp(model, digest, sizeof digest) != 0)
        return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_ATTENTION_MODEL,
                    "the masks of attention are another model's, whose norms have other values: "
                    "wisp calibrate --attention makes some for this one");
    return WISP_OK;
}

static wisp_status fill_masks(const struct directory *dir, struct attention_masks *m,
                              wisp_error *error) {
    const size_t heads = m->layers * m->kv_heads;
    const void *kinds, *windows, *bits;
    uint32_t steps, sinks;
    TRY(metadata_u32(dir, KEY_ATTENTION_STEPS, &steps, error));
    TRY(metadata_u32(dir, KEY_ATTENTION_SINKS, &sinks, error));
    if (steps < 1 || steps > MASK_MOST_STEPS)
        return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_ATTENTION_STEPS,
                    "%u is not from 1 to %d", steps, MASK_MOST_STEPS);
    m->steps = steps;
    m->sinks = sinks;
    TRY(find_array(dir, KEY_ATTENTION_KINDS, VALUE_U8, heads, &kinds, error));
    TRY(find_array(dir, KEY_ATTENTION_WINDOWS, VALUE_I32, heads, &windows, error));
    TRY(find_array(dir, KEY_ATTENTION_MASKS, VALUE_U8, heads * attention_mask_bytes(steps), &bits,
                   error));
    m->kinds = kinds;
    m->windows = windows;
    m->bits = bits;
    TRY(check_heads(dir, m, error));
    return check_model(dir, error);
}

/* Points *masks to the masks of a file, which must be those of its model and of so many layers and
 * heads. They point into the directory. The caller frees *masks. Fails with WISP_ERROR_ARGUMENT if
 * there are none, and with WISP_ERROR_FORMAT if they cannot be this model's. */
static wisp_status attention_masks_read(const struct directory *dir, size_t layers, size_t kv_heads,
                                        struct attention_masks **masks, wisp_error *error) {
    *masks = NULL;
    if (!directory_find_metadata(dir, KEY_ATTENTION_MODEL))
        return fail(error, WISP_ERROR_ARGUMENT, dir->file, "attention",
                    "learned needs the masks that wisp calibrate --attention writes into the file, "
                    "and it has none");
    struct attention_masks *made = calloc(1, sizeof *made);
    if (!made)
        return fail_memory(error, sizeof *made);
    *made = (struct attention_masks){.layers = layers, .kv_heads = kv_heads};
    const wisp_status status = fill_masks(dir, made, error);
    if (status == WISP_OK)
        *masks = made;
    else
        free(made);
    return status;
}

/* Points *text to the policies that the file has chosen, if it is "auto". */
static wisp_status find_choice(const struct directory *dir, const char **text, wisp_error *error) {
    if (strcmp(*text, "auto") != 0)
        return WISP_OK;
    if (!directory_find_metadata(dir, KEY_ATTENTION_AUTO))
        return fail(error, WISP_ERROR_ARGUMENT, dir->file, "attention",
                    "auto is what wisp calibrate --attention has chosen for the file, which has "
                    "no such choice");
    return metadata_text(dir, KEY_ATTENTION_AUTO, text, error);
}

wisp_status attention_from_file(const struct directory *dir, size_t layers, size_t kv_heads,
                                const char *text, struct attention_choice *choice,
                                wisp_error *error) {
    TRY(find_choice(dir, &text, error));
    TRY(attention_choose(text, choice, error));
    if (choice->prefill != &attention_learned && choice->decode != &attention_learned)
        return WISP_OK;
    return attention_masks_read(dir, layers, kv_heads, &choice->masks, error);
}
