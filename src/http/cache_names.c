/* SPDX-License-Identifier: Apache-2.0 */
#include "http/cache_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "host/file.h"

enum { STATE_DIGITS = 16 };

void cache_hash(const char *text, size_t digits, char *hex) {
    struct sha256 hash;
    unsigned char digest[32];
    char all[65];
    sha256_start(&hash);
    sha256_add(&hash, text, strlen(text));
    sha256_finish(&hash, digest);
    sha256_text(digest, all);
    memcpy(hex, all, digits);
    hex[digits] = '\0';
}

wisp_status cache_folder(char *path, size_t capacity, wisp_error *error) {
    static const char *const variables[] = {"WISP_CACHE", "XDG_CACHE_HOME", "HOME"};
    static const char *const below[] = {"http", "wisp/http", ".cache/wisp/http"};
    for (size_t i = 0; i < 3; i++) {
        const char *folder = getenv(variables[i]);
        if (!folder || *folder == '\0')
            continue;
        return file_join(folder, below[i], path, capacity, error);
    }
    return fail(error, WISP_ERROR_ARGUMENT, NULL, "WISP_CACHE",
                "neither this variable nor HOME says where files from servers are kept");
}

void cached_file_name(const struct file_state *state, const char *kind, char *name,
                      size_t capacity) {
    char text[sizeof state->validator + 32], hex[STATE_DIGITS + 1];
    snprintf(text, sizeof text, "%s\n%llu", state->validator, (unsigned long long)state->size);
    cache_hash(text, STATE_DIGITS, hex);
    snprintf(name, capacity, "-%s.%s", hex, kind);
}
