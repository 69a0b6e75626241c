/* SPDX-License-Identifier: Apache-2.0
 * A session keeps this of the last text that it generated or read. */
#ifndef WISP_ENGINE_GENERATION_H
#define WISP_ENGINE_GENERATION_H

#include "attention/kv_cache.h"
#include "base/workspace.h"
#include "text/codec.h"

struct generation {
    struct kv_cache cache;
    struct token_list past; /* the tokens whose keys and values are in the cache */
    struct workspace space; /* holds logits and the working memory of the pass */
};

/* Returns the bytes that a generation holds; 0 for NULL. */
size_t generation_bytes(const struct generation *generation);

/* Releases a generation; NULL is allowed. */
void generation_close(struct generation *generation);

#endif
