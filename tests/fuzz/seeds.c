/* SPDX-License-Identifier: Apache-2.0
 * Writes a seed corpus for each fuzz target into a folder of its name:
 *     seeds build/fuzz/corpus */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "folder_files.h"
#include "support/folder.h"

static const char *root;

static void put(const char *target, const char *name, const void *data, size_t size) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, target);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/seed-%s", root, target, name);
    for (char *at = strrchr(path, '-'); *at; at++)
        if (*at == '/')
            *at = '_';
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size) {
        perror(path);
        exit(1);
    }
    fclose(file);
}

/* A model with as few weights as possible. */
static void put_one_gguf(uint32_t type, uint32_t size, bool nomic, bool rows) {
    const struct tiny_shape shape = {.hidden = size,
                                     .wide = size,
                                     .layers = 1,
                                     .heads = 1,
                                     .positions = 4,
                                     .type = type,
                                     .nomic = nomic,
                                     .rows = rows};
    struct gguf file;
    struct bytes bytes = {0};
    char name[32];
    snprintf(name, sizeof name, "%u%s%s", (unsigned)type, nomic ? "-nomic" : "",
             rows ? "-rows" : "");
    gguf_make(&file, &shape);
    gguf_write_bytes(&file, &bytes);
    put("gguf", name, bytes.data, bytes.size);
    put("convert", name, bytes.data, bytes.size);
    bytes_release(&bytes);
    gguf_release(&file);
}

static void put_gguf(void) {
    enum { F32 = 0, F16 = 1, Q4_0 = 2, Q8_0 = 8, BF16 = 30 };
    static const uint32_t types[] = {F32, F16, Q4_0, Q8_0, BF16};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int kind = 0; kind < 4; kind++)
            put_one_gguf(types[i], types[i] == Q4_0 || types[i] == Q8_0 ? 32 : 2, kind % 2 != 0,
                         kind / 2 != 0);
}

static void put_one_of_folder(int number, const char *file, const struct bytes *content) {
    const unsigned char first = (unsigned char)number;
    struct bytes input = {0};
    bytes_put(&input, &first, 1);
    bytes_put(&input, content->data, content->size);
    put("folder", file, input.data, input.size);
    if (strstr(file, ".json"))
        put("json", file, content->data, content->size);
    else if (strstr(file, ".safetensors"))
        put("safetensors", file, content->data, content->size);
    bytes_release(&input);
}

static void put_folder(void) {
    static const char map[] = "{\"unk_token\":\"[UNK]\",\"cls_token\":{\"content\":\"[CLS]\"}}";
    struct folder folder, shards, nomic;
    folder_make(&nomic, &tiny_nomic);
    put_one_of_folder(0, "nomic-config.json", folder_file(&nomic, "config.json"));
    put("safetensors", "nomic", folder_file(&nomic, "model.safetensors")->data,
        folder_file(&nomic, "model.safetensors")->size);
    folder_release(&nomic);
    folder_make(&folder, &tiny_shape);
    folder_make(&shards, &tiny_shape);
    folder_shard(&shards, &tiny_shape);
    folder_put_text(&folder, "special_tokens_map.json", map);
    for (int i = 0; i < FOLDER_FILES; i++) {
        const bool index = strcmp(folder_files[i], "model.safetensors.index.json") == 0;
        put_one_of_folder(i, folder_files[i],
                          folder_file(index ? &shards : &folder, folder_files[i]));
    }
    folder_replace(&folder, "tokenizer.json", "\"TemplateProcessing\"",
                   "\"BertProcessing\",\"cls\":[\"[CLS]\",2],\"sep\":[\"[SEP]\",3]");
    put_one_of_folder(1, "other-tokenizer.json", folder_file(&folder, "tokenizer.json"));
    put("safetensors", "shard", folder_file(&shards, "a.safetensors")->data,
        folder_file(&shards, "a.safetensors")->size);
    folder_release(&folder);
    folder_release(&shards);
}

static void put_tokenizer(void) {
    static const char *const texts[] = {
        "the man is eating a red guitar, and so on.",
        "\xC3\x89t\xC3\xA9 e\xCC\x81\xCC\xA7 \xE4\xB8\xAD\xE6\x96\x87 \xED\x95\x9C\xEA\xB8\x80",
        "\xCE\xA3\xCE\x91\xCE\xA3 \xC4\xB0stanbul [CLS] [MASK]x [SEP]\t\r\n\v\x01\x7F",
        "\xF0\x9F\x98\x80 \xE2\x80\x8B \xFF\xC0\x80\xED\xA0\x80 \xE2\x96\x81the"};
    for (unsigned i = 0; i < 4 * 6; i++) {
        const unsigned char head[2] = {(unsigned char)(i * 41), (unsigned char)(i * 37)};
        struct bytes input = {0};
        char name[8];
        bytes_put(&input, head, 2);
        for (int token = TINY_SPECIAL; token < TINY_TOKENS; token++) {
            bytes_put(&input, tiny_tokens[token], strlen(tiny_tokens[token]));
            bytes_put(&input, "\n", 1);
        }
        bytes_put(&input, "\n", 1);
        bytes_put(&input, texts[i % 4], strlen(texts[i % 4]));
        snprintf(name, sizeof name, "%u", i);
        put("tokenizer", name, input.data, input.size);
        bytes_release(&input);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: seeds FOLDER\n");
        return 2;
    }
    root = argv[1];
    mkdir(root, 0777);
    put_gguf();
    put_folder();
    put_tokenizer();
    return 0;
}
