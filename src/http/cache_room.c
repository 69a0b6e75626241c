/* SPDX-License-Identifier: Apache-2.0
 * Keeps the cache of files from servers within its bound: opening a model deletes the least
 * recently used ones. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/list.h"
#include "host/file.h"
#include "host/input_file.h"
#include "host/own_file.h"
#include "http/cache.h"

/* The bound unless WISP_CACHE_BYTES says otherwise: four models of 7 billion weights in 4 bits
 * fit. */
static const uint64_t default_bytes = UINT64_C(16000000000);

enum {
    MOST_LOCK_TRIES = 100,
    CLOCK_STEP = 60 /* seconds by which clocks of file systems may differ */
};

/* All files of one URL. */
struct entry {
    char hash[CACHE_HASH_DIGITS + 1];
    uint64_t bytes;       /* on disk: holes take none */
    struct timespec used; /* when it was opened last */
    bool goes_first; /* larger than the bound of all, or the rest of an entry that was deleted */
};

struct entries {
    struct entry *all; /* [capacity] */
    uint32_t n, capacity;
};

static wisp_status read_bound(uint64_t *bytes, wisp_error *error) {
    const char *text = getenv("WISP_CACHE_BYTES");
    *bytes = default_bytes;
    if (!text || *text == '\0')
        return WISP_OK;
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    static const char units[] = "KMG";
    const char *unit = *end ? strchr(units, *end) : NULL;
    uint64_t factor = 1;
    for (const char *u = units; unit && u <= unit; u++)
        factor *= 1000;
    if (*text < '0' || *text > '9' || errno != 0 || end[unit ? 1 : 0] != '\0' ||
        __builtin_mul_overflow((uint64_t)number, factor, bytes))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "WISP_CACHE_BYTES",
                    "%s: expected a number of bytes, such as 500M or 16G", text);
    return WISP_OK;
}

static size_t folder_length(const struct cached_file *file) {
    return (size_t)(strrchr(file->stem, '/') + 1 - file->stem);
}

/* Writes the path of a file in the folder of `file`. */
static void path_of(const struct cached_file *file, const char *hash, const char *rest,
                    char path[2 * PATH_MAX]) {
    snprintf(path, 2 * PATH_MAX, "%.*s%s%s", (int)folder_length(file), file->stem, hash, rest);
}

/* Opens and locks the file that says who uses an entry. Returns -1 if others use it (LOCK_NB),
 * if there is none, if the folder cannot be written, and if the file system gives a file
 * another inode number each time; in these two cases nobody deletes. */
static int lock_use(const char *path, int kind) {
    for (int tries = 0; tries < MOST_LOCK_TRIES; tries++) {
        struct stat own, named;
        const int use = own_file_open(path, O_RDWR | O_CREAT);
        if (use < 0)
            return -1;
        int locked;
        while ((locked = flock(use, kind)) != 0 && errno == EINTR)
            continue;
        /* Whoever deleted the entry meanwhile deleted this file with it. */
        if (locked == 0 && fstat(use, &own) == 0 && stat(path, &named) == 0 &&
            own.st_dev == named.st_dev && own.st_ino == named.st_ino)
            return use;
        close(use);
        if (locked != 0)
            return -1;
    }
    return -1;
}

/* Sets the time by which the entry is ordered. The system's own is that of its last tick, which
 * several uses may share, but anyone who may write the file may set it. */
static void note_use(int use) {
    struct timespec now[2];
    clock_gettime(CLOCK_REALTIME, &now[0]);
    now[1] = now[0];
    if (futimens(use, now) != 0)
        futimens(use, NULL);
}

void cached_file_use(struct cached_file *file) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s.use", file->stem);
    file->use = lock_use(path, LOCK_SH);
    if (file->use >= 0)
        note_use(file->use);
}

/* Deletes an entry that nobody uses. When the process ends before it is done, the next one that
 * makes room deletes the rest, be it a .use without bytes. */
static bool delete_entry(const struct cached_file *file, const char *hash) {
    char path[2 * PATH_MAX], use_path[2 * PATH_MAX];
    path_of(file, hash, ".use", use_path);
    const int use = lock_use(use_path, LOCK_EX | LOCK_NB);
    if (use < 0)
        return false;
    path_of(file, "", "", path);
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        const char *name = entry->d_name;
        if (strncmp(name, hash, CACHE_HASH_DIGITS) != 0 ||
            strcmp(name + CACHE_HASH_DIGITS, ".use") == 0)
            continue;
        path_of(file, name, "", path);
        unlink(path);
    }
    if (folder)
        closedir(folder);
    unlink(use_path);
    close(use);
    return folder != NULL;
}

/* Returns the entry whose hash begins `name`, and makes it if there is none. Returns NULL if
 * there is no memory. */
static struct entry *find_entry(struct entries *entries, const char *name) {
    for (size_t i = 0; i < entries->n; i++)
        if (strncmp(entries->all[i].hash, name, CACHE_HASH_DIGITS) == 0)
            return &entries->all[i];
    if (list_grow((void *)&entries->all, entries->n, 1, &entries->capacity, sizeof *entries->all,
                  NULL) != WISP_OK)
        return NULL;
    struct entry *entry = &entries->all[entries->n++];
    *entry = (struct entry){0};
    memcpy(entry->hash, name, CACHE_HASH_DIGITS);
    return entry;
}

static bool is_entry(const char *name) {
    return strspn(name, "0123456789abcdef") == CACHE_HASH_DIGITS &&
           strchr(".-", name[CACHE_HASH_DIGITS]) && name[CACHE_HASH_DIGITS] != '\0';
}

static bool is_earlier(const struct timespec *a, const struct timespec *b) {
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* Lists the entries of the cache, except those that cannot be read. Times of the future are from
 * before a clock was set back, and so are earlier than all others: else these entries would stay
 * and those in use go. */
static void list_entries(const struct cached_file *file, struct entries *entries) {
    char path[2 * PATH_MAX];
    const struct timespec latest = {.tv_sec = time(NULL) + CLOCK_STEP};
    path_of(file, "", "", path);
    DIR *folder = opendir(path);
    for (const struct dirent *item; folder && (item = readdir(folder));) {
        struct stat info;
        path_of(file, item->d_name, "", path);
        if (!is_entry(item->d_name) || lstat(path, &info) != 0 || !S_ISREG(info.st_mode))
            continue;
        struct entry *entry = find_entry(entries, item->d_name);
        if (!entry)
            break;
        entry->bytes += (uint64_t)info.st_blocks * 512;
        if (is_earlier(&entry->used, &info.st_mtim) && is_earlier(&info.st_mtim, &latest))
            entry->used = info.st_mtim;
    }
    if (folder)
        closedir(folder);
}

/* Orders entries as they go: after those that go first, those that were used longest ago. */
static int compare_uses(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    if (x->goes_first != y->goes_first)
        return x->goes_first ? -1 : 1;
    return is_earlier(&x->used, &y->used) ? -1 : is_earlier(&y->used, &x->used);
}

wisp_status cached_file_make_room(const struct cached_file *file, wisp_error *error) {
    struct entries entries = {0};
    uint64_t bound, total = 0; /* of entries that do not go first: only these make room */
    TRY(read_bound(&bound, error));
    list_entries(file, &entries);
    for (size_t i = 0; i < entries.n; i++) {
        struct entry *entry = &entries.all[i];
        entry->goes_first = entry->bytes > bound || entry->bytes == 0;
        total += entry->goes_first ? 0 : entry->bytes;
    }
    if (entries.n > 0)
        qsort(entries.all, entries.n, sizeof *entries.all, compare_uses);
    for (size_t i = 0; i < entries.n && (entries.all[i].goes_first || total > bound); i++) {
        const struct entry *entry = &entries.all[i];
        const bool own = strcmp(entry->hash, file->stem + folder_length(file)) == 0;
        if (!own && delete_entry(file, entry->hash) && !entry->goes_first)
            total -= entry->bytes;
    }
    free(entries.all);
    return WISP_OK;
}

/* ---- the list ------------------------------------------------------------------------------- */

/* Opens the cache's folder as that of a file without a name. */
static wisp_status open_folder(struct cached_file *place, wisp_error *error) {
    char folder[PATH_MAX];
    TRY(cache_folder(folder, sizeof folder - 64, error));
    return file_join(folder, "", place->stem, sizeof place->stem, error);
}

/* Reads the URL of an entry, which the caller frees. Returns NULL if it has none. */
static char *read_url(const struct cached_file *place, const char *hash) {
    char path[2 * PATH_MAX];
    struct file_bytes record;
    path_of(place, hash, ".url", path);
    if (file_read(path, &record, NULL) != WISP_OK)
        return NULL;
    record.data[record.size] = '\0'; /* file_read leaves room for it */
    record.data[strcspn(record.data, "\n")] = '\0';
    return record.data;
}

wisp_status cache_visit(void (*visit)(void *context, const char *url, uint64_t bytes, int64_t used),
                        void *context, wisp_error *error) {
    struct cached_file place = {.use = -1};
    struct entries entries = {0};
    TRY(open_folder(&place, error));
    list_entries(&place, &entries);
    for (size_t i = 0; i < entries.n; i++) {
        char *url = read_url(&place, entries.all[i].hash);
        if (url)
            visit(context, url, entries.all[i].bytes, (int64_t)entries.all[i].used.tv_sec);
        free(url);
    }
    free(entries.all);
    return WISP_OK;
}

wisp_status cache_remove(const char *url, uint64_t *freed, wisp_error *error) {
    struct cached_file place = {.use = -1};
    struct entries entries = {0};
    wisp_status status = WISP_OK;
    const size_t length = strcspn(url, "?#");
    TRY(open_folder(&place, error));
    list_entries(&place, &entries);
    for (size_t i = 0; i < entries.n && status == WISP_OK; i++) {
        char *other = read_url(&place, entries.all[i].hash);
        const bool same =
            other && strcspn(other, "?#") == length && strncmp(other, url, length) == 0;
        free(other);
        if (same && delete_entry(&place, entries.all[i].hash))
            *freed += entries.all[i].bytes;
        else if (same)
            status = fail(error, WISP_ERROR_IO, NULL, NULL, "%.*s is in use", (int)length, url);
    }
    free(entries.all);
    return status;
}

/* ---- URLs that are signed again -------------------------------------------------------- */

/* Returns whether a parameter of a query is a part of a signature, which servers make again each
 * time for one file. These are the parameters of Amazon's, Google's, Microsoft's and CloudFront's
 * signed URLs. */
static bool is_of_signature(const char *parameter, size_t length) {
    static const char *const prefixes[] = {"X-Amz-", "X-Goog-"};
    static const char *const names[] = {"AWSAccessKeyId",
                                        "GoogleAccessId",
                                        "Expires",
                                        "Signature",
                                        "Key-Pair-Id",
                                        "Policy",
                                        "se",
                                        "sig",
                                        "ske",
                                        "skoid",
                                        "sks",
                                        "skt",
                                        "sktid",
                                        "skv",
                                        "sp",
                                        "spr",
                                        "sr",
                                        "st",
                                        "sv"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(parameter, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    const size_t name = smaller(strcspn(parameter, "="), length);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == name && strncmp(parameter, names[i], name) == 0)
            return true;
    return false;
}

/* Moves to the next parameter of a query that is not part of a signature. Returns its length; 0:
 * there is none. */
static size_t next_parameter(const char **query) {
    for (;;) {
        *query += strspn(*query, "?&");
        const size_t length = strcspn(*query, "&#\n");
        if (length == 0 || !is_of_signature(*query, length))
            return length;
        *query += length;
    }
}

static bool are_same_but_signature(const char *a, const char *b) {
    const size_t path = strcspn(a, "?#\n");
    if (strcspn(b, "?#\n") != path || strncmp(a, b, path) != 0)
        return false;
    for (a += path, b += path;;) {
        const size_t length = next_parameter(&a);
        if (next_parameter(&b) != length || strncmp(a, b, length) != 0)
            return false;
        if (length == 0)
            return true;
        a += length;
        b += length;
    }
}

/* Returns whether a record is of a URL that differs from that of `file` only in its signature, and
 * whose file was in this state. A state alone says nothing of two addresses. */
static bool is_same_file(const struct cached_file *file, const char *record,
                         const struct file_state *state) {
    char rest[sizeof state->validator + 32];
    const char *line = strchr(record, '\n');
    snprintf(rest, sizeof rest, "\n%s\n%llu\n", state->validator, (unsigned long long)state->size);
    return line && are_same_but_signature(record, file->url) && strcmp(line, rest) == 0;
}

void cached_file_take_over(const struct cached_file *file, const struct file_state *state) {
    static const char *const kinds[] = {"part", "have", "gguf"};
    char path[2 * PATH_MAX], to[2 * PATH_MAX];
    struct entries entries = {0};
    if (state->validator[0] == '\0')
        return;
    list_entries(file, &entries);
    for (size_t i = 0; i < entries.n; i++) {
        const char *hash = entries.all[i].hash;
        struct file_bytes record;
        path_of(file, hash, ".url", path);
        if (strcmp(hash, file->stem + folder_length(file)) == 0 ||
            file_read(path, &record, NULL) != WISP_OK)
            continue;
        record.data[record.size] = '\0'; /* file_read leaves room for it */
        const bool same = is_same_file(file, record.data, state);
        free(record.data);
        path_of(file, hash, ".use", path);
        const int use = same ? lock_use(path, LOCK_EX | LOCK_NB) : -1;
        if (use < 0)
            continue;
        for (size_t k = 0; k < 3; k++) {
            char name[64];
            struct stat info;
            cached_file_name(state, kinds[k], name, sizeof name);
            path_of(file, hash, name, path);
            path_of(file, file->stem + folder_length(file), name, to);
            if (stat(to, &info) != 0)
                (void)!rename(path, to); /* what cannot be taken over is fetched again */
        }
        close(use);
        delete_entry(file, hash);
    }
    free(entries.all);
}
