/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bulk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/byte_order.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/whole_file.h"
#include "host/file.h"

/* ---- the progress file ---------------------------------------------------------------------- */

/* The settings, as the progress file names them and as messages do. */
static const struct {
    const char *key, *what;
    size_t place; /* in struct bulk_settings */
} settings_kept[] = {
    {"format", "format", offsetof(struct bulk_settings, format)},
    {"dimensions", "number of dimensions", offsetof(struct bulk_settings, dimensions)},
    {"shard", "shard", offsetof(struct bulk_settings, shard)},
    {"model", "model, prompt or kernel set", offsetof(struct bulk_settings, model)},
};

enum { SETTINGS = sizeof settings_kept / sizeof *settings_kept };

static const char *setting(const struct bulk_settings *settings, size_t i) {
    return (const char *)settings + settings_kept[i].place;
}

/* Writes the digest of the texts so far. */
static void digest_of_texts(const struct bulk *bulk, char text[65]) {
    unsigned char digest[32];
    struct sha256 copy = bulk->texts;
    sha256_finish(&copy, digest);
    sha256_text(digest, text);
}

static void print_progress(FILE *stream, const void *context) {
    const struct bulk *bulk = context;
    char texts[65];
    digest_of_texts(bulk, texts);
    fputc('{', stream);
    for (size_t i = 0; i < SETTINGS; i++)
        fprintf(stream, "\"%s\":\"%s\",", settings_kept[i].key, setting(&bulk->settings, i));
    fprintf(stream, "\"rows\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"texts\":\"%s\"}\n", bulk->rows,
            bulk->bytes, texts);
}

/* Compares the settings of the file with those of this run. */
static int check_settings(const struct bulk *bulk, const struct json *root) {
    for (size_t i = 0; i < SETTINGS; i++) {
        const struct json *kept = json_get(root, settings_kept[i].key);
        if (json_equals(kept, setting(&bulk->settings, i)))
            continue;
        complain("--resume: %s was begun with another %s: %s, not %s", bulk->path,
                 settings_kept[i].what, json_is(kept, JSON_STRING) ? kept->text : "none",
                 setting(&bulk->settings, i));
        return EXIT_USAGE;
    }
    return EXIT_GOOD;
}

static int take_progress(struct bulk *bulk, struct arena *arena, const char *text, size_t length) {
    const struct json *root;
    wisp_error error;
    if (json_parse(arena, text, length, bulk->progress, &root, &error) != WISP_OK)
        return complain_of(&error);
    const struct json *texts = json_get(root, "texts");
    if (!json_to_u64(json_get(root, "rows"), &bulk->resumed) ||
        !json_to_u64(json_get(root, "bytes"), &bulk->bytes) || !json_is(texts, JSON_STRING) ||
        texts->text_length != sizeof bulk->expected - 1) {
        complain("%s: not the progress of wisp embed", bulk->progress);
        return EXIT_FAILED;
    }
    memcpy(bulk->expected, texts->text, sizeof bulk->expected);
    return check_settings(bulk, root);
}

static int read_progress(struct bulk *bulk) {
    struct arena arena = {0};
    char *text = NULL;
    size_t length;
    int code = read_whole_file(bulk->progress, &text, &length);
    if (code == EXIT_GOOD)
        code = take_progress(bulk, &arena, text, length);
    arena_release(&arena);
    free(text);
    return code;
}

static int write_progress(const struct bulk *bulk) {
    return write_whole_file(bulk->progress, print_progress, bulk);
}

/* ---- opening -------------------------------------------------------------------------------- */

static int complain_of_file(const struct bulk *bulk, const char *what) {
    complain("%s: cannot %s: %s", bulk->path, what, strerror(errno));
    return EXIT_FAILED;
}

/* Makes the file the standard output. */
static int redirect(const struct bulk *bulk, struct stat *info) {
    const int descriptor = open(bulk->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return complain_of_file(bulk, "open");
    const bool good = fstat(descriptor, info) == 0 && dup2(descriptor, STDOUT_FILENO) >= 0;
    close(descriptor);
    if (!good)
        return complain_of_file(bulk, "use as the output");
    if (!S_ISREG(info->st_mode)) {
        complain("--output: %s is not a regular file", bulk->path);
        return EXIT_USAGE;
    }
    return output_lock(false);
}

/* Cuts the file to the bytes that are complete. */
static int cut(const struct bulk *bulk) {
    if (ftruncate(STDOUT_FILENO, (off_t)bulk->bytes) != 0 ||
        lseek(STDOUT_FILENO, 0, SEEK_END) != (off_t)bulk->bytes)
        return complain_of_file(bulk, "cut it to the rows that are complete");
    return EXIT_GOOD;
}

/* Begins a file. The progress comes first, so that a run that is killed before its first row can be
 * continued. */
static int begin(const struct bulk *bulk) {
    const int code = write_progress(bulk);
    return code == EXIT_GOOD ? cut(bulk) : code;
}

static int resume(struct bulk *bulk, const struct stat *info) {
    const int code = read_progress(bulk);
    if (code != EXIT_GOOD)
        return code;
    if ((uint64_t)info->st_size < bulk->bytes) {
        complain("--resume: %s has %lld bytes, fewer than the %" PRIu64 " that %s names",
                 bulk->path, (long long)info->st_size, bulk->bytes, bulk->progress);
        return EXIT_FAILED;
    }
    return cut(bulk);
}

int bulk_open(struct bulk *bulk, const struct bulk_settings *settings) {
    struct stat info;
    bulk->settings = *settings;
    sha256_start(&bulk->texts);
    if (!check_path("--output", bulk->path))
        return EXIT_USAGE;
    const int length = snprintf(bulk->progress, sizeof bulk->progress, "%s.progress", bulk->path);
    if ((size_t)length >= sizeof bulk->progress) {
        complain("--output: the path is too long");
        return EXIT_USAGE;
    }
    const int code = redirect(bulk, &info);
    if (code != EXIT_GOOD)
        return code;
    const bool has_progress = file_exists(bulk->progress);
    if (bulk->resume && has_progress)
        return resume(bulk, &info);
    if (info.st_size == 0 || bulk->force)
        return begin(bulk);
    if (bulk->resume)
        complain("--resume: %s exists without %s, so no run can continue it", bulk->path,
                 bulk->progress);
    else
        complain("--output: %s exists: --resume continues it, --force replaces it", bulk->path);
    return EXIT_USAGE;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void add_part(struct sha256 *hash, const char *bytes, size_t length) {
    unsigned char number[8];
    store_u64(number, length);
    sha256_add(hash, number, sizeof number);
    sha256_add(hash, bytes, length);
}

/* Adds what decides about a record's row in the file. Whether an image is bad shows only when it is
 * read. */
static void add_record(struct bulk *bulk, const struct record *record) {
    const struct json *object = record->object;
    const char *fault = record->fault && !record->image ? record->fault : "";
    add_part(&bulk->texts, record->text.bytes, record->text.length);
    add_part(&bulk->texts, object ? object->raw : "", object ? object->raw_length : 0);
    add_part(&bulk->texts, fault, strlen(fault));
    bulk->rows++;
}

int bulk_skip(struct bulk *bulk, struct batch *batch) {
    size_t skipped = 0;
    while (skipped < batch->n && bulk->rows < bulk->resumed) {
        char texts[65];
        add_record(bulk, &batch->records[skipped++]);
        if (bulk->rows < bulk->resumed)
            continue;
        digest_of_texts(bulk, texts);
        if (strcmp(texts, bulk->expected) != 0) {
            complain("--resume: the first %" PRIu64 " texts are not those that %s has rows of",
                     bulk->resumed, bulk->path);
            return EXIT_INPUT;
        }
    }
    batch->n -= skipped;
    memmove(batch->records, batch->records + skipped, batch->n * sizeof *batch->records);
    memmove(batch->texts, batch->texts + skipped, batch->n * sizeof *batch->texts);
    return EXIT_GOOD;
}

int bulk_check_end(const struct bulk *bulk) {
    if (bulk->rows >= bulk->resumed)
        return EXIT_GOOD;
    complain("--resume: the input has %" PRIu64 " texts, fewer than the %" PRIu64
             " that %s has rows of",
             bulk->rows, bulk->resumed, bulk->path);
    return EXIT_INPUT;
}

int bulk_wrote(struct bulk *bulk, const struct batch *batch) {
    const off_t end = lseek(STDOUT_FILENO, 0, SEEK_CUR);
    /* Not every file system can sync. */
    if (end < 0 || (fdatasync(STDOUT_FILENO) != 0 && errno != EINVAL && errno != ENOSYS))
        return complain_of_file(bulk, "write it to disk");
    for (size_t i = 0; i < batch->n; i++)
        add_record(bulk, &batch->records[i]);
    bulk->bytes = (uint64_t)end;
    return write_progress(bulk);
}
