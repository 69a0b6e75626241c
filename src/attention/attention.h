/* SPDX-License-Identifier: Apache-2.0
 * Attention in one interface: a policy says which keys are looked at and how. For query i and
 * query head h, whose key-value head is g = h / (heads / kv_heads), full attention is
 *
 *   context[i, h] = sum over the visible keys j of softmax_j(scale q[i, h] . k[j, g]) v[j, g]
 *
 * An architecture calls the `run` of a policy. Another policy is another file with a `const struct
 * attention_policy`, its declaration below, and its line in the table of attention.c. */
#ifndef WISP_ATTENTION_ATTENTION_H
#define WISP_ATTENTION_ATTENTION_H

#include "attention/kv_cache.h"
#include "base/workspace.h"
#include "kernels/kernels.h"

/* The keys that a query at position p sees. */
enum attention_mask {
    ATTENTION_ALL_KEYS,
    ATTENTION_CAUSAL, /* keys 0 .. p */
    ATTENTION_WINDOW, /* the last `window` of keys 0 .. p: a sliding window */
    ATTENTION_MASKS
};

/* The parameters that all calls of a layer share. */
struct attention_shape {
    size_t heads;
    size_t kv_heads; /* heads % kv_heads == 0; fewer than heads: grouped-query attention */
    size_t head_size;
    float scale; /* of scores; usually 1 / sqrt(head_size) */
    enum attention_mask mask;
    size_t window;  /* of ATTENTION_WINDOW: at least 1 */
    float soft_cap; /* a score s becomes soft_cap tanh(s / soft_cap); 0: it stays as it is. Only the
                       policy `cached` computes it, and only for decoders (kernels.h) */
    bool i16;       /* products of 16-bit numbers, where the kernel set has them */
};

/* Vectors [rows, heads, head_size]; strides are the floats from one row or head to the next. */
struct attention_rows {
    const float *data;
    size_t row_stride, head_stride;
};

/* One sequence, in which the last query stands at the position of the last key: query i is at
 * position keys - queries + i. A text that is embedded has queries == keys; a decoder that has
 * `past` keys from earlier calls has queries == keys - past.
 *
 * A call computes the queries [first, end), so that threads can share a sequence. Results do not
 * depend on how the queries are divided among calls. With 16-bit numbers, all queries of a head
 * share a scale, and so do its keys and its values. Then all of them must be readable, and later
 * keys influence the rounding even with a causal mask; with floats they have no influence. */
struct attention_sequence {
    struct attention_rows q; /* [queries, heads, head_size] */
    struct attention_rows k; /* [keys, kv_heads, head_size] */
    struct attention_rows v;
    /* A policy that needs a cache reads the keys and values of `layer` from it instead of k and v.
     * It has those of all `keys` tokens. */
    const struct kv_cache *cache;
    size_t layer;
    size_t kv_head;       /* in the cache: the key-value head of the first query heads */
    size_t queries, keys; /* 1 <= queries <= keys */
    size_t first, end;    /* first < end <= queries */
};

struct attention_policy {
    const char *name;
    unsigned masks;   /* 1 << mask for each mask that it computes */
    bool needs_cache; /* keeps something of a sequence between calls */

    /* Working memory of a call for sequences of up to so many keys; SIZE_MAX where that cannot be
     * addressed. */
    size_t (*workspace_bytes)(const struct kernels *kernels, const struct attention_shape *shape,
                              size_t keys);

    /* context [end - first, ld_context]: head h of query first + i is written from
     * i * ld_context + h * head_size. `space` has workspace_bytes(kernels, shape, keys) left. */
    void (*run)(const struct kernels *kernels, const struct attention_shape *shape,
                const struct attention_sequence *sequence, float *context, size_t ld_context,
                struct workspace space);
};

/* Each query looks at all keys that its mask lets it see. full.c */
extern const struct attention_policy attention_full;

/* Attention with a causal mask or a sliding window over a key-value cache. cached.c */
extern const struct attention_policy attention_cached;

/* Returns policy `index`, or NULL past the last. */
const struct attention_policy *attention_policy_at(size_t index);

#endif
