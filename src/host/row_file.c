/* SPDX-License-Identifier: Apache-2.0 */
#include "host/row_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/byte_order.h"
#include "base/checksum.h"
#include "base/sha256.h"
#include "host/fail_errno.h"
#include "host/old_files.h"
#include "host/own_file.h"
#include "host/read_at.h"

/* A file begins with a header: the mark, the bytes of a row, the number of sets, and the checksum
 * of these. From FIRST_SET on it has sets of WAYS rows each: an index of their keys, checksums and
 * times, and the rows. A key says which set its row is in. What was never written is a hole, so
 * that the file takes what its rows take. Numbers have their low byte first. */
enum { HEADER_BYTES = 32, FIRST_SET = 4096, WAYS = 8, INDEX_ENTRY = ROW_KEY_BYTES + 16 };

static const char mark[] = {'w', 'i', 's', 'p', 'r', 'o', 'w', '1'}, suffix[] = ".rows";

static uint64_t set_bytes(size_t row_bytes) {
    return WAYS * ((uint64_t)INDEX_ENTRY + row_bytes);
}

/* ---- opening -------------------------------------------------------------------------------- */

static void make_header(const struct row_file *file, unsigned char header[HEADER_BYTES]) {
    memcpy(header, mark, sizeof mark);
    store_u64(header + 8, file->row_bytes);
    store_u64(header + 16, file->sets);
    store_u64(header + 24, checksum(header, 24));
}

/* Opens the file at its path. Sets *fits to whether it is empty or as it should be. */
static wisp_status open_file(struct row_file *file, bool *fits, wisp_error *error) {
    unsigned char header[HEADER_BYTES], found[HEADER_BYTES];
    struct stat info;
    file->descriptor = own_file_open(file->path, O_RDWR | O_CREAT);
    if (file->descriptor < 0)
        return fail_errno(error, file->path, "open");
    flock(file->descriptor, LOCK_SH); /* not every file system can; then others may delete it */
    if (fstat(file->descriptor, &info) != 0)
        return fail_errno(error, file->path, "look at");
    make_header(file, header);
    if (info.st_size == 0 && pwrite(file->descriptor, header, sizeof header, 0) != sizeof header)
        return fail_errno(error, file->path, "write");
    *fits = info.st_nlink > 0 && read_at(file->descriptor, 0, found, sizeof found) == 0 &&
            memcmp(header, found, sizeof header) == 0;
    return WISP_OK;
}

static bool is_rows(const char *name) {
    const size_t length = strlen(name), end = sizeof suffix - 1;
    return length > end && strcmp(name + length - end, suffix) == 0;
}

wisp_status row_file_open(struct row_file *file, const char *folder,
                          const unsigned char digest[ROW_KEY_BYTES], size_t row_bytes,
                          uint64_t bytes, const char *option, wisp_error *error) {
    char path[PATH_MAX], name[2 * ROW_KEY_BYTES + 1];
    const size_t length = strlen(folder);
    *file = (struct row_file){.descriptor = -1, .row_bytes = row_bytes};
    if (length == 0 || length >= sizeof path)
        return fail(error, WISP_ERROR_ARGUMENT, folder, NULL,
                    "the path of the folder is %s: name another (%s)",
                    length ? "too long" : "empty", option);
    if (bytes < FIRST_SET + set_bytes(row_bytes))
        return fail(error, WISP_ERROR_ARGUMENT, folder, NULL,
                    "%llu bytes, and %d rows of %zu bytes take %llu", (unsigned long long)bytes,
                    WAYS, row_bytes, (unsigned long long)(FIRST_SET + set_bytes(row_bytes)));
    memcpy(path, folder, length + 1);
    TRY(own_folder_open(path, option, error));
    sha256_text(digest, name);
    file->sets = (bytes - FIRST_SET) / set_bytes(row_bytes);
    snprintf(file->path, sizeof file->path, "%s/%.32s%s", folder, name, suffix);
    bool fits = false;
    for (int attempt = 0; attempt < 8 && !fits; attempt++) {
        const wisp_status status = open_file(file, &fits, error);
        if (status == WISP_OK && fits)
            break;
        row_file_close(file);
        if (status != WISP_OK)
            return status;
        unlink(file->path); /* whoever has it open keeps it */
    }
    if (!fits)
        return fail(error, WISP_ERROR_IO, file->path, NULL,
                    "others replace the file again and again");
    old_files_delete(folder, bytes, is_rows);
    return WISP_OK;
}

void row_file_close(struct row_file *file) {
    if (file->descriptor >= 0)
        close(file->descriptor);
    file->descriptor = -1;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* An index of a set, as it is in the file. */
struct set_index {
    unsigned char entries[WAYS][INDEX_ENTRY]; /* key, checksum, microseconds since 1970 */
    uint64_t place;                           /* of the set in the file */
};

/* Reads the index of the set of a key. What the file does not have yet is zeros. */
static void read_index(const struct row_file *file, const unsigned char *key,
                       struct set_index *set) {
    memset(set->entries, 0, sizeof set->entries);
    set->place = FIRST_SET + load_u64(key) % file->sets * set_bytes(file->row_bytes);
    if (read_at(file->descriptor, set->place, set->entries, sizeof set->entries) != 0)
        memset(set->entries, 0, sizeof set->entries);
}

static uint64_t place_of_row(const struct row_file *file, const struct set_index *set, size_t way) {
    return set->place + sizeof set->entries + way * file->row_bytes;
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

static bool has_key(const struct set_index *set, size_t way, const unsigned char *key) {
    return memcmp(set->entries[way], key, ROW_KEY_BYTES) == 0;
}

static bool write_at(const struct row_file *file, uint64_t place, const void *bytes,
                     size_t length) {
    return pwrite(file->descriptor, bytes, length, (off_t)place) == (ssize_t)length;
}

/* Notes that a row was used. Once a second is enough to tell the oldest. */
static void touch(const struct row_file *file, const struct set_index *set, size_t way) {
    const uint64_t time = now();
    unsigned char bytes[8];
    if (time - load_u64(set->entries[way] + ROW_KEY_BYTES + 8) < 1000000)
        return;
    store_u64(bytes, time);
    (void)write_at(file, set->place + way * INDEX_ENTRY + ROW_KEY_BYTES + 8, bytes, sizeof bytes);
}

bool row_file_read(const struct row_file *file, const unsigned char key[ROW_KEY_BYTES],
                   unsigned char *entry) {
    struct set_index set;
    read_index(file, key, &set);
    memcpy(entry, key, ROW_KEY_BYTES);
    for (size_t way = 0; way < WAYS; way++) {
        if (!has_key(&set, way, key) ||
            read_at(file->descriptor, place_of_row(file, &set, way), entry + ROW_KEY_BYTES,
                    file->row_bytes) != 0 ||
            checksum(entry, ROW_KEY_BYTES + file->row_bytes) !=
                load_u64(set.entries[way] + ROW_KEY_BYTES))
            continue;
        touch(file, &set, way);
        return true;
    }
    return false;
}

/* Returns when a row was used. A time to come is that of a clock that has been set back since, and
 * counts as the oldest: else no other row would have its place until that time. */
static uint64_t time_of(const struct set_index *set, size_t way, uint64_t time) {
    const uint64_t used = load_u64(set->entries[way] + ROW_KEY_BYTES + 8);
    return used <= time ? used : 0;
}

/* Returns the way for a row: that of its key, an empty one, or that used longest ago. */
static size_t choose_way(const struct set_index *set, const unsigned char *key, uint64_t time) {
    size_t oldest = 0;
    for (size_t way = 0; way < WAYS; way++) {
        if (has_key(set, way, key))
            return way;
        if (time_of(set, way, time) < time_of(set, oldest, time))
            oldest = way;
    }
    return oldest;
}

bool row_file_write(const struct row_file *file, const unsigned char *entry) {
    struct set_index set;
    read_index(file, entry, &set);
    const uint64_t time = now();
    const size_t way = choose_way(&set, entry, time);
    unsigned char *index = set.entries[way];
    memcpy(index, entry, ROW_KEY_BYTES);
    store_u64(index + ROW_KEY_BYTES, checksum(entry, ROW_KEY_BYTES + file->row_bytes));
    store_u64(index + ROW_KEY_BYTES + 8, time);
    /* Between the two the old row has another's checksum, and counts as absent. */
    return write_at(file, place_of_row(file, &set, way), entry + ROW_KEY_BYTES, file->row_bytes) &&
           write_at(file, set.place + way * INDEX_ENTRY, index, INDEX_ENTRY);
}
