/* SPDX-License-Identifier: Apache-2.0
 * The interface of stores that keep a session's blocks of texts beyond it (prompt_cache.h). */
#ifndef WISP_ENGINE_TEXT_STORE_H
#define WISP_ENGINE_TEXT_STORE_H

#include "base/sha256.h"
#include "wisp.h"

/* The name of a text, and of the block that it ends with (text_block.h). */
struct text_name {
    unsigned char digest[32];
};

/* Where blocks are. All functions get `context`. */
struct text_store {
    void *context;
    bool (*has)(void *context, const struct text_name *name);
    /* Reads a block of at most `capacity` bytes. *found is false if there is none. */
    wisp_status (*read)(void *context, const struct text_name *name, void *bytes, size_t capacity,
                        size_t *length, bool *found, wisp_error *error);
    wisp_status (*write)(void *context, const struct text_name *name, const void *bytes,
                         size_t length, wisp_error *error);
    /* Says that block `index` of a text was used now. */
    void (*use)(void *context, const struct text_name *name, size_t index);
    void (*remove)(void *context, const struct text_name *name);
    /* Makes the store keep its bound. Returns how many blocks that took. */
    size_t (*make_room)(void *context);
    void (*close)(void *context);
};

/* The store of a session. */
struct prompt_cache {
    struct text_store store;
    struct sha256 hash; /* of all that keys and values depend on, but what may change */
    wisp_prompt_cache_stats stats;
};

/* NULL is allowed. */
void prompt_cache_close(struct prompt_cache *prompts);

#endif
