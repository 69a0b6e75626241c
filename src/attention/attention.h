/* SPDX-License-Identifier: Apache-2.0
 * Attention in one interface. For query i and query head h, whose key-value head is g = h / (heads
 * / kv_heads), attention is
 *
 *   context[i, h] = sum over the visible keys j of softmax_j(scale q[i, h] . k[j, g]) v[j, g]
 *
 * An architecture says which keys are visible to a query (struct attention_shape). A session says
 * which policies compute it (struct attention_choice), and a policy says which of the visible keys
 * are looked at and how. Another policy is another file with a `const struct attention_policy`, its
 * declaration below, and a row in the lists of src/products. */
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
    ATTENTION_NEAR,   /* keys p - window .. p + ahead */
    ATTENTION_MASKS
};

struct disentangled; /* disentangled.h */

/* The attention of a layer. */
struct attention_shape {
    size_t heads;
    size_t kv_heads; /* heads % kv_heads == 0; fewer than heads: grouped-query attention */
    size_t head_size;
    float scale; /* of scores; usually 1 / sqrt(head_size) */
    enum attention_mask mask;
    size_t window;  /* of ATTENTION_WINDOW: at least 1; of ATTENTION_NEAR */
    size_t ahead;   /* of ATTENTION_NEAR */
    float soft_cap; /* a score s becomes soft_cap tanh(s / soft_cap); 0: it stays as it is. Only
                       policies over a cache compute it, and only for decoders (kernels.h) */
    /* [heads]: the softmax of a head goes over these scores, too, to which no value belongs. NULL:
     * there are none. Only of policies over a cache, where steps are chosen without them. */
    const float *sinks;
    /* Added to q . k before scaling, by the distance of key j from query i, which may be negative:
     * bias[h * bias_stride + j - i]. NULL: nothing is added. Only of policies that say so. */
    const float *bias;
    size_t bias_stride;
    const struct disentangled *parts; /* of scores, added likewise; NULL: there are none */
    bool i16;                         /* products of 16-bit numbers, if the kernel set has them */
};

/* Numbers that a policy takes from whoever chooses it, in positions or in steps of KV_STEP. */
struct attention_settings {
    size_t window; /* the last positions: a query looks at all steps in which one of these may be,
                      and at its own */
    size_t sinks;  /* the first positions, up to the end of their last step */
    size_t
        stride; /* of the other steps, each whose distance from the query's is a multiple of it */
    size_t tokens;   /* `quest`: positions that are looked at, in whole steps */
    size_t mass;     /* `mass`: thousandths of the weight of all keys */
    size_t budget;   /* `minference`: hundredths of the steps, */
    size_t vertical; /* or positions that all queries look at, */
    size_t slash;    /* and positions by their distance from a query */
};

/* The bits of struct attention_policy.settings. */
enum {
    ATTENTION_TAKES_WINDOW = 1,
    ATTENTION_TAKES_SINKS = 2,
    ATTENTION_TAKES_STRIDE = 4,
    ATTENTION_TAKES_TOKENS = 8,
    ATTENTION_TAKES_MASS = 16,
    ATTENTION_TAKES_BUDGET = 32
};

/* Keys that a thread has looked at in a layer. */
struct attention_counts {
    uint64_t visible; /* keys that masks let queries see, for each key-value head */
    uint64_t seen;    /* of these, those in steps that were looked at */
    uint64_t bytes;   /* of keys and values that were read */
    /* Is told of each step of keys that queries of a step could see, how many they could, and how
     * many they have looked at. NULL: nobody asks. */
    void (*see)(void *map, size_t kv_head, size_t query_step, size_t key_step, uint64_t seen,
                uint64_t visible);
    void *map;
};

/* Vectors [rows, heads, head_size]; strides are the floats from one row or head to the next. */
struct attention_rows {
    const float *data;
    size_t row_stride, head_stride;
};

/* One sequence, in which the last query is at the position of the last key: query i is at
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
    size_t kv_head; /* in the cache: the key-value head of the first query heads */
    /* The policy, if it is one over a cache, the numbers that it takes, and the plan that its
     * `prepare` made for the first key-value head; those of the next heads follow it. NULL: full
     * attention. */
    const struct attention_policy *policy;
    const struct attention_settings *settings;
    const struct attention_masks *masks; /* of the choice */
    const unsigned char *plan;
    size_t plan_bytes;
    struct attention_counts *counts; /* to which the call adds; NULL: nothing is counted */
    size_t queries, keys;            /* 1 <= queries <= keys */
    size_t first, end;               /* first < end <= queries */
};

struct query_block;     /* steps.h */
struct attention_masks; /* learned.h */
struct directory;       /* formats/directory.h */

/* The steps that the queries of a block look at. */
struct step_looks {
    size_t first, end; /* of the steps in which a query of the block sees a key: first <= own, the
                          queries' own step, and end == own + 1 */
    size_t ld;         /* at least end */
    bool *at;          /* [queries, ld]: query i looks at step s if at[i * ld + s] */
    float *weights;    /* [rows of a block, ld]: working memory of the policy */
    size_t *order;     /* [ld]: likewise */
    float *scores;     /* [end, rows of the block, KV_STEP]: those of step_weigh; NULL: unknown */
    struct workspace
        space; /* what the policy's workspace_bytes has beyond attention_cached_bytes */
};

struct attention_policy {
    const char *name;               /* a policy with a cache may have the name of one without */
    bool only_prefill, only_decode; /* it computes calls that read a text alone, or calls that add
                                       one token */
    bool selects_steps; /* what is looked at decides what is brought to memory (kv_tier.h) */
    unsigned masks;     /* 1 << mask for each mask that it computes */
    bool biases;        /* computes a bias */
    bool needs_cache;   /* keeps something of a sequence between calls */

    unsigned settings; /* the bits of those that it takes */
    struct attention_settings defaults, least;

    /* ---- policies over a cache; all may be NULL ---- */

    /* Chooses the steps at whose keys the queries of a block look, as far as their mask lets them
     * see these. On entry none is chosen; a query's own step is looked at in any case. NULL: all
     * are. What a query looks at does not depend on which others are in the block. */
    void (*select_steps)(const struct query_block *block, struct step_looks *looks);

    /* Sees the keys of a step when all of them are written, while they are in memory, and keeps
     * what select_steps needs of them (kv_cache_kept): kept_bytes(shape) for KV_KEPT_STEPS steps
     * of a key-value head. Only of the policy for calls that add one token, which sees the keys of
     * all calls. Threads call it for different key-value heads or groups of KV_KEPT_STEPS. */
    size_t (*kept_bytes)(const struct kv_shape *shape);
    void (*keep_step)(const struct kv_cache *cache, size_t layer, size_t kv_head, size_t step);

    /* Plans a call for a key-value head before its queries are computed: plan
     * [plan_bytes(keys)], which the calls of `run` then find in the sequence. Has workspace_bytes
     * left. */
    size_t (*plan_bytes)(size_t keys);
    void (*prepare)(const struct kernels *kernels, const struct attention_shape *shape,
                    const struct attention_sequence *sequence, size_t kv_head, unsigned char *plan,
                    struct workspace space);

    /* ---- all policies ---- */

    /* Working memory of a call for sequences of up to so many keys; SIZE_MAX if that cannot be
     * addressed. */
    size_t (*workspace_bytes)(const struct kernels *kernels, const struct attention_shape *shape,
                              size_t keys);

    /* context [end - first, ld_context]: head h of query first + i is written from
     * i * ld_context + h * head_size. `space` has workspace_bytes(kernels, shape, keys) left. */
    void (*run)(const struct kernels *kernels, const struct attention_shape *shape,
                const struct attention_sequence *sequence, float *context, size_t ld_context,
                struct workspace space);
};

/* Full attention: each query looks at all keys that its mask lets it see. full.c */
extern const struct attention_policy attention_full;

/* Full attention with a causal mask or a sliding window over a key-value cache. cached.c */
extern const struct attention_policy attention_cached;

/* Shared by policies over a cache (cached.c). */
size_t attention_cached_bytes(const struct kernels *kernels, const struct attention_shape *shape,
                              size_t keys);
void attention_cached_run(const struct kernels *kernels, const struct attention_shape *shape,
                          const struct attention_sequence *sequence, float *context,
                          size_t ld_context, struct workspace space);

/* A window with sinks, and this with every so many-th step before it. local.c, strided.c */
extern const struct attention_policy attention_local, attention_strided;
bool attention_sees_local(const struct attention_settings *settings, size_t query_step,
                          size_t key_step);

/* Steps by their share of the weight of all keys, by a bound of their scores, and by what the last
 * queries of a call look at. mass.c, quest.c, minference.c */
extern const struct attention_policy attention_mass, attention_quest, attention_minference;

/* Masks of blocks for each layer and key-value head, from the model's file. learned.c */
extern const struct attention_policy attention_learned;

/* Orders indices [n] so that those of the largest weights come first, among equals the later, as
 * far as `enough` says: it is asked after each whether the ones so far are. Returns their number.
 * order.c */
size_t attention_order(const float *weights, size_t n, size_t *order,
                       bool (*enough)(void *context, size_t index), void *context);

/* The policies that this product has (src/products); NULL ends them. Of those with a cache, and of
 * those without, the first is the default. */
extern const struct attention_policy *const attention_policies[];

/* The policies of a session: one for calls that read a text, and one for calls that add one token
 * to a sequence. What `decode` keeps is there for both. */
struct attention_choice {
    const struct attention_policy *prefill, *decode;
    struct attention_settings prefill_settings, decode_settings;
    /* By which `learned` chooses: learned.h. The session frees it. NULL: neither policy does. */
    struct attention_masks *masks;
};

/* Reads a choice of policies over a cache: "local,window=1024,sinks=64" for all calls, or
 * "full/local", where the second is for calls that add one token. A number that is not named has
 * the policy's default. Fails with WISP_ERROR_ARGUMENT if there is no such policy, or it does not
 * take a number or its value, and says what can be. choose.c */
wisp_status attention_choose(const char *text, struct attention_choice *choice, wisp_error *error);

/* Reads a choice for a model of so many layers with keys and values. Each product has one
 * (src/products); NULL: it has no such models. */
typedef wisp_status attention_chooser(const struct directory *dir, size_t layers, size_t kv_heads,
                                      const char *text, struct attention_choice *choice,
                                      wisp_error *error);
extern attention_chooser *const attention_chosen_by;

/* By the text alone. choose.c */
attention_chooser attention_from_text;

/* By the file, too: "auto" is what it says, and `learned` goes by its masks. from_file.c */
attention_chooser attention_from_file;

/* Returns the choice of full attention: over keys and values in a cache, or over rows. */
struct attention_choice attention_default(bool cached);

/* Returns the policy of the choice that computes a call for this sequence, and sets what the
 * sequence says of it. */
static inline const struct attention_policy *
attention_policy_of(const struct attention_choice *choice, struct attention_sequence *sequence) {
    const bool decode = sequence->queries == 1 && sequence->keys > 1;
    const struct attention_policy *policy = decode ? choice->decode : choice->prefill;
    sequence->policy = policy;
    sequence->settings = decode ? &choice->decode_settings : &choice->prefill_settings;
    sequence->masks = choice->masks;
    return policy;
}

/* Returns the working memory of calls with either policy: see workspace_bytes. */
size_t attention_workspace_bytes(const struct attention_choice *choice,
                                 const struct kernels *kernels, const struct attention_shape *shape,
                                 size_t keys);

/* Returns the name of a policy of the choice that does not compute the shape's mask, bias or
 * soft cap; NULL if both do. */
const char *attention_refuses(const struct attention_choice *choice,
                              const struct attention_shape *shape);

#endif
