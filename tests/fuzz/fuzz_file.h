/* SPDX-License-Identifier: Apache-2.0
 * Files for targets whose code under test takes paths. They are in memory, in a folder of this
 * process that is removed when it ends. */
#ifndef TESTS_FUZZ_FUZZ_FILE_H
#define TESTS_FUZZ_FUZZ_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"

static char fuzz_folder[64];

static inline void fuzz_remove_folder(void) {
    folder_remove(fuzz_folder);
}

/* Returns the path of the file `name`, valid until the next call for this name. */
static inline const char *fuzz_path(const char *name) {
    static char paths[12][96];
    size_t i = 0;
    if (!*fuzz_folder) {
        strcpy(fuzz_folder, "/dev/shm/wisp-fuzz-XXXXXX");
        if (!mkdtemp(fuzz_folder))
            abort();
        atexit(fuzz_remove_folder);
    }
    while (*paths[i] && strcmp(strrchr(paths[i], '/') + 1, name) != 0)
        if (++i == sizeof paths / sizeof *paths)
            abort();
    snprintf(paths[i], sizeof paths[i], "%s/%s", fuzz_folder, name);
    return paths[i];
}

/* Writes a file and returns its path. */
static inline const char *fuzz_file(const char *name, const void *data, size_t size) {
    const char *path = fuzz_path(name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
    return path;
}

#endif
