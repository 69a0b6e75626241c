/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "host/file.h"

enum { MOST_BEGINNINGS = 3, MOST_BYTES = 8 };

#define BYTES(text) {text, sizeof(text) - 1}

/* The first bytes of files of each kind. */
static const struct {
    const char *name;
    struct beginning {
        const char *bytes;
        size_t n;
    } beginnings[MOST_BEGINNINGS];
} kinds[] = {
    [OUTPUT_MODEL] = {"GGUF file", {BYTES("GGUF")}},
    [OUTPUT_INDEX] = {"index", {BYTES("WISPINDX")}},
    [OUTPUT_STATE] = {"saved state", {BYTES("WISPSAVE")}},
    [OUTPUT_REPORT] = {"JSON file", {BYTES("{"), BYTES("[")}},
    [OUTPUT_PICTURE] = {"SVG picture", {BYTES("<svg"), BYTES("<?xml")}},
    [OUTPUT_MODULE] = {"WebAssembly module", {BYTES("\0asm")}},
};

static bool is_of_kind(enum output_kind kind, const char *bytes, size_t n) {
    if (n == 0) /* as mktemp makes */
        return true;
    for (size_t i = 0; i < MOST_BEGINNINGS && kinds[kind].beginnings[i].n > 0; i++) {
        const struct beginning *beginning = &kinds[kind].beginnings[i];
        if (n >= beginning->n && memcmp(bytes, beginning->bytes, beginning->n) == 0)
            return true;
    }
    return false;
}

/* Checks the beginning of an existing regular file. */
static int check_kind(const char *what, const char *path, enum output_kind kind) {
    char bytes[MOST_BYTES];
    FILE *file = fopen(path, "rb");
    if (!file) {
        complain("%s: %s exists and cannot be read: %s (--force replaces it)", what, path,
                 strerror(errno));
        return EXIT_FAILED;
    }
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    const bool failed = ferror(file) != 0;
    fclose(file);
    if (!failed && is_of_kind(kind, bytes, n))
        return EXIT_GOOD;
    complain("%s: %s exists and is not %s %s: choose another name, or give --force to replace it",
             what, path, strchr("aeiou", kinds[kind].name[0]) ? "an" : "a", kinds[kind].name);
    return EXIT_USAGE;
}

int check_output(const char *what, const char *path, enum output_kind kind, bool force) {
    struct stat info;
    wisp_error error;
    if (!check_path(what, path))
        return EXIT_USAGE;
    const bool exists = stat(path, &info) == 0;
    if (exists && is_output_file(&info)) {
        complain("%s: %s is the standard output, too", what, path);
        return EXIT_FAILED;
    }
    if (file_check_output(path, &error) != WISP_OK)
        return complain_of(&error);
    return exists && !force && S_ISREG(info.st_mode) ? check_kind(what, path, kind) : EXIT_GOOD;
}
