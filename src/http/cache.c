/* SPDX-License-Identifier: Apache-2.0 */
#include "http/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "base/checksum.h"
#include "host/fail_errno.h"
#include "host/file.h"
#include "host/input_file.h"
#include "host/own_file.h"
#include "host/read_at.h"

enum {
    ENTRY_BYTES = 8,      /* of the table, for a block */
    ENTRIES_AT_ONCE = 512 /* are read from it */
};

/* ---- names ---------------------------------------------------------------------------------- */

static void set_paths(struct cached_file *file) {
    static const char *const kinds[] = {"gguf", "part", "have"};
    char *const paths[] = {file->path, file->part, file->checks};
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        cached_file_name(&file->state, kinds[i], name, sizeof name);
        snprintf(paths[i], sizeof file->path, "%s%s", file->stem, name);
    }
}

static void record_path(const struct cached_file *file, char *path, size_t capacity) {
    snprintf(path, capacity, "%s.url", file->stem);
}

static bool is_link(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

/* Reads the state that was remembered. A record that cannot be read counts as none. */
static void read_record(struct cached_file *file) {
    char path[PATH_MAX + 64];
    struct file_bytes record;
    record_path(file, path, sizeof path);
    if (is_link(path) || file_read(path, &record, NULL) != WISP_OK)
        return;
    record.data[record.size] = '\0'; /* file_read leaves room for it */
    const size_t length = strlen(file->url);
    if (strncmp(record.data, file->url, length) == 0 && record.data[length] == '\n') {
        const char *validator = record.data + length + 1;
        char *end = strchr(validator, '\n');
        char *number_end = NULL;
        const unsigned long long size = end ? strtoull(end + 1, &number_end, 10) : 0;
        if (end && (size_t)(end - validator) < sizeof file->state.validator &&
            *number_end == '\n') {
            memcpy(file->state.validator, validator, (size_t)(end - validator));
            file->state.size = size;
        }
    }
    free(record.data);
}

static wisp_status write_record(const struct cached_file *file, wisp_error *error) {
    char path[PATH_MAX + 64], number[32];
    struct file_writer writer;
    record_path(file, path, sizeof path);
    snprintf(number, sizeof number, "\n%llu\n", (unsigned long long)file->state.size);
    const char *const parts[] = {file->url, "\n", file->state.validator, number};
    if (is_link(path)) /* the writer would follow it */
        unlink(path);
    TRY(file_writer_open(&writer, path, error));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const wisp_status status = file_write(&writer, parts[i], strlen(parts[i]), error);
        if (status != WISP_OK) {
            file_writer_discard(&writer);
            return status;
        }
    }
    return file_writer_commit(&writer, error);
}

/* ---- opening -------------------------------------------------------------------------------- */

wisp_status cached_file_open(struct cached_file *file, const char *url, const char *name,
                             wisp_error *error) {
    char folder[PATH_MAX], hex[CACHE_HASH_DIGITS + 1];
    *file = (struct cached_file){
        .url = url, .name = name, .lock = -1, .data = -1, .table = -1, .use = -1};
    TRY(cache_folder(folder, sizeof folder - 64, error));
    TRY(own_folder_open(folder, "WISP_CACHE", error));
    cache_hash(url, CACHE_HASH_DIGITS, hex);
    TRY(file_join(folder, hex, file->stem, sizeof file->stem, error));
    cached_file_use(file);
    read_record(file);
    set_paths(file);
    return WISP_OK;
}

static void close_blocks(struct cached_file *file) {
    if (file->data >= 0)
        close(file->data); /* which also releases its lock */
    if (file->table >= 0)
        close(file->table);
    free(file->checked);
    file->data = file->table = -1;
    file->checked = NULL;
    file->whole = false;
}

void cached_file_close(struct cached_file *file) {
    close_blocks(file);
    if (file->lock >= 0)
        close(file->lock);
    if (file->use >= 0)
        close(file->use);
    file->lock = file->use = -1;
}

void cached_file_keep_in_use(struct cached_file *file) {
    file->use = -1; /* its descriptor stays open */
}

bool cached_file_is_whole(const struct cached_file *file) {
    struct stat info;
    return file->state.size > 0 && lstat(file->path, &info) == 0 && S_ISREG(info.st_mode) &&
           (uint64_t)info.st_size == file->state.size;
}

static bool is_same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

wisp_status cached_file_lock(struct cached_file *file, bool (*cancelled)(void), wisp_error *error) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s.lock", file->stem);
    file->lock = own_file_open(path, O_RDWR | O_CREAT);
    if (file->lock < 0)
        return fail_errno(error, path, "open");
    struct stat lock, use;
    if (file->use >= 0 && fstat(file->lock, &lock) == 0 && fstat(file->use, &use) == 0 &&
        is_same_file(&lock, &use)) /* it would wait for itself */
        return fail(error, WISP_ERROR_IO, path, NULL, "is the file %s.use, too: delete both",
                    file->stem);
    while (flock(file->lock, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return fail_errno(error, path, "lock");
        if (cancelled())
            return fail(error, WISP_ERROR_CANCELLED, file->name, NULL, "cancelled");
        const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
        nanosleep(&pause, NULL);
    }
    /* Another process may have finished the file meanwhile. */
    read_record(file);
    set_paths(file);
    return WISP_OK;
}

/* Changes the size of a file that has another; one that has this size keeps its times, by which
 * another process may see that it did not change (cached_file_hold). */
static wisp_status set_size(int descriptor, const char *path, uint64_t size, wisp_error *error) {
    struct stat info;
    if (fstat(descriptor, &info) == 0 && (uint64_t)info.st_size == size)
        return WISP_OK;
    return ftruncate(descriptor, (off_t)size) == 0 ? WISP_OK
                                                   : fail_errno(error, path, "set its size");
}

/* Deletes a file of blocks when nobody verifies and publishes it. */
static void delete_blocks(const char *part) {
    struct stat own, named;
    const int data = own_file_open(part, O_RDWR);
    if (data < 0)
        return;
    while (flock(data, LOCK_EX) != 0 && errno == EINTR)
        continue;
    if (fstat(data, &own) == 0 && stat(part, &named) == 0 && is_same_file(&own, &named))
        unlink(part);
    close(data);
}

wisp_status cached_file_enter(struct cached_file *file, const struct file_state *state, bool anew,
                              wisp_error *error) {
    close_blocks(file);
    file->state = *state;
    set_paths(file);
    if (anew && state->validator[0] == '\0') {
        unlink(file->path);
        unlink(file->checks);
        delete_blocks(file->part);
    }
    size_t bits;
    const uint64_t blocks = state->size / CACHE_BLOCK_BYTES + 1;
    if (state->size > INT64_MAX - CACHE_BLOCK_BYTES ||
        (uint64_t)(off_t)state->size != state->size || /* off_t may have 32 bits */
        !checked_size(blocks / 8 + 1, &bits))
        return fail(error, WISP_ERROR_UNSUPPORTED, file->name, NULL, "the file is too large");
    file->checked = calloc(1, bits);
    if (!file->checked)
        return fail_memory(error, bits);
    if (cached_file_is_whole(file)) {
        file->data = own_file_open(file->path, O_RDONLY);
        file->whole = file->data >= 0;
        if (!file->whole && errno != ENOENT) /* else another process has just deleted it */
            return fail_errno(error, file->path, "open");
    }
    if (file->whole) {
        delete_blocks(file->part); /* of a process that came while the file was published */
        unlink(file->checks);
        return WISP_OK;
    }
    /* If another process deletes the two between these lines, blocks and checksums do not match,
     * and the blocks count as absent. */
    file->table = own_file_open(file->checks, O_RDWR | O_CREAT);
    if (file->table < 0)
        return fail_errno(error, file->checks, "open");
    file->data = own_file_open(file->part, O_RDWR | O_CREAT);
    if (file->data < 0)
        return fail_errno(error, file->part, "open");
    TRY(set_size(file->table, file->checks, blocks * ENTRY_BYTES, error));
    return set_size(file->data, file->part, state->size, error);
}

wisp_status cached_file_adopt(struct cached_file *file, wisp_error *error) {
    char folder[PATH_MAX], path[2 * PATH_MAX];
    const char *hash = strrchr(file->stem, '/') + 1, *own = strrchr(file->path, '/') + 1;
    const size_t hash_length = strlen(hash), own_length = strlen(own) - strlen("gguf");
    TRY(write_record(file, error));
    snprintf(folder, sizeof folder, "%.*s", (int)(hash - file->stem), file->stem);
    DIR *entries = opendir(folder);
    if (!entries)
        return fail_errno(error, folder, "read the folder of the cache");
    for (const struct dirent *entry; (entry = readdir(entries));) {
        const char *name = entry->d_name;
        if (strncmp(name, hash, hash_length) != 0 || name[hash_length] != '-' ||
            strncmp(name, own, own_length) == 0)
            continue;
        snprintf(path, sizeof path, "%s%s", folder, name);
        const size_t length = strlen(path);
        if (length > 5 && strcmp(path + length - 5, ".part") == 0)
            delete_blocks(path);
        else
            unlink(path);
    }
    closedir(entries);
    return cached_file_make_room(file, error);
}

/* ---- blocks --------------------------------------------------------------------------------- */

static size_t block_bytes(const struct cached_file *file, uint64_t block) {
    const uint64_t left = file->state.size - block * CACHE_BLOCK_BYTES;
    return left < CACHE_BLOCK_BYTES ? (size_t)left : CACHE_BLOCK_BYTES;
}

/* Returns the entry of a block in the table, which is never 0. */
static uint64_t entry_of(const void *bytes, size_t length) {
    const uint64_t sum = checksum(bytes, length);
    return sum ? sum : 1;
}

static bool write_all(int descriptor, uint64_t offset, const void *bytes, size_t length) {
    const unsigned char *from = bytes;
    while (length > 0) {
        const ssize_t n = pwrite(descriptor, from, length, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        from += n;
        offset += (uint64_t)n;
        length -= (size_t)n;
    }
    return true;
}

wisp_status cached_file_absent(struct cached_file *file, uint64_t start, uint64_t end,
                               wisp_range *absent, wisp_error *error) {
    unsigned char entries[ENTRIES_AT_ONCE * ENTRY_BYTES], block[CACHE_BLOCK_BYTES];
    *absent = (wisp_range){0};
    end = end < file->state.size ? end : file->state.size;
    if (file->whole || start >= end)
        return WISP_OK;
    const uint64_t last = (end - 1) / CACHE_BLOCK_BYTES + 1;
    for (uint64_t i = start / CACHE_BLOCK_BYTES; i < last;) {
        const uint64_t left = last - i;
        const size_t n = left < ENTRIES_AT_ONCE ? (size_t)left : ENTRIES_AT_ONCE;
        if (read_at(file->table, i * ENTRY_BYTES, entries, n * ENTRY_BYTES) != 0)
            return fail_errno(error, file->checks, "read");
        for (size_t j = 0; j < n; j++, i++) {
            const uint64_t entry = load_u64(entries + j * ENTRY_BYTES);
            const unsigned char bit = (unsigned char)(1 << i % 8);
            bool present = entry != 0 && (file->checked[i / 8] & bit) != 0;
            if (entry != 0 && !present) {
                const size_t length = block_bytes(file, i);
                present = read_at(file->data, i * CACHE_BLOCK_BYTES, block, length) == 0 &&
                          entry_of(block, length) == entry;
                if (present)
                    file->checked[i / 8] |= bit;
            }
            if (!present && absent->length == 0)
                absent->offset = i * CACHE_BLOCK_BYTES;
            if (!present)
                absent->length += block_bytes(file, i);
            else if (absent->length > 0)
                return WISP_OK;
        }
    }
    return WISP_OK;
}

/* Locks the blocks, as all processes do that write blocks (LOCK_SH) or change the file's name. */
static wisp_status lock_blocks(const struct cached_file *file, int kind, wisp_error *error) {
    while (flock(file->data, kind) != 0)
        if (errno != EINTR)
            return fail_errno(error, file->part, "lock");
    return WISP_OK;
}

/* Returns whether the file of blocks that is open is the one at file->part. */
static bool has_its_name(const struct cached_file *file) {
    struct stat own, named;
    return fstat(file->data, &own) == 0 && stat(file->part, &named) == 0 &&
           is_same_file(&own, &named);
}

wisp_status cached_file_write(struct cached_file *file, uint64_t offset, const void *bytes,
                              size_t length, wisp_error *error) {
    unsigned char entries[ENTRIES_AT_ONCE * ENTRY_BYTES];
    const unsigned char *from = bytes;
    if (file->whole)
        return WISP_OK;
    struct stat own, whole;
    TRY(lock_blocks(file, LOCK_SH, error));
    /* A file that another process has published meanwhile is whole, and must keep its times. One
     * that was deleted has no name any more, and is written to for this process only. */
    const bool published =
        fstat(file->data, &own) == 0 && stat(file->path, &whole) == 0 && is_same_file(&own, &whole);
    bool good = true;
    while (length > 0 && good && !published) {
        const uint64_t first = offset / CACHE_BLOCK_BYTES;
        size_t here = 0, n = 0;
        for (; n < ENTRIES_AT_ONCE && here < length; n++) {
            const size_t block = block_bytes(file, first + n);
            store_u64(entries + n * ENTRY_BYTES, entry_of(from + here, block));
            here += block;
        }
        /* The checksum follows the bytes: a block without one counts as absent. */
        good = write_all(file->data, offset, from, here) &&
               write_all(file->table, first * ENTRY_BYTES, entries, n * ENTRY_BYTES);
        for (size_t i = 0; i < n && good; i++)
            file->checked[(first + i) / 8] |= (unsigned char)(1 << (first + i) % 8);
        from += here;
        offset += here;
        length -= here;
    }
    const wisp_status status = good ? WISP_OK : fail_errno(error, file->part, "write");
    flock(file->data, LOCK_UN);
    return status;
}

void cached_file_forget(struct cached_file *file, uint64_t end) {
    static const unsigned char absent[ENTRY_BYTES];
    if (file->whole || lock_blocks(file, LOCK_SH, NULL) != WISP_OK)
        return;
    for (uint64_t i = 0; i * CACHE_BLOCK_BYTES < end; i++) {
        file->checked[i / 8] &= (unsigned char)~(1 << i % 8);
        (void)write_all(file->table, i * ENTRY_BYTES, absent, ENTRY_BYTES);
    }
    flock(file->data, LOCK_UN);
}

bool cached_file_read(const struct cached_file *file, uint64_t offset, void *bytes, size_t length) {
    return read_at(file->data, offset, bytes, length) == 0;
}

wisp_status cached_file_hold(struct cached_file *file, wisp_error *error) {
    TRY(lock_blocks(file, LOCK_EX, error));
    return has_its_name(file) ? WISP_OK
                              : fail(error, WISP_ERROR_IO, file->part, NULL,
                                     "another process deleted the file while it was fetched");
}

wisp_status cached_file_publish(struct cached_file *file, wisp_error *error) {
    if (fsync(file->data) != 0)
        return fail_errno(error, file->part, "sync");
    if (rename(file->part, file->path) != 0)
        return fail_errno(error, file->part, "rename");
    unlink(file->checks);
    file_sync_folder_of(file->path);
    close_blocks(file);
    return WISP_OK;
}

void cached_file_drop(struct cached_file *file) {
    if (!file->whole && file->data >= 0 && cached_file_hold(file, NULL) == WISP_OK) {
        unlink(file->part);
        unlink(file->checks);
    }
    close_blocks(file);
}
