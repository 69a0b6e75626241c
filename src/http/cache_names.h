/* SPDX-License-Identifier: Apache-2.0
 * The names of files in the cache of servers' files (http/cache.h). */
#ifndef WISP_HTTP_CACHE_NAMES_H
#define WISP_HTTP_CACHE_NAMES_H

#include "base/status.h"

enum { CACHE_HASH_DIGITS = 32 };

/* Tells one version of a file on a server from another. */
struct file_state {
    char validator[256]; /* the ETag, else the time of modification, as sent; "": neither */
    uint64_t size;       /* in bytes; 0: nothing is known */
};

/* Writes the path of the cache's folder, which need not exist. Fails with WISP_ERROR_ARGUMENT if no
 * variable of the environment says where it is. */
wisp_status cache_folder(char *path, size_t capacity, wisp_error *error);

/* Writes the first `digits` hexadecimal digits of the text's SHA-256, and a 0 behind them. */
void cache_hash(const char *text, size_t digits, char *hex);

/* Writes "-STATE.kind" to `name`. */
void cached_file_name(const struct file_state *state, const char *kind, char *name,
                      size_t capacity);

#endif
