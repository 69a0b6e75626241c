/* SPDX-License-Identifier: Apache-2.0 */
#include "support/folder.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static _Noreturn void give_up(const char *what, const char *name) {
    fprintf(stderr, "folder: %s: %s\n", what, name);
    abort();
}

/* ---- files ---------------------------------------------------------------------------------- */

static struct folder_file *find(struct folder *folder, const char *name) {
    for (size_t i = 0; i < folder->n; i++)
        if (strcmp(folder->files[i].name, name) == 0)
            return &folder->files[i];
    return NULL;
}

struct bytes *folder_file(struct folder *folder, const char *name) {
    struct folder_file *file = find(folder, name);
    if (!file)
        give_up("no such file", name);
    return &file->bytes;
}

void folder_put(struct folder *folder, const char *name, const void *data, size_t size) {
    struct folder_file *file = find(folder, name);
    if (!file) {
        if (folder->n == FOLDER_MAX_FILES)
            give_up("too many files", name);
        file = &folder->files[folder->n++];
        snprintf(file->name, sizeof file->name, "%s", name);
    }
    file->bytes.size = 0;
    bytes_put(&file->bytes, data, size);
}

void folder_put_text(struct folder *folder, const char *name, const char *text) {
    folder_put(folder, name, text, strlen(text));
}

void folder_drop(struct folder *folder, const char *name) {
    bytes_release(folder_file(folder, name));
    *find(folder, name) = folder->files[--folder->n];
    folder->files[folder->n] = (struct folder_file){0};
}

void folder_release(struct folder *folder) {
    for (size_t i = 0; i < folder->n; i++)
        bytes_release(&folder->files[i].bytes);
    *folder = (struct folder){0};
}

size_t folder_size(const struct folder *folder) {
    size_t size = 0;
    for (size_t i = 0; i < folder->n; i++)
        size += folder->files[i].bytes.size;
    return size;
}

static void replace(struct bytes *bytes, size_t start, const char *old, const char *with,
                    const char *name) {
    const size_t length = strlen(old);
    const unsigned char *at = memmem(bytes->data + start, bytes->size - start, old, length);
    struct bytes result = {0};
    if (!at)
        give_up("does not hold what was to be replaced", name);
    bytes_put(&result, bytes->data, (size_t)(at - bytes->data));
    bytes_put(&result, with, strlen(with));
    at += length;
    bytes_put(&result, at, (size_t)(bytes->data + bytes->size - at));
    bytes_release(bytes);
    *bytes = result;
}

void folder_replace(struct folder *folder, const char *name, const char *old, const char *with) {
    struct bytes *bytes = folder_file(folder, name);
    const size_t length = strlen(name), suffix = strlen(".safetensors");
    if (length < suffix || strcmp(name + length - suffix, ".safetensors") != 0) {
        replace(bytes, 0, old, with, name);
        return;
    }
    const uint32_t header = bytes->data[0] | (uint32_t)bytes->data[1] << 8;
    replace(bytes, 8, old, with, name);
    bytes_set_u64(bytes, 0, header + strlen(with) - strlen(old));
}

/* ---- on disk -------------------------------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

void folder_remove(const char *path) {
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_parent(const char *path) {
    char parent[512];
    const char *slash = strrchr(path, '/');
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
    mkdir(parent, 0777);
}

void folder_write(const struct folder *folder, const char *path) {
    folder_remove(path);
    mkdir(path, 0777);
    for (size_t i = 0; i < folder->n; i++) {
        const struct folder_file *file = &folder->files[i];
        char full[512];
        snprintf(full, sizeof full, "%s/%s", path, file->name);
        make_parent(full);
        FILE *stream = fopen(full, "wb");
        const size_t size = file->bytes.size; /* of no bytes, data may be NULL */
        if (!stream || (size > 0 && fwrite(file->bytes.data, 1, size, stream) != size))
            give_up("cannot write", full);
        fclose(stream);
    }
}
