/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/whole_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/cli.h"
#include "host/file.h"

enum { MAX_BYTES = 64 << 20 };

/* Makes plain text of the bytes of a text file: removes a byte order mark, the carriage return
 * before each newline, and a newline at the end. Returns the length. */
static size_t plain_text(char *text, size_t length) {
    size_t n = 0;
    for (size_t i = utf8_mark(text, length); i < length; i++)
        if (text[i] != '\r' || i + 1 == length || text[i + 1] != '\n')
            text[n++] = text[i];
    return n > 0 && text[n - 1] == '\n' ? n - 1 : n;
}

int read_whole_file(const char *path, char **text, size_t *length) {
    const bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    size_t capacity = 0;
    *length = 0;
    if (!file) {
        complain("%s: cannot open: %s", path, strerror(errno));
        return EXIT_FAILED;
    }
    if (standard)
        say_that_input_is_awaited();
    int code = EXIT_GOOD;
    do {
        if (*length == capacity) {
            const bool fits = capacity < MAX_BYTES;
            char *larger = fits ? realloc(*text, 2 * capacity + 4096) : NULL;
            if (!larger) {
                if (fits)
                    complain("out of memory");
                else
                    complain("%s: longer than %d bytes", path, MAX_BYTES);
                code = EXIT_FAILED;
                break;
            }
            *text = larger;
            capacity = 2 * capacity + 4096;
        }
        *length += fread(*text + *length, 1, capacity - *length, file);
    } while (!feof(file) && !ferror(file));
    if (code == EXIT_GOOD)
        *length = plain_text(*text, *length);
    if (code == EXIT_GOOD && ferror(file)) {
        complain("%s: cannot read: %s", path, strerror(errno));
        code = EXIT_FAILED;
    }
    if (!standard)
        fclose(file);
    return code;
}

int write_whole_file(const char *path, void (*print)(FILE *stream, const void *context),
                     const void *context) {
    struct file_writer writer;
    wisp_error error;
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    if (stream)
        print(stream, context);
    if (!stream || !close_memstream(stream, &text)) {
        complain("out of memory");
        free(text);
        return EXIT_FAILED;
    }
    wisp_status status = file_writer_open(&writer, path, &error);
    if (status == WISP_OK) {
        status = file_write(&writer, text, length, &error);
        if (status == WISP_OK)
            status = file_writer_commit(&writer, &error);
        file_writer_discard(&writer);
    }
    free(text);
    return status == WISP_OK ? EXIT_GOOD : complain_of(&error);
}
