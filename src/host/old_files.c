/* SPDX-License-Identifier: Apache-2.0 */
#include "host/old_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/list.h"
#include "host/own_file.h"

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

enum { PATH_BYTES = PATH_MAX + NAME_MAX + 2 };

struct entry {
    char *name;
    uint64_t bytes;
    struct timespec used;
};

struct entries {
    struct entry *all; /* [capacity] */
    uint32_t n, capacity;
    uint64_t bytes;
};

static void path_of(const char *folder, const char *name, char path[PATH_BYTES]) {
    snprintf(path, PATH_BYTES, "%s/%s", folder, name);
}

/* Returns the bytes that a file takes: holes take none. Some file systems do not count blocks. */
static uint64_t bytes_on_disk(const struct stat *info) {
    const uint64_t size = (uint64_t)info->st_size, blocks = (uint64_t)info->st_blocks * 512;
    return blocks > 0 && blocks < size ? blocks : size;
}

static bool add(struct entries *entries, const char *name, const struct stat *info) {
    if (list_grow((void *)&entries->all, entries->n, 1, &entries->capacity, sizeof *entries->all,
                  NULL) != WISP_OK)
        return false;
    struct entry *entry = &entries->all[entries->n];
    entry->name = strdup(name);
    if (!entry->name)
        return false;
    entry->bytes = bytes_on_disk(info);
    entry->used = info->st_mtim;
    entries->n++;
    entries->bytes += bytes_on_disk(info);
    return true;
}

/* Lists what there is memory for. */
static void list_entries(const char *path, bool (*counts)(const char *name),
                         struct entries *entries) {
    DIR *folder = opendir(path);
    for (const struct dirent *item; folder && (item = readdir(folder));) {
        char file[PATH_BYTES];
        struct stat info;
        path_of(path, item->d_name, file);
        if (counts(item->d_name) && lstat(file, &info) == 0 && S_ISREG(info.st_mode) &&
            !add(entries, item->d_name, &info))
            break;
    }
    if (folder)
        closedir(folder);
}

/* Orders files by their last use, and by name if it is the same. */
static int compare_uses(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec)
        return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool delete_unlocked(const char *path) {
    const int file = own_file_open(path, O_RDWR);
    const bool deleted = file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0 && unlink(path) == 0;
    if (file >= 0)
        close(file);
    return deleted;
}

size_t old_files_delete(const char *folder, uint64_t most, bool (*counts)(const char *name)) {
    struct entries entries = {0};
    size_t deleted = 0;
    list_entries(folder, counts, &entries);
    if (entries.n > 0)
        qsort(entries.all, entries.n, sizeof *entries.all, compare_uses);
    for (size_t i = 0; i < entries.n; i++) {
        char path[PATH_BYTES];
        path_of(folder, entries.all[i].name, path);
        if ((most == 0 || entries.bytes > most) && delete_unlocked(path)) {
            entries.bytes -= entries.all[i].bytes;
            deleted++;
        }
        free(entries.all[i].name);
    }
    free(entries.all);
    return deleted;
}
