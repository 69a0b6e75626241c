/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/whole_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/console.h"

enum { MAX_BYTES = 64 << 20 };

int read_whole_file(const char *path, char **text, size_t *length) {
    const bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    size_t capacity = 0;
    *length = 0;
    if (!file) {
        complain("%s: cannot be opened", path);
        return EXIT_FAILED;
    }
    int code = EXIT_GOOD;
    do {
        if (*length == capacity) {
            char *larger = capacity < MAX_BYTES ? realloc(*text, 2 * capacity + 4096) : NULL;
            if (!larger) {
                complain("%s: longer than %d bytes", path, MAX_BYTES);
                code = EXIT_FAILED;
                break;
            }
            *text = larger;
            capacity = 2 * capacity + 4096;
        }
        *length += fread(*text + *length, 1, capacity - *length, file);
    } while (!feof(file) && !ferror(file));
    if (*length > 0 && (*text)[*length - 1] == '\n')
        --*length;
    if (code == EXIT_GOOD && ferror(file)) {
        complain("%s: reading failed", path);
        code = EXIT_FAILED;
    }
    if (!standard)
        fclose(file);
    return code;
}
