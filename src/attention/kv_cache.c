/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "attention/kv_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "base/memory.h"

/* Returns the bytes of a number of a type. */
static size_t kv_number_bytes(enum kv_type type) {
    return type == KV_F32 ? sizeof(float) : type == KV_F16 ? sizeof(uint16_t) : sizeof(int8_t);
}

/* The numbers of a position's key and value vector, with those that fill a panel or a group. */
static size_t padded_key(const struct kv_shape *shape) {
    return shape->type == KV_INT8 ? kv_key_bytes(shape->head_size) : shape->head_size;
}

static size_t padded_value(const struct kv_shape *shape) {
    return shape->type == KV_INT8 ? kv_channels(shape->head_size)
                                  : round_up(shape->head_size, shape->panel);
}

/* Returns the scales of a key, and of a value vector. */
static size_t key_scales(const struct kv_shape *shape) {
    return shape->type == KV_INT8 ? kv_blocks(shape->head_size) : 0;
}

static size_t value_scales(const struct kv_shape *shape) {
    return shape->type == KV_INT8 ? 1 : 0;
}

/* The places of a key-value head's parts in a slice, in bytes. */
struct places {
    size_t keys, values, key_scales, value_scales, slice; /* `slice`: the bytes of a slice */
};

static struct places places_of(const struct kv_shape *shape, size_t kv_head) {
    const size_t number = kv_number_bytes(shape->type);
    const size_t keys = KV_PAGE * padded_key(shape) * number;
    const size_t values = KV_PAGE * padded_value(shape) * number;
    const size_t of_keys = KV_PAGE * key_scales(shape) * sizeof(float);
    const size_t of_values = KV_PAGE * value_scales(shape) * sizeof(float);
    struct places p = {.slice = shape->kv_heads * (keys + values + of_keys + of_values)};
    p.keys = kv_head * keys;
    p.values = shape->kv_heads * keys + kv_head * values;
    p.key_scales = shape->kv_heads * (keys + values) + kv_head * of_keys;
    p.value_scales = shape->kv_heads * (keys + values + of_keys) + kv_head * of_values;
    return p;
}

size_t kv_slice_bytes(const struct kv_shape *shape) {
    return places_of(shape, 0).slice;
}

size_t kv_step_key_bytes(const struct kv_shape *shape) {
    return KV_STEP *
           (padded_key(shape) * kv_number_bytes(shape->type) + key_scales(shape) * sizeof(float));
}

size_t kv_step_value_bytes(const struct kv_shape *shape) {
    return KV_STEP * (padded_value(shape) * kv_number_bytes(shape->type) +
                      value_scales(shape) * sizeof(float));
}

static size_t page_bytes(const struct kv_shape *shape) {
    return shape->layers * kv_slice_bytes(shape);
}

/* Returns the bytes of a slice, which the caller holds until kv_cache_let_go. NULL if they cannot
 * be written (kv_tier.h). */
static unsigned char *hold_slice(const struct kv_cache *cache, size_t page, size_t layer,
                                 bool writes) {
    if (cache->tier)
        return cache->tier->hold(cache->tier, (struct kv_slice){cache->tier_cache, layer, page},
                                 writes);
    return cache->page[page] + layer * kv_slice_bytes(&cache->shape);
}

/* Return the number that is value i of the key, or of the value vector, of position `at` of a page.
 */
static size_t key_place(const struct kv_shape *shape, size_t at, size_t i) {
    const size_t size = padded_key(shape), panel = shape->panel;
    return shape->type == KV_INT8
               ? at / KV_STEP * KV_STEP * size + (i / 4 * KV_STEP + at % KV_STEP) * 4 + i % 4
               : (at / panel * size + i) * panel + at % panel;
}

static size_t value_place(const struct kv_shape *shape, size_t at, size_t i) {
    const size_t panel = shape->panel;
    return shape->type == KV_INT8 ? (at / 4 * padded_value(shape) + i) * 4 + at % 4
                                  : (i / panel * KV_PAGE + at) * panel + i % panel;
}

wisp_status kv_cache_open(struct kv_cache *cache, const struct kv_shape *shape, wisp_error *error) {
    uint64_t bytes;
    *cache = (struct kv_cache){.shape = *shape};
    /* This is a bound of page_bytes: a float for each key and value, for less than a panel or
     * KV_CHANNELS of padding, and for less than one scale each. */
    if (!checked_multiply(shape->layers, shape->kv_heads, &bytes) ||
        !checked_multiply(bytes, 3 * (shape->head_size + shape->panel + KV_CHANNELS), &bytes) ||
        !checked_multiply(bytes, KV_PAGE * sizeof(float), &bytes) || bytes > SIZE_MAX / 2)
        return fail_memory(error, UINT64_MAX);
    return WISP_OK;
}

/* Makes the tables of rotations reach `positions`. Their length doubles, because each entry is
 * computed from the one before. */
static wisp_status reserve_rope(struct kv_cache *cache, size_t positions, const struct rope *rope,
                                wisp_error *error) {
    if (positions <= cache->rope_positions)
        return WISP_OK;
    const size_t count = larger(positions, 2 * cache->rope_positions);
    const size_t tables = rope_tables(rope), size = count * cache->shape.head_size;
    size_t bytes;
    float *table = NULL;
    if (!checked_floats(count, tables * cache->shape.head_size, &bytes))
        return fail_memory(error, UINT64_MAX);
    if (tables > 0 && !(table = memory_allocate(bytes)))
        return fail_memory(error, bytes);
    fill_rope_tables(rope, cache->shape.head_size, count, table);
    memory_free(cache->rope);
    cache->rope = table;
    cache->other_rope = tables > 1 ? table + size : NULL;
    cache->rope_positions = count;
    return WISP_OK;
}

/* Makes room for more pointers. */
static wisp_status reserve_slots(unsigned char ***pointers, size_t *slots, size_t n,
                                 wisp_error *error) {
    if (n <= *slots)
        return WISP_OK;
    const size_t more = larger(n, 2 * *slots);
    unsigned char **moved = realloc(*pointers, more * sizeof *moved);
    if (!moved)
        return fail_memory(error, more * sizeof *moved);
    *pointers = moved;
    *slots = more;
    return WISP_OK;
}

/* Makes room for what a policy keeps of so many positions. */
static wisp_status reserve_kept(struct kv_cache *cache, size_t positions, wisp_error *error) {
    const size_t n = (positions + KV_KEPT_POSITIONS - 1) / KV_KEPT_POSITIONS;
    const size_t bytes = cache->shape.layers * cache->shape.kv_heads * cache->shape.kept_bytes;
    if (bytes == 0)
        return WISP_OK;
    TRY(reserve_slots(&cache->kept, &cache->kept_slots, n, error));
    for (; cache->kept_count < n; cache->kept_count++)
        if (!(cache->kept[cache->kept_count] = memory_allocate_zeros(bytes)))
            return fail_memory(error, bytes);
    return WISP_OK;
}

wisp_status kv_cache_reserve(struct kv_cache *cache, size_t positions, const struct rope *rope,
                             wisp_error *error) {
    const size_t pages = positions / KV_PAGE + (positions % KV_PAGE > 0);
    const size_t bytes = page_bytes(&cache->shape);
    if (positions <= cache->capacity)
        return WISP_OK;
    TRY(reserve_kept(cache, positions, error));
    if (cache->tier) {
        TRY(reserve_rope(cache, pages * KV_PAGE, rope, error));
        TRY(cache->tier->reserve(cache->tier, cache->tier_cache, pages, error));
        cache->capacity = pages * KV_PAGE;
        return WISP_OK;
    }
    TRY(reserve_slots(&cache->page, &cache->page_slots, pages, error));
    TRY(reserve_rope(cache, pages * KV_PAGE, rope, error));
    while (cache->capacity < positions) {
        /* Products read positions that no token has yet, and the values that fill a panel. */
        unsigned char *page = memory_allocate_zeros(bytes);
        if (!page)
            return fail_memory(error, bytes);
        cache->page[cache->capacity / KV_PAGE] = page;
        cache->capacity += KV_PAGE;
    }
    return WISP_OK;
}

float kv_largest(const float *x, size_t n) {
    int32_t largest = 0; /* magnitudes are in the order of their bits */
    for (size_t i = 0; i < n; i++) {
        const int32_t magnitude = (int32_t)(bits_of_float(x[i]) & 0x7fffffff);
        largest = magnitude > largest ? magnitude : largest;
    }
    return float_of_bits((uint32_t)largest);
}

void kv_round(const float *restrict x, size_t n, float factor, int8_t *restrict bytes) {
    for (size_t i = 0; i < n; i++)
        bytes[i] = (int8_t)(bits_of_float(x[i] * factor + 12582912.0f) & 0xff);
}

float kv_scale(float largest) {
    return largest < 0x1p-100f ? 0 : largest / 127;
}

static uint16_t half_within_range(float x) {
    const float low = x > HALF_LARGEST ? HALF_LARGEST : x;
    return half_of_float(low < -HALF_LARGEST ? -HALF_LARGEST : low);
}

/* The parts of one key-value head in a slice. */
struct head_parts {
    unsigned char *keys, *values;
    float *key_scales, *value_scales;
};

static struct head_parts parts_of(const struct kv_shape *shape, unsigned char *slice,
                                  size_t kv_head) {
    const struct places p = places_of(shape, kv_head);
    return (struct head_parts){.keys = slice + p.keys,
                               .values = slice + p.values,
                               .key_scales = (float *)(void *)(slice + p.key_scales),
                               .value_scales = (float *)(void *)(slice + p.value_scales)};
}

static void write_floats(const struct kv_shape *shape, const struct head_parts *to, size_t at,
                         const float *k, const float *v) {
    float *keys = (float *)(void *)to->keys, *values = (float *)(void *)to->values;
    for (size_t i = 0; i < shape->head_size; i++) {
        keys[key_place(shape, at, i)] = k[i];
        values[value_place(shape, at, i)] = v[i];
    }
}

static void write_halves(const struct kv_shape *shape, const struct head_parts *to, size_t at,
                         const float *k, const float *v) {
    uint16_t *keys = (uint16_t *)(void *)to->keys, *values = (uint16_t *)(void *)to->values;
    for (size_t i = 0; i < shape->head_size; i++) {
        keys[key_place(shape, at, i)] = half_within_range(k[i]);
        values[value_place(shape, at, i)] = half_within_range(v[i]);
    }
}

void kv_write_key_bytes(const float *x, size_t n, size_t at, int8_t *keys, float *scales,
                        size_t ld_scales) {
    keys += at * 4;
    for (size_t start = 0; start < n; start += KV_BLOCK, scales += ld_scales) {
        int8_t bytes[KV_BLOCK] = {0};
        const size_t length = smaller(n - start, KV_BLOCK);
        const float scale = kv_scale(kv_largest(x + start, length));
        scales[at] = scale;
        kv_round(x + start, length, scale > 0 ? 1 / scale : 0, bytes);
        for (size_t c = 0; c < length; c += 4, keys += KV_STEP * 4)
            memcpy(keys, bytes + c, 4);
    }
}

static void write_bytes(const struct kv_shape *shape, const struct head_parts *to, size_t at,
                        const float *k, const float *v) {
    const size_t size = shape->head_size, in_step = at % KV_STEP;
    float *scales = to->key_scales + (at - in_step);
    kv_write_key_bytes(k, size, in_step, (int8_t *)to->keys + (at - in_step) * padded_key(shape),
                       scales, KV_PAGE);
    const float value_scale = kv_scale(kv_largest(v, size));
    unsigned char *values = to->values + value_place(shape, at, 0); /* and each fourth byte */
    to->value_scales[at] = value_scale;
    for (size_t start = 0; start < size; start += KV_BLOCK) {
        int8_t bytes[KV_BLOCK];
        const size_t length = smaller(size - start, KV_BLOCK);
        kv_round(v + start, length, value_scale > 0 ? 1 / value_scale : 0, bytes);
        for (size_t c = 0; c < length; c++, values += 4)
            *values = (unsigned char)bytes[c];
    }
    /* Bytes cannot say that a value is not a number, so the scores do: 0 times such a scale. */
    for (size_t i = 0; !(value_scale < INFINITY) && i < size; i++) {
        to->keys[key_place(shape, at, i)] = 0;
        scales[i / KV_BLOCK * KV_PAGE + in_step] = value_scale;
    }
}

/* Writes positions of one slice. */
static void write_in_slice(const struct kv_shape *shape, unsigned char *bytes, size_t position,
                           size_t tokens, const float *keys, const float *values, size_t ld) {
    static void (*const write[])(const struct kv_shape *, const struct head_parts *, size_t,
                                 const float *, const float *) = {
        [KV_F32] = write_floats, [KV_F16] = write_halves, [KV_INT8] = write_bytes};
    for (size_t t = 0; t < tokens; t++, position++, keys += ld, values += ld)
        for (size_t h = 0; h < shape->kv_heads; h++) {
            const struct head_parts to = parts_of(shape, bytes, h);
            write[shape->type](shape, &to, position % KV_PAGE, keys + h * shape->head_size,
                               values + h * shape->head_size);
        }
}

void kv_cache_write(const struct kv_cache *cache, size_t layer, size_t position, size_t tokens,
                    const float *keys, const float *values, size_t ld) {
    for (size_t n; tokens > 0; tokens -= n, position += n, keys += n * ld, values += n * ld) {
        const size_t page = position / KV_PAGE;
        unsigned char *slice = hold_slice(cache, page, layer, true);
        n = smaller(tokens, (page + 1) * KV_PAGE - position);
        if (!slice)
            return;
        write_in_slice(&cache->shape, slice, position, n, keys, values, ld);
        kv_cache_let_go(cache, page, layer);
    }
}

struct kv_head kv_cache_head(const struct kv_cache *cache, size_t page, size_t layer,
                             size_t kv_head) {
    const struct places p = places_of(&cache->shape, kv_head);
    const unsigned char *base = hold_slice(cache, page, layer, false);
    return (struct kv_head){.keys = base + p.keys,
                            .values = base + p.values,
                            .key_scales = (const float *)(const void *)(base + p.key_scales),
                            .value_scales = (const float *)(const void *)(base + p.value_scales)};
}

void kv_head_key(const struct kv_shape *shape, const struct kv_head *head, size_t at, size_t first,
                 size_t n, float *key) {
    const float *floats = head->keys;
    const uint16_t *halves = head->keys;
    const int8_t *bytes = head->keys;
    for (size_t i = first; i < first + n; i++) {
        const size_t place = key_place(shape, at, i);
        *key++ = shape->type == KV_F32 ? floats[place]
                 : shape->type == KV_F16
                     ? float_of_half(halves[place])
                     : (float)bytes[place] * head->key_scales[i / KV_BLOCK * KV_PAGE + at];
    }
}

unsigned char *kv_cache_kept(const struct kv_cache *cache, size_t step, size_t layer,
                             size_t kv_head) {
    return cache->kept[step / KV_KEPT_STEPS] +
           (layer * cache->shape.kv_heads + kv_head) * cache->shape.kept_bytes;
}

/* Returns the bytes of what a policy keeps. */
static size_t kept_bytes(const struct kv_cache *cache) {
    return cache->kept_slots * sizeof *cache->kept + cache->kept_count * cache->shape.layers *
                                                         cache->shape.kv_heads *
                                                         cache->shape.kept_bytes;
}

size_t kv_cache_bytes(const struct kv_cache *cache) {
    return kept_bytes(cache) +
           (cache->tier ? 0 : cache->capacity / KV_PAGE * page_bytes(&cache->shape)) +
           cache->page_slots * sizeof *cache->page +
           (cache->other_rope ? 2
            : cache->rope     ? 1
                              : 0) *
               cache->rope_positions * cache->shape.head_size * sizeof *cache->rope;
}

/* Copies the positions [first, end) of a slice. Keys, and values in bytes, are copied by whole
 * panels or steps, and so some of their neighbours too. */
static void copy_in_slice(const struct kv_shape *shape, unsigned char *to,
                          const unsigned char *from, size_t first, size_t end) {
    const bool bytes = shape->type == KV_INT8;
    const size_t panel = bytes ? KV_STEP : shape->panel, number = kv_number_bytes(shape->type);
    const size_t start = first / panel * panel, count = round_up(end, panel) - start;
    for (size_t h = 0; h < shape->kv_heads; h++) {
        const struct places p = places_of(shape, h);
        const size_t keys = p.keys + start * padded_key(shape) * number;
        const size_t values = p.values + start * padded_value(shape) * number;
        memcpy(to + keys, from + keys, count * padded_key(shape) * number);
        if (bytes)
            memcpy(to + values, from + values, count * padded_value(shape));
        for (size_t i = 0; !bytes && i < shape->head_size; i += panel) {
            const size_t at = p.values + (i * KV_PAGE + first * panel) * number;
            memcpy(to + at, from + at, (end - first) * panel * number);
        }
        for (size_t b = 0; b < key_scales(shape); b++) {
            const size_t at = p.key_scales + (b * KV_PAGE + first) * sizeof(float);
            memcpy(to + at, from + at, (end - first) * sizeof(float));
        }
        const size_t scales = p.value_scales + first * sizeof(float);
        memcpy(to + scales, from + scales, (end - first) * value_scales(shape) * sizeof(float));
    }
}

/* Copies the positions [first, end) of a page, layer by layer. A tier gives out one slice at a
 * time, so each goes through `bytes`. */
static void copy_in_page(const struct kv_cache *to, const struct kv_cache *from, size_t page,
                         size_t first, size_t end, unsigned char *bytes) {
    for (size_t layer = 0; layer < from->shape.layers; layer++) {
        const unsigned char *source = hold_slice(from, page, layer, false);
        if (bytes)
            source = memcpy(bytes, source, kv_slice_bytes(&from->shape));
        kv_cache_let_go(from, page, layer);
        unsigned char *slice = hold_slice(to, page, layer, true);
        if (!slice)
            return;
        copy_in_slice(&from->shape, slice, source, first, end);
        kv_cache_let_go(to, page, layer);
    }
}

wisp_status kv_cache_copy(struct kv_cache *to, const struct kv_cache *from, size_t first,
                          size_t end, wisp_error *error) {
    to->kept_steps = smaller(to->kept_steps, first / KV_STEP);
    const size_t size = kv_slice_bytes(&from->shape);
    unsigned char *bytes = from->tier ? malloc(size) : NULL;
    if (from->tier && !bytes)
        return fail_memory(error, size);
    for (size_t at = first, next; at < end; at = next) {
        const size_t page = at / KV_PAGE, start = page * KV_PAGE;
        next = smaller(end, start + KV_PAGE);
        copy_in_page(to, from, page, at - start, next - start, bytes);
    }
    free(bytes);
    return WISP_OK;
}

wisp_status kv_cache_limit(struct kv_cache *cache, struct kv_tier *tier, wisp_error *error) {
    TRY(tier->open_cache(tier, &cache->tier_cache, error));
    cache->tier = tier;
    return WISP_OK;
}

void kv_cache_forget(struct kv_cache *cache, size_t length) {
    cache->kept_steps = smaller(cache->kept_steps, length / KV_STEP);
    if (cache->tier)
        cache->tier->forget(cache->tier, cache->tier_cache, (length + KV_PAGE - 1) / KV_PAGE);
}

size_t kv_position_bytes(const struct kv_shape *shape) {
    const size_t scales = (key_scales(shape) + value_scales(shape)) * sizeof(float);
    return shape->kv_heads * (2 * shape->head_size * kv_number_bytes(shape->type) + scales);
}

/* Copies n bytes from the cache to a file's bytes, or the other way. Returns the file's next. */
static unsigned char *move(void *in_cache, unsigned char *in_file, size_t n, bool out) {
    memcpy(out ? in_file : in_cache, out ? in_cache : in_file, n);
    return in_file + n;
}

/* Copies a position to a file's bytes, or the other way. */
static void move_position(const struct kv_shape *shape, unsigned char *slice, size_t position,
                          unsigned char *bytes, bool out) {
    const size_t size = shape->head_size, at = position % KV_PAGE;
    const size_t number = kv_number_bytes(shape->type);
    unsigned char *keys = bytes, *values = keys + shape->kv_heads * size * number;
    unsigned char *of_keys = values + shape->kv_heads * size * number;
    unsigned char *of_values = of_keys + shape->kv_heads * key_scales(shape) * sizeof(float);
    for (size_t h = 0; h < shape->kv_heads; h++) {
        const struct head_parts p = parts_of(shape, slice, h);
        for (size_t i = 0; i < size; i++) {
            keys = move(p.keys + key_place(shape, at, i) * number, keys, number, out);
            values = move(p.values + value_place(shape, at, i) * number, values, number, out);
        }
        for (size_t b = 0; b < key_scales(shape); b++)
            of_keys = move(p.key_scales + b * KV_PAGE + at, of_keys, sizeof(float), out);
        for (size_t b = 0; b < value_scales(shape); b++)
            of_values = move(p.value_scales + at, of_values, sizeof(float), out);
    }
}

/* Returns the scales of a position. */
static size_t position_scales(const struct kv_shape *shape) {
    return shape->kv_heads * (key_scales(shape) + value_scales(shape));
}

/* Changes the bytes of a position from the machine's order to a file's, or back. */
static void swap_position(const struct kv_shape *shape, unsigned char *bytes) {
    const size_t number = kv_number_bytes(shape->type);
    const size_t numbers = 2 * shape->kv_heads * shape->head_size;
    swap_file_numbers(bytes, numbers, number);
    swap_file_numbers(bytes + numbers * number, position_scales(shape), sizeof(float));
}

void kv_cache_export(const struct kv_cache *cache, size_t layer, size_t position,
                     unsigned char *bytes) {
    const size_t page = position / KV_PAGE;
    unsigned char *slice = hold_slice(cache, page, layer, false);
    move_position(&cache->shape, slice, position, bytes, true);
    kv_cache_let_go(cache, page, layer);
    swap_position(&cache->shape, bytes);
}

bool kv_cache_import(const struct kv_cache *cache, size_t layer, size_t position,
                     unsigned char *bytes) {
    const struct kv_shape *shape = &cache->shape;
    const size_t numbers = 2 * shape->kv_heads * shape->head_size;
    const size_t floats = shape->type == KV_F32 ? numbers : position_scales(shape);
    const unsigned char *first = bytes + (shape->type == KV_INT8 ? numbers : 0);
    for (size_t i = 0; i < floats; i++)
        if ((load_u32(first + i * sizeof(float)) & 0x7f800000) == 0x7f800000)
            return false;
    for (size_t i = 0; shape->type == KV_F16 && i < numbers; i++)
        if ((load_u16(bytes + i * sizeof(uint16_t)) & 0x7c00) == 0x7c00)
            return false;
    swap_position(shape, bytes);
    const size_t page = position / KV_PAGE;
    unsigned char *slice = hold_slice(cache, page, layer, true);
    if (!slice) /* the tier says why */
        return true;
    move_position(shape, slice, position, bytes, false);
    kv_cache_let_go(cache, page, layer);
    return true;
}

void kv_cache_release(struct kv_cache *cache) {
    for (size_t i = 0; !cache->tier && i < cache->capacity / KV_PAGE; i++)
        memory_free_zeros(cache->page[i]);
    if (cache->tier)
        cache->tier->close_cache(cache->tier, cache->tier_cache);
    for (size_t i = 0; i < cache->kept_count; i++)
        memory_free_zeros(cache->kept[i]);
    free(cache->kept);
    free(cache->page);
    memory_free(cache->rope);
    *cache = (struct kv_cache){0};
}
