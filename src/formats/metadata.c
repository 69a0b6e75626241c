/* SPDX-License-Identifier: Apache-2.0
 * Puts typed values into the metadata of a directory and reads them. */
#include <stdio.h>
#include <string.h>

#include "base/number_text.h"
#include "formats/directory.h"

/* Appends an entry with a copy of the key. */
static wisp_status put(struct directory *dir, const char *key, const struct metadata *value,
                       wisp_error *error) {
    struct metadata *entry;
    char *copy = arena_copy_text(&dir->arena, key, strlen(key));
    if (!copy)
        return fail_memory(error, strlen(key));
    TRY(directory_add_metadata(dir, &entry, error));
    *entry = *value;
    entry->key = copy;
    return WISP_OK;
}

wisp_status directory_put_u32(struct directory *dir, const char *key, uint32_t value,
                              wisp_error *error) {
    return put(dir, key, &(struct metadata){.type = VALUE_U32, .as.u = value}, error);
}

wisp_status directory_put_f32(struct directory *dir, const char *key, float value,
                              wisp_error *error) {
    return put(dir, key, &(struct metadata){.type = VALUE_F32, .as.f = (double)value}, error);
}

wisp_status directory_put_bool(struct directory *dir, const char *key, bool value,
                               wisp_error *error) {
    return put(dir, key, &(struct metadata){.type = VALUE_BOOL, .as.b = value}, error);
}

wisp_status directory_put_text(struct directory *dir, const char *key, wisp_text value,
                               wisp_error *error) {
    const char *copy = arena_copy_text(&dir->arena, value.bytes, value.length);
    if (!copy)
        return fail_memory(error, value.length);
    const wisp_text text = {copy, value.length};
    return put(dir, key, &(struct metadata){.type = VALUE_STRING, .as.text = text}, error);
}

wisp_status directory_put_texts(struct directory *dir, const char *key, const wisp_text *texts,
                                uint64_t count, wisp_error *error) {
    return put(dir, key,
               &(struct metadata){
                   .type = VALUE_ARRAY, .element = VALUE_STRING, .count = count, .as.texts = texts},
               error);
}

wisp_status directory_put_numbers(struct directory *dir, const char *key, enum value_type element,
                                  const void *numbers, uint64_t count, wisp_error *error) {
    return put(dir, key,
               &(struct metadata){
                   .type = VALUE_ARRAY, .element = element, .count = count, .as.numbers = numbers},
               error);
}

const char *value_type_name(enum value_type type) {
    static const char *const names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
    return (unsigned)type < sizeof names / sizeof *names ? names[type] : "unknown";
}

size_t value_type_bytes(enum value_type type) {
    static const unsigned char bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return (unsigned)type < sizeof bytes ? bytes[type] : 0;
}

static wisp_status wrong_type(const struct directory *dir, const struct metadata *entry,
                              const char *wanted, wisp_error *error) {
    return fail(error, WISP_ERROR_FORMAT, dir->file, entry->key, "a value of type %s; expected %s",
                value_type_name(entry->type), wanted);
}

/* Returns an entry as one integer: itself, or an array of integers, such as one for each layer,
 * that are all the same. */
static wisp_status one_integer(const struct directory *dir, const struct metadata *entry,
                               struct metadata *one, wisp_error *error) {
    int64_t first, value = 0;
    *one = *entry;
    if (entry->type != VALUE_ARRAY || entry->count == 0 || !metadata_array_i64(entry, 0, &first))
        return WISP_OK;
    for (uint64_t i = 1; i < entry->count; i++)
        if (!metadata_array_i64(entry, i, &value) || value != first)
            return fail(
                error, WISP_ERROR_UNSUPPORTED, dir->file, entry->key,
                "%lld in entry %llu, but entry 0 has %lld: one value is supported for all layers",
                (long long)value, (unsigned long long)i, (long long)first);
    *one = (struct metadata){.key = entry->key, .type = VALUE_I64, .as.i = first};
    return WISP_OK;
}

static wisp_status missing(const struct directory *dir, const char *key, wisp_error *error) {
    return fail(error, WISP_ERROR_NOT_FOUND, dir->file, key, "the metadata key is missing");
}

wisp_status metadata_u32_or(const struct directory *dir, const char *key, uint32_t *value,
                            wisp_error *error) {
    const struct metadata *found = directory_find_metadata(dir, key);
    struct metadata one, *entry = &one;
    if (!found)
        return WISP_OK;
    TRY(one_integer(dir, found, &one, error));
    switch (entry->type) {
    case VALUE_U8:
    case VALUE_U16:
    case VALUE_U32:
    case VALUE_U64:
        if (entry->as.u > UINT32_MAX)
            return fail(error, WISP_ERROR_FORMAT, dir->file, key, "%llu is out of range",
                        (unsigned long long)entry->as.u);
        *value = (uint32_t)entry->as.u;
        return WISP_OK;
    case VALUE_I8:
    case VALUE_I16:
    case VALUE_I32:
    case VALUE_I64:
        if (entry->as.i < 0 || entry->as.i > (int64_t)UINT32_MAX)
            return fail(error, WISP_ERROR_FORMAT, dir->file, key, "%lld is out of range",
                        (long long)entry->as.i);
        *value = (uint32_t)entry->as.i;
        return WISP_OK;
    default:
        return wrong_type(dir, entry, "an integer", error);
    }
}

wisp_status metadata_u32(const struct directory *dir, const char *key, uint32_t *value,
                         wisp_error *error) {
    if (!directory_find_metadata(dir, key))
        return missing(dir, key, error);
    return metadata_u32_or(dir, key, value, error);
}

wisp_status metadata_f32_or(const struct directory *dir, const char *key, float *value,
                            wisp_error *error) {
    const struct metadata *entry = directory_find_metadata(dir, key);
    if (!entry)
        return WISP_OK;
    if (entry->type != VALUE_F32 && entry->type != VALUE_F64)
        return wrong_type(dir, entry, "a float", error);
    *value = (float)entry->as.f;
    return WISP_OK;
}

wisp_status metadata_f32(const struct directory *dir, const char *key, float *value,
                         wisp_error *error) {
    if (!directory_find_metadata(dir, key))
        return missing(dir, key, error);
    return metadata_f32_or(dir, key, value, error);
}

wisp_status metadata_bool_or(const struct directory *dir, const char *key, bool *value,
                             wisp_error *error) {
    const struct metadata *entry = directory_find_metadata(dir, key);
    if (!entry)
        return WISP_OK;
    if (entry->type != VALUE_BOOL)
        return wrong_type(dir, entry, "a bool", error);
    *value = entry->as.b;
    return WISP_OK;
}

wisp_status metadata_text_or(const struct directory *dir, const char *key, const char **value,
                             wisp_error *error) {
    const struct metadata *entry = directory_find_metadata(dir, key);
    if (!entry)
        return WISP_OK;
    if (entry->type != VALUE_STRING)
        return wrong_type(dir, entry, "a string", error);
    *value = entry->as.text.bytes;
    return WISP_OK;
}

wisp_status metadata_text(const struct directory *dir, const char *key, const char **value,
                          wisp_error *error) {
    if (!directory_find_metadata(dir, key))
        return missing(dir, key, error);
    return metadata_text_or(dir, key, value, error);
}

bool metadata_is_integers(const struct metadata *entry) {
    return entry->type == VALUE_ARRAY && value_type_bytes(entry->element) > 0 &&
           entry->element != VALUE_F32 && entry->element != VALUE_F64;
}

bool metadata_array_i64(const struct metadata *array, uint64_t i, int64_t *value) {
    const void *numbers = array->as.numbers;
    switch (array->element) {
    case VALUE_U8:
    case VALUE_BOOL:
        *value = ((const uint8_t *)numbers)[i];
        return true;
    case VALUE_I8:
        *value = ((const int8_t *)numbers)[i];
        return true;
    case VALUE_U16:
        *value = ((const uint16_t *)numbers)[i];
        return true;
    case VALUE_I16:
        *value = ((const int16_t *)numbers)[i];
        return true;
    case VALUE_U32:
        *value = ((const uint32_t *)numbers)[i];
        return true;
    case VALUE_I32:
        *value = ((const int32_t *)numbers)[i];
        return true;
    case VALUE_U64:
        *value = ((const int64_t *)numbers)[i];
        return *value >= 0;
    case VALUE_I64:
        *value = ((const int64_t *)numbers)[i];
        return true;
    default:
        return false;
    }
}

void metadata_format(const struct metadata *entry, char *text, size_t capacity) {
    switch (entry->type) {
    case VALUE_STRING:
        snprintf(text, capacity, "%s", entry->as.text.bytes);
        break;
    case VALUE_BOOL:
        snprintf(text, capacity, "%s", entry->as.b ? "true" : "false");
        break;
    case VALUE_F32:
        snprintf(text, capacity, "%s", number_text(entry->as.f, 7).text);
        break;
    case VALUE_F64:
        snprintf(text, capacity, "%s", number_text(entry->as.f, 17).text);
        break;
    case VALUE_ARRAY:
        snprintf(text, capacity, "%s[%llu]", value_type_name(entry->element),
                 (unsigned long long)entry->count);
        break;
    case VALUE_I8:
    case VALUE_I16:
    case VALUE_I32:
    case VALUE_I64:
        snprintf(text, capacity, "%lld", (long long)entry->as.i);
        break;
    default:
        snprintf(text, capacity, "%llu", (unsigned long long)entry->as.u);
    }
}
