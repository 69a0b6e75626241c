/* SPDX-License-Identifier: Apache-2.0
 * Opens a Hugging Face folder in which one file, chosen by the first byte, is replaced by the rest
 * of the input. */
#include <stdio.h>
#include <unistd.h>

#include "fuzz.h"
#include "support/folder.h"

/* seeds.c uses these names too, in the same order. */
#include "folder_files.h"

/* The folder without an input, with shards for an index to name. */
static const struct folder *original(void) {
    static const char *const shard_names[] = {"a.safetensors", "b.safetensors"};
    static struct folder folder;
    struct folder shards;
    if (folder.n > 0)
        return &folder;
    folder_make(&folder, &tiny_shape);
    folder_make(&shards, &tiny_shape);
    folder_shard(&shards, &tiny_shape);
    for (int i = 0; i < 2; i++) {
        const struct bytes *shard = folder_file(&shards, shard_names[i]);
        folder_put(&folder, shard_names[i], shard->data, shard->size);
    }
    folder_release(&shards);
    return &folder;
}

static char base_path[64];

static void remove_base(void) {
    folder_remove(base_path);
}

static const char *base(void) {
    if (!*base_path) {
        snprintf(base_path, sizeof base_path, "/dev/shm/wisp-fuzz-%d", (int)getpid());
        folder_write(original(), base_path);
        atexit(remove_base);
    }
    return base_path;
}

static void put(const char *name, const void *data, size_t size) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", base(), name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size)
        abort();
    fclose(file);
}

/* Restores the file. Files that the folder does not have by default are removed. */
static void put_back(const char *name) {
    const struct folder *folder = original();
    char path[256];
    for (size_t i = 0; i < folder->n; i++)
        if (strcmp(folder->files[i].name, name) == 0) {
            put(name, folder->files[i].bytes.data, folder->files[i].bytes.size);
            return;
        }
    snprintf(path, sizeof path, "%s/%s", base(), name);
    unlink(path);
}

/* Returns the file because of which the named one would not be read, or NULL. */
static const char *hides(const char *name) {
    if (strcmp(name, "vocab.txt") == 0)
        return "tokenizer.json";
    return strcmp(name, "model.safetensors.index.json") == 0 ? "model.safetensors" : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wisp_model *model = NULL;
    wisp_error error;
    if (size == 0)
        return 0;
    const char *name = folder_files[data[0] % FOLDER_FILES];
    const char *hiding = hides(name);
    put(name, data + 1, size - 1);
    if (hiding) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", base(), hiding);
        unlink(path);
    }
    const wisp_status status = wisp_model_open(base(), NULL, &model, &error);
    /* The name of a shard may be that of a folder. */
    if (status != WISP_ERROR_IO)
        fuzz_check(status, &error);
    fuzz_use(model);
    wisp_model_close(model);
    put_back(name);
    if (hiding)
        put_back(hiding);
    return 0;
}
