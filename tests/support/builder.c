/* SPDX-License-Identifier: Apache-2.0 */
#include "support/builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "formats/directory.h"

const struct tiny_shape tiny_shape = {
    .hidden = 8, .wide = 12, .layers = 2, .heads = 2, .positions = 16, .type = BLOCK_F32};

const struct tiny_shape tiny_shape_q8_0 = {
    .hidden = 32, .wide = 64, .layers = 2, .heads = 4, .positions = 16, .type = BLOCK_Q8_0};

const struct tiny_shape tiny_nomic = {.hidden = 8,
                                      .wide = 12,
                                      .layers = 2,
                                      .heads = 2,
                                      .positions = 16,
                                      .type = BLOCK_F32,
                                      .nomic = true};

const struct tiny_shape tiny_nomic_q8_0 = {.hidden = 32,
                                           .wide = 64,
                                           .layers = 2,
                                           .heads = 4,
                                           .positions = 16,
                                           .type = BLOCK_Q8_0,
                                           .nomic = true};

const struct tiny_shape tiny_rows = {.hidden = 8,
                                     .wide = 12,
                                     .layers = 2,
                                     .heads = 2,
                                     .positions = 16,
                                     .type = BLOCK_F32,
                                     .rows = true};

const struct tiny_shape tiny_chunks = {.hidden = 8,
                                       .wide = 12,
                                       .layers = 2,
                                       .heads = 2,
                                       .positions = 16,
                                       .type = BLOCK_F32,
                                       .rows = true,
                                       .chunk_bytes = 4096};

const struct tiny_shape tiny_nomic_rows_q8_0 = {.hidden = 32,
                                                .wide = 64,
                                                .layers = 2,
                                                .heads = 4,
                                                .positions = 16,
                                                .type = BLOCK_Q8_0,
                                                .nomic = true,
                                                .rows = true};

const char *const tiny_tokens[TINY_TOKENS] = {
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a",    "b",     "c",    "the",  "man",      "is",
    "eat",   "food",  "some",  "one",   "has",    "me",   "play",  "guit", "red",  ".",        ",",
    "##a",   "##b",   "##c",   "##s",   "##ing",  "##al", "##one", "##ar", "##ed", "\xC3\xA9t"};

static _Noreturn void give_up(const char *what, const char *name) {
    fprintf(stderr, "builder: %s%s%s\n", what, name ? ": " : "", name ? name : "");
    abort();
}

/* ---- bytes ---------------------------------------------------------------------------------- */

void bytes_put(struct bytes *bytes, const void *data, size_t size) {
    if (bytes->size + size > bytes->capacity) {
        bytes->capacity = (bytes->size + size) * 2;
        bytes->data = realloc(bytes->data, bytes->capacity);
        if (!bytes->data)
            give_up("no memory", NULL);
    }
    if (size)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

void bytes_put_u32(struct bytes *bytes, uint32_t value) {
    const unsigned char raw[4] = {(unsigned char)value, (unsigned char)(value >> 8),
                                  (unsigned char)(value >> 16), (unsigned char)(value >> 24)};
    bytes_put(bytes, raw, sizeof raw);
}

void bytes_put_u64(struct bytes *bytes, uint64_t value) {
    bytes_put_u32(bytes, (uint32_t)value);
    bytes_put_u32(bytes, (uint32_t)(value >> 32));
}

void bytes_put_f32s(struct bytes *bytes, const float *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        bytes_put_u32(bytes, bits_of_float(values[i]));
}

/* Overwrites the bytes at `offset` with those that were appended last. */
static void move_end(struct bytes *bytes, size_t at, size_t size) {
    bytes->size -= size;
    if (at + size > bytes->size)
        give_up("there are no such bytes to set", NULL);
    memcpy(bytes->data + at, bytes->data + bytes->size, size);
}

void bytes_set_u32(struct bytes *bytes, size_t at, uint32_t value) {
    bytes_put_u32(bytes, value);
    move_end(bytes, at, 4);
}

void bytes_set_u64(struct bytes *bytes, size_t at, uint64_t value) {
    bytes_put_u64(bytes, value);
    move_end(bytes, at, 8);
}

void bytes_set_f32(struct bytes *bytes, size_t at, float value) {
    bytes_set_u32(bytes, at, bits_of_float(value));
}

float bytes_get_f32(const struct bytes *bytes, size_t at) {
    if (at + 4 > bytes->size)
        give_up("there are no such bytes to read", NULL);
    return float_of_bits(load_u32(bytes->data + at));
}

void bytes_release(struct bytes *bytes) {
    free(bytes->data);
    *bytes = (struct bytes){0};
}

static void bytes_copy(struct bytes *to, const struct bytes *from) {
    *to = (struct bytes){0};
    bytes_put(to, from->data, from->size);
}

static void bytes_put_text(struct bytes *bytes, const char *text) {
    bytes_put_u64(bytes, strlen(text));
    bytes_put(bytes, text, strlen(text));
}

/* ---- keys ----------------------------------------------------------------------------------- */

static struct gguf_key *find_key(struct gguf *file, const char *name) {
    for (size_t i = 0; i < file->n_keys; i++)
        if (file->keys[i].name.size == strlen(name) &&
            memcmp(file->keys[i].name.data, name, strlen(name)) == 0)
            return &file->keys[i];
    return NULL;
}

struct gguf_key *gguf_key(struct gguf *file, const char *name) {
    struct gguf_key *found = find_key(file, name);
    if (!found)
        give_up("no such key", name);
    return found;
}

void gguf_set(struct gguf *file, const char *name, uint32_t type, const void *value, size_t size) {
    struct gguf_key *key = find_key(file, name);
    if (!key) {
        if (file->n_keys == GGUF_MAX_KEYS)
            give_up("too many keys", name);
        key = &file->keys[file->n_keys++];
        bytes_put(&key->name, name, strlen(name));
        key->name_length = strlen(name);
    }
    key->type = type;
    key->value.size = 0;
    bytes_put(&key->value, value, size);
    gguf_settle(file);
}

static void set_and_release(struct gguf *file, const char *name, uint32_t type,
                            struct bytes *value) {
    gguf_set(file, name, type, value->data, value->size);
    bytes_release(value);
}

void gguf_set_u32(struct gguf *file, const char *name, uint32_t value) {
    struct bytes raw = {0};
    bytes_put_u32(&raw, value);
    set_and_release(file, name, VALUE_U32, &raw);
}

void gguf_set_f32(struct gguf *file, const char *name, float value) {
    gguf_set_u32(file, name, bits_of_float(value));
    gguf_key(file, name)->type = VALUE_F32;
}

void gguf_set_bool(struct gguf *file, const char *name, unsigned char value) {
    gguf_set(file, name, VALUE_BOOL, &value, 1);
}

void gguf_set_text(struct gguf *file, const char *name, const char *value) {
    struct bytes raw = {0};
    bytes_put_text(&raw, value);
    set_and_release(file, name, VALUE_STRING, &raw);
}

void gguf_set_texts(struct gguf *file, const char *name, const char *const *texts, size_t count) {
    struct bytes raw = {0};
    bytes_put_u32(&raw, VALUE_STRING);
    bytes_put_u64(&raw, count);
    for (size_t i = 0; i < count; i++)
        bytes_put_text(&raw, texts[i]);
    set_and_release(file, name, VALUE_ARRAY, &raw);
}

void gguf_set_i32s(struct gguf *file, const char *name, const int32_t *values, size_t count) {
    struct bytes raw = {0};
    bytes_put_u32(&raw, VALUE_I32);
    bytes_put_u64(&raw, count);
    for (size_t i = 0; i < count; i++)
        bytes_put_u32(&raw, (uint32_t)values[i]);
    set_and_release(file, name, VALUE_ARRAY, &raw);
}

void gguf_drop_key(struct gguf *file, const char *name) {
    struct gguf_key *key = gguf_key(file, name);
    bytes_release(&key->name);
    bytes_release(&key->value);
    const size_t after = (size_t)(&file->keys[file->n_keys] - (key + 1));
    memmove(key, key + 1, after * sizeof *key);
    file->keys[--file->n_keys] = (struct gguf_key){0};
    gguf_settle(file);
}

void gguf_repeat_key(struct gguf *file, const char *name) {
    const struct gguf_key *key = gguf_key(file, name);
    if (file->n_keys == GGUF_MAX_KEYS)
        give_up("too many keys", name);
    struct gguf_key *twin = &file->keys[file->n_keys++];
    *twin = *key;
    bytes_copy(&twin->name, &key->name);
    bytes_copy(&twin->value, &key->value);
    gguf_settle(file);
}

/* ---- tensors -------------------------------------------------------------------------------- */

struct gguf_tensor *gguf_tensor(struct gguf *file, const char *name) {
    for (size_t i = 0; i < file->n_tensors; i++)
        if (file->tensors[i].name.size == strlen(name) &&
            memcmp(file->tensors[i].name.data, name, strlen(name)) == 0)
            return &file->tensors[i];
    give_up("no such tensor", name);
}

static struct gguf_tensor *new_tensor(struct gguf *file) {
    if (file->n_tensors == GGUF_MAX_TENSORS)
        give_up("too many tensors", NULL);
    return &file->tensors[file->n_tensors++];
}

void gguf_drop_tensor(struct gguf *file, const char *name) {
    struct gguf_tensor *tensor = gguf_tensor(file, name);
    bytes_release(&tensor->name);
    bytes_release(&tensor->data);
    const size_t after = (size_t)(&file->tensors[file->n_tensors] - (tensor + 1));
    memmove(tensor, tensor + 1, after * sizeof *tensor);
    file->tensors[--file->n_tensors] = (struct gguf_tensor){0};
    gguf_settle(file);
}

void gguf_repeat_tensor(struct gguf *file, const char *name) {
    const struct gguf_tensor *tensor = gguf_tensor(file, name);
    struct gguf_tensor *twin = new_tensor(file);
    *twin = *tensor;
    bytes_copy(&twin->name, &tensor->name);
    bytes_copy(&twin->data, &tensor->data);
    gguf_settle(file);
}

/* ---- the file ------------------------------------------------------------------------------- */

static size_t aligned(const struct gguf *file, size_t size) {
    return (size + file->alignment - 1) / file->alignment * file->alignment;
}

void gguf_settle(struct gguf *file) {
    size_t offset = 0;
    file->written_keys = file->n_keys;
    file->written_tensors = file->n_tensors;
    for (size_t i = 0; i < file->n_tensors; i++) {
        file->tensors[i].offset = offset;
        offset += aligned(file, file->tensors[i].data.size);
    }
}

static void pad(const struct gguf *file, struct bytes *out, size_t start) {
    static const unsigned char zeros[1] = {0};
    while ((out->size - start) % file->alignment != 0)
        bytes_put(out, zeros, 1);
}

static void write_tensor(const struct gguf_tensor *tensor, struct bytes *out) {
    bytes_put_u64(out, tensor->name_length);
    bytes_put(out, tensor->name.data, tensor->name.size);
    bytes_put_u32(out, tensor->n_dims);
    for (uint32_t i = 0; i < tensor->n_dims && i < GGUF_MAX_DIMS; i++)
        bytes_put_u64(out, tensor->dims[i]);
    bytes_put_u32(out, tensor->type);
    bytes_put_u64(out, tensor->offset);
}

void gguf_write_bytes(const struct gguf *file, struct bytes *out) {
    const size_t start = out->size;
    bytes_put(out, file->magic, sizeof file->magic);
    bytes_put_u32(out, file->version);
    bytes_put_u64(out, file->written_tensors);
    bytes_put_u64(out, file->written_keys);
    for (size_t i = 0; i < file->n_keys; i++) {
        const struct gguf_key *key = &file->keys[i];
        bytes_put_u64(out, key->name_length);
        bytes_put(out, key->name.data, key->name.size);
        bytes_put_u32(out, key->type);
        bytes_put(out, key->value.data, key->value.size);
    }
    for (size_t i = 0; i < file->n_tensors; i++)
        write_tensor(&file->tensors[i], out);
    for (size_t i = 0; i < file->n_tensors; i++) {
        pad(file, out, start);
        bytes_put(out, file->tensors[i].data.data, file->tensors[i].data.size);
    }
}

void gguf_release(struct gguf *file) {
    for (size_t i = 0; i < file->n_keys; i++) {
        bytes_release(&file->keys[i].name);
        bytes_release(&file->keys[i].value);
    }
    for (size_t i = 0; i < file->n_tensors; i++) {
        bytes_release(&file->tensors[i].name);
        bytes_release(&file->tensors[i].data);
    }
    *file = (struct gguf){0};
}
