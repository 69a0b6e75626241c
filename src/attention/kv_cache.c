/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/kv_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"

enum { LEAST_CAPACITY = 256 };

/* The values of a head that the value panels hold: head_size and what fills the last panel. */
static size_t padded_head(const struct kv_shape *shape) {
    return round_up(shape->head_size, shape->panel);
}

/* Returns the place of the keys of a head in a layer. */
static size_t keys_at(const struct kv_shape *shape, size_t capacity, size_t kv_head) {
    return kv_head * capacity * shape->head_size;
}

static size_t values_at(const struct kv_shape *shape, size_t capacity, size_t kv_head) {
    return keys_at(shape, capacity, shape->kv_heads) + kv_head * capacity * padded_head(shape);
}

wisp_status kv_cache_open(struct kv_cache *cache, const struct kv_shape *shape, wisp_error *error) {
    *cache =
        (struct kv_cache){.shape = *shape, .layer = calloc(shape->layers, sizeof *cache->layer)};
    return cache->layer ? WISP_OK : fail_memory(error, shape->layers * sizeof *cache->layer);
}

/* Copies the first `length` positions of a layer. */
static void copy_layer(const struct kv_shape *shape, size_t length, const float *from,
                       size_t from_capacity, float *to, size_t to_capacity) {
    const size_t panel = shape->panel, key_panels = (length + panel - 1) / panel;
    for (size_t h = 0; h < shape->kv_heads; h++) {
        memcpy(to + keys_at(shape, to_capacity, h), from + keys_at(shape, from_capacity, h),
               key_panels * panel * shape->head_size * sizeof *to);
        const float *values = from + values_at(shape, from_capacity, h);
        float *copy = to + values_at(shape, to_capacity, h);
        for (size_t i = 0; i < padded_head(shape) / panel; i++)
            memcpy(copy + i * to_capacity * panel, values + i * from_capacity * panel,
                   length * panel * sizeof *to);
    }
}

wisp_status kv_cache_reserve(struct kv_cache *cache, size_t positions, const struct rope *rope,
                             wisp_error *error) {
    const struct kv_shape *shape = &cache->shape;
    if (positions <= cache->capacity)
        return WISP_OK;
    const size_t capacity =
        round_up(larger(larger(positions, 2 * cache->capacity), LEAST_CAPACITY), shape->panel);
    size_t bytes;
    if (!checked_floats(capacity, shape->kv_heads * (shape->head_size + padded_head(shape)),
                        &bytes))
        return fail_memory(error, UINT64_MAX);
    float *table = memory_allocate(capacity * shape->head_size * sizeof *table);
    float **layers = calloc(shape->layers, sizeof *layers);
    bool room = table && layers;
    for (size_t l = 0; l < shape->layers && room; l++)
        room = (layers[l] = memory_allocate(bytes)) != NULL;
    if (!room) {
        for (size_t l = 0; layers && l < shape->layers; l++)
            memory_free(layers[l]);
        free(layers);
        memory_free(table);
        return fail_memory(error, shape->layers * bytes);
    }
    fill_rope_table(rope, shape->head_size, capacity, table);
    memory_free(cache->rope);
    cache->rope = table;
    for (size_t l = 0; l < shape->layers; l++) {
        /* The last panels hold values of no position and of no head, which products read. */
        memset(layers[l], 0, bytes);
        if (cache->length > 0)
            copy_layer(shape, cache->length, cache->layer[l], cache->capacity, layers[l], capacity);
        memory_free(cache->layer[l]);
    }
    free(cache->layer);
    cache->layer = layers;
    cache->capacity = capacity;
    return WISP_OK;
}

void kv_cache_write(const struct kv_cache *cache, size_t layer, size_t position, size_t tokens,
                    const float *keys, const float *values, size_t ld) {
    const struct kv_shape *shape = &cache->shape;
    const size_t panel = shape->panel, size = shape->head_size;
    for (size_t t = 0; t < tokens; t++, position++, keys += ld, values += ld)
        for (size_t h = 0; h < shape->kv_heads; h++) {
            const float *k = keys + h * size, *v = values + h * size;
            float *key = cache->layer[layer] + keys_at(shape, cache->capacity, h) +
                         position / panel * panel * size + position % panel;
            float *value =
                cache->layer[layer] + values_at(shape, cache->capacity, h) + position * panel;
            for (size_t i = 0; i < size; i++)
                key[i * panel] = k[i];
            for (size_t i = 0; i < size; i += panel, value += cache->capacity * panel)
                memcpy(value, v + i, smaller(panel, size - i) * sizeof *value);
        }
}

void kv_cache_copy(const struct kv_cache *to, const struct kv_cache *from, size_t first,
                   size_t end) {
    const struct kv_shape *shape = &from->shape;
    const size_t panel = shape->panel, keys = first / panel * panel * shape->head_size;
    const size_t key_count = round_up(end, panel) * shape->head_size - keys;
    for (size_t l = 0; l < shape->layers && first < end; l++)
        for (size_t h = 0; h < shape->kv_heads; h++) {
            memcpy(to->layer[l] + keys_at(shape, to->capacity, h) + keys,
                   from->layer[l] + keys_at(shape, from->capacity, h) + keys,
                   key_count * sizeof **to->layer);
            for (size_t i = 0; i < padded_head(shape) / panel; i++)
                memcpy(to->layer[l] + values_at(shape, to->capacity, h) +
                           (i * to->capacity + first) * panel,
                       from->layer[l] + values_at(shape, from->capacity, h) +
                           (i * from->capacity + first) * panel,
                       (end - first) * panel * sizeof **to->layer);
        }
}

void kv_cache_release(struct kv_cache *cache) {
    for (size_t l = 0; cache->layer && l < cache->shape.layers; l++)
        memory_free(cache->layer[l]);
    free(cache->layer);
    memory_free(cache->rope);
    *cache = (struct kv_cache){0};
}

const float *kv_cache_keys(const struct kv_cache *cache, size_t layer, size_t kv_head) {
    return cache->layer[layer] + keys_at(&cache->shape, cache->capacity, kv_head);
}

const float *kv_cache_values(const struct kv_cache *cache, size_t layer, size_t kv_head) {
    return cache->layer[layer] + values_at(&cache->shape, cache->capacity, kv_head);
}
