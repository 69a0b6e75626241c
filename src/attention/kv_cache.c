/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "attention/kv_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "base/memory.h"

/* Returns the values of a head that the value panels hold: head_size and what fills the last
 * panel. */
static size_t padded_head(const struct kv_shape *shape) {
    return round_up(shape->head_size, shape->panel);
}

size_t kv_number_bytes(enum kv_type type) {
    return type == KV_F32 ? sizeof(float) : type == KV_F16 ? sizeof(uint16_t) : sizeof(int8_t);
}

/* Returns the blocks of a head, each of which has a scale. */
static size_t kv_blocks(const struct kv_shape *shape) {
    return (shape->head_size + KV_BLOCK - 1) / KV_BLOCK;
}

/* The places of a key-value head's parts in a page, in bytes. */
struct places {
    size_t keys, values, key_scales, value_scales, layer; /* `layer`: the bytes of a layer */
};

static struct places places_of(const struct kv_shape *shape, size_t layer, size_t kv_head) {
    const size_t number = kv_number_bytes(shape->type);
    const size_t keys = KV_PAGE * shape->head_size * number;
    const size_t values = KV_PAGE * padded_head(shape) * number;
    const size_t scales = shape->type == KV_INT8 ? KV_PAGE * kv_blocks(shape) * sizeof(float) : 0;
    struct places p = {.layer = shape->kv_heads * (keys + values + 2 * scales)};
    p.keys = layer * p.layer + kv_head * keys;
    p.values = layer * p.layer + shape->kv_heads * keys + kv_head * values;
    p.key_scales = layer * p.layer + shape->kv_heads * (keys + values) + kv_head * scales;
    p.value_scales = p.key_scales + shape->kv_heads * scales;
    return p;
}

static size_t page_bytes(const struct kv_shape *shape) {
    return shape->layers * places_of(shape, 0, 0).layer;
}

wisp_status kv_cache_open(struct kv_cache *cache, const struct kv_shape *shape, wisp_error *error) {
    uint64_t bytes;
    *cache = (struct kv_cache){.shape = *shape};
    /* This is a bound of page_bytes: a float for each key and value, for less than a panel of
     * padding, and for less than one scale each. */
    if (!checked_multiply(shape->layers, shape->kv_heads, &bytes) ||
        !checked_multiply(bytes, 3 * (shape->head_size + shape->panel), &bytes) ||
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

wisp_status kv_cache_reserve(struct kv_cache *cache, size_t positions, const struct rope *rope,
                             wisp_error *error) {
    const size_t pages = positions / KV_PAGE + (positions % KV_PAGE > 0);
    const size_t bytes = page_bytes(&cache->shape);
    if (positions <= cache->capacity)
        return WISP_OK;
    if (pages > cache->page_slots) {
        const size_t slots = larger(pages, 2 * cache->page_slots);
        unsigned char **moved = realloc(cache->page, slots * sizeof *moved);
        if (!moved)
            return fail_memory(error, slots * sizeof *moved);
        cache->page = moved;
        cache->page_slots = slots;
    }
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

/* Returns the scale of a block: its largest magnitude becomes 127. Magnitudes below 2^-100, whose
 * inverse could overflow, become 0. A block with a NaN has a scale that is NaN. */
static float block_scale(const float *x, size_t n) {
    uint32_t largest = 0; /* magnitudes are in the order of their bits */
    for (size_t i = 0; i < n; i++) {
        const uint32_t magnitude = bits_of_float(x[i]) & 0x7fffffff;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest < bits_of_float(0x1p-100f) ? 0 : float_of_bits(largest) / 127;
}

/* Writes n values as numbers of a type to places that lie `step` numbers apart. Bytes are values
 * divided by the scale, at most KV_BLOCK of them. */
static void write_numbers(enum kv_type type, const float *x, size_t n, size_t step, float scale,
                          unsigned char *to) {
    const float inverse = scale > 0 ? 1 / scale : 0;
    float *floats = (float *)(void *)to;
    uint16_t *halves = (uint16_t *)(void *)to;
    unsigned char bytes[KV_BLOCK];
    switch (type) {
    case KV_F32:
        for (size_t i = 0; i < n; i++)
            floats[i * step] = x[i];
        break;
    case KV_F16:
        for (size_t i = 0; i < n; i++) {
            const float low = x[i] > HALF_LARGEST ? HALF_LARGEST : x[i];
            halves[i * step] = half_of_float(low < -HALF_LARGEST ? -HALF_LARGEST : low);
        }
        break;
    case KV_INT8:
        /* Adding 1.5 * 2^23 leaves the nearest whole number in the low bits. Compilers vectorise
         * the first loop, which has no step. */
        for (size_t i = 0; i < n; i++)
            bytes[i] = (unsigned char)bits_of_float(x[i] * inverse + 12582912.0f);
        for (size_t i = 0; i < n; i++)
            to[i * step] = bytes[i];
        break;
    }
}

/* The places of one position of a key-value head in its page. */
struct place {
    unsigned char *key;               /* its values lie `panel` numbers apart */
    unsigned char *value;             /* its panels lie KV_PAGE * panel numbers apart */
    float *key_scales, *value_scales; /* those of its blocks lie KV_PAGE apart */
};

static struct place place_of(const struct kv_cache *cache, size_t layer, size_t position,
                             size_t kv_head) {
    const struct kv_shape *shape = &cache->shape;
    const struct places p = places_of(shape, layer, kv_head);
    const size_t number = kv_number_bytes(shape->type), panel = shape->panel;
    const size_t at = position % KV_PAGE,
                 place = at / panel * panel * shape->head_size + at % panel;
    unsigned char *page = cache->page[position / KV_PAGE];
    return (struct place){.key = page + p.keys + place * number,
                          .value = page + p.values + at * panel * number,
                          .key_scales = (float *)(void *)(page + p.key_scales) + at,
                          .value_scales = (float *)(void *)(page + p.value_scales) + at};
}

void kv_cache_write(const struct kv_cache *cache, size_t layer, size_t position, size_t tokens,
                    const float *keys, const float *values, size_t ld) {
    const struct kv_shape *shape = &cache->shape;
    const enum kv_type type = shape->type;
    const size_t panel = shape->panel, size = shape->head_size, number = kv_number_bytes(type);
    for (size_t t = 0; t < tokens; t++, position++, keys += ld, values += ld)
        for (size_t h = 0; h < shape->kv_heads; h++) {
            const struct place to = place_of(cache, layer, position, h);
            const float *k = keys + h * size, *v = values + h * size;
            for (size_t i = 0; i < size; i += KV_BLOCK) {
                const size_t n = smaller(KV_BLOCK, size - i), block = i / KV_BLOCK * KV_PAGE;
                float key_scale = 0, value_scale = 0;
                if (type == KV_INT8) {
                    to.key_scales[block] = key_scale = block_scale(k + i, n);
                    to.value_scales[block] = value_scale = block_scale(v + i, n);
                }
                write_numbers(type, k + i, n, panel, key_scale, to.key + i * panel * number);
                for (size_t j = i; j < i + n; j += panel)
                    write_numbers(type, v + j, smaller(panel, size - j), 1, value_scale,
                                  to.value + j * KV_PAGE * number);
            }
        }
}

struct kv_head kv_cache_head(const struct kv_cache *cache, size_t page, size_t layer,
                             size_t kv_head) {
    const struct places p = places_of(&cache->shape, layer, kv_head);
    const unsigned char *base = cache->page[page];
    return (struct kv_head){.keys = base + p.keys,
                            .values = base + p.values,
                            .key_scales = (const float *)(const void *)(base + p.key_scales),
                            .value_scales = (const float *)(const void *)(base + p.value_scales)};
}

size_t kv_cache_bytes(const struct kv_cache *cache) {
    return cache->capacity / KV_PAGE * page_bytes(&cache->shape) +
           cache->page_slots * sizeof *cache->page +
           (cache->other_rope ? 2
            : cache->rope     ? 1
                              : 0) *
               cache->rope_positions * cache->shape.head_size * sizeof *cache->rope;
}

/* Copies the positions [first, end) of a page. Keys are copied by whole panels, and so some of
 * their neighbours too. */
static void copy_in_page(const struct kv_shape *shape, unsigned char *to, const unsigned char *from,
                         size_t first, size_t end) {
    const size_t panel = shape->panel, number = kv_number_bytes(shape->type);
    const size_t keys = first / panel * panel * shape->head_size * number;
    const size_t keys_end = round_up(end, panel) * shape->head_size * number;
    for (size_t l = 0; l < shape->layers; l++)
        for (size_t h = 0; h < shape->kv_heads; h++) {
            const struct places p = places_of(shape, l, h);
            memcpy(to + p.keys + keys, from + p.keys + keys, keys_end - keys);
            for (size_t i = 0; i < shape->head_size; i += panel) {
                const size_t at = p.values + (i * KV_PAGE + first * panel) * number;
                memcpy(to + at, from + at, (end - first) * panel * number);
            }
            for (size_t b = 0; shape->type == KV_INT8 && b < kv_blocks(shape); b++) {
                const size_t at = (b * KV_PAGE + first) * sizeof(float);
                const size_t bytes = (end - first) * sizeof(float);
                memcpy(to + p.key_scales + at, from + p.key_scales + at, bytes);
                memcpy(to + p.value_scales + at, from + p.value_scales + at, bytes);
            }
        }
}

void kv_cache_copy(const struct kv_cache *to, const struct kv_cache *from, size_t first,
                   size_t end) {
    for (size_t at = first, next; at < end; at = next) {
        const size_t page = at / KV_PAGE, start = page * KV_PAGE;
        next = smaller(end, start + KV_PAGE);
        copy_in_page(&from->shape, to->page[page], from->page[page], at - start, next - start);
    }
}

size_t kv_position_bytes(const struct kv_shape *shape) {
    const size_t scales = shape->type == KV_INT8 ? kv_blocks(shape) * sizeof(float) : 0;
    return 2 * shape->kv_heads * (shape->head_size * kv_number_bytes(shape->type) + scales);
}

/* Copies n bytes from the cache to a file's bytes, or the other way. */
static void move(unsigned char *in_cache, unsigned char *in_file, size_t n, bool out) {
    memcpy(out ? in_file : in_cache, out ? in_cache : in_file, n);
}

/* Copies a position to a file's bytes, or the other way. */
static void move_position(const struct kv_cache *cache, size_t layer, size_t position,
                          unsigned char *bytes, bool out) {
    const struct kv_shape *shape = &cache->shape;
    const size_t panel = shape->panel, size = shape->head_size, blocks = kv_blocks(shape);
    const size_t number = kv_number_bytes(shape->type);
    unsigned char *keys = bytes, *values = keys + shape->kv_heads * size * number;
    unsigned char *key_scales = values + shape->kv_heads * size * number;
    unsigned char *value_scales = key_scales + shape->kv_heads * blocks * sizeof(float);
    for (size_t h = 0; h < shape->kv_heads; h++) {
        const struct place p = place_of(cache, layer, position, h);
        for (size_t i = 0; i < size; i++, keys += number)
            move(p.key + i * panel * number, keys, number, out);
        for (size_t i = 0; i < size; i += panel) {
            const size_t n = smaller(panel, size - i) * number;
            move(p.value + i * KV_PAGE * number, values, n, out);
            values += n;
        }
        for (size_t b = 0; shape->type == KV_INT8 && b < blocks; b++) {
            move((unsigned char *)(p.key_scales + b * KV_PAGE), key_scales, sizeof(float), out);
            move((unsigned char *)(p.value_scales + b * KV_PAGE), value_scales, sizeof(float), out);
            key_scales += sizeof(float);
            value_scales += sizeof(float);
        }
    }
}

/* Changes the bytes of a position from the machine's order to a file's, or back. */
static void swap_position(const struct kv_shape *shape, unsigned char *bytes) {
    const size_t number = kv_number_bytes(shape->type);
    const size_t numbers = 2 * shape->kv_heads * shape->head_size;
    swap_file_numbers(bytes, numbers, number);
    if (shape->type == KV_INT8)
        swap_file_numbers(bytes + numbers, 2 * shape->kv_heads * kv_blocks(shape), sizeof(float));
}

void kv_cache_export(const struct kv_cache *cache, size_t layer, size_t position,
                     unsigned char *bytes) {
    move_position(cache, layer, position, bytes, true);
    swap_position(&cache->shape, bytes);
}

bool kv_cache_import(const struct kv_cache *cache, size_t layer, size_t position,
                     unsigned char *bytes) {
    const struct kv_shape *shape = &cache->shape;
    const size_t numbers = 2 * shape->kv_heads * shape->head_size;
    const size_t floats = shape->type == KV_INT8  ? 2 * shape->kv_heads * kv_blocks(shape)
                          : shape->type == KV_F32 ? numbers
                                                  : 0;
    const unsigned char *first = bytes + (shape->type == KV_INT8 ? numbers : 0);
    for (size_t i = 0; i < floats; i++)
        if ((load_u32(first + i * sizeof(float)) & 0x7f800000) == 0x7f800000)
            return false;
    for (size_t i = 0; shape->type == KV_F16 && i < numbers; i++)
        if ((load_u16(bytes + i * sizeof(uint16_t)) & 0x7c00) == 0x7c00)
            return false;
    swap_position(shape, bytes);
    move_position(cache, layer, position, bytes, false);
    return true;
}

void kv_cache_release(struct kv_cache *cache) {
    for (size_t i = 0; i < cache->capacity / KV_PAGE; i++)
        memory_free_zeros(cache->page[i]);
    free(cache->page);
    memory_free(cache->rope);
    *cache = (struct kv_cache){0};
}
