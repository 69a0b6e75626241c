/* SPDX-License-Identifier: Apache-2.0
 * The texts that a session keeps, whose model generates. */
#ifndef WISP_ENGINE_SEQUENCE_H
#define WISP_ENGINE_SEQUENCE_H

#include "attention/kv_cache.h"
#include "base/workspace.h"
#include "text/codec.h"

/* A text, or what was computed of it. */
struct sequence {
    struct kv_cache cache;
    struct token_list past; /* the tokens whose keys and values are in the cache */
};

struct generation {
    /* [count]: texts that are kept between calls. The first is that of the session's last call;
     * calls with several texts use all. */
    struct sequence *sequences;
    size_t count;
    struct workspace space; /* holds logits and the working memory of the pass */
};

/* Returns how many of the n ids the sequence begins with. */
size_t sequence_shared(const struct sequence *sequence, const int32_t *ids, size_t n);

/* Keeps the first n tokens of the text only. */
void sequence_rewind(struct sequence *sequence, size_t n);

/* Returns the bytes that a generation holds; 0 for NULL. */
size_t generation_bytes(const struct generation *generation);

/* Releases a generation; NULL is allowed. */
void generation_close(struct generation *generation);

#endif
