/* SPDX-License-Identifier: Apache-2.0
 * Hugging Face folders with faults at every place in turn: every file cut at every byte and with
 * every bit flipped, files of ten megabytes, and folders or devices instead of files. opening.h
 * has the numbers. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/folder.h"
#include "support/opening.h"
#include "support/sampling.h"

static const char WEIGHTS[] = "model.safetensors", TOKENIZER[] = "tokenizer.json",
                  VOCAB[] = "vocab.txt", INDEX[] = "model.safetensors.index.json";

/* A folder on disk, and its contents in memory. */
struct trial {
    struct folder folder;
    const char *path;
};

static void start(struct trial *trial) {
    static char path[256];
    snprintf(path, sizeof path, "%s", temporary_path("model"));
    trial->path = path;
    folder_make(&trial->folder, &tiny_shape);
}

static struct opening open_trial(struct trial *trial) {
    folder_write(&trial->folder, trial->path);
    return open_path(trial->path, folder_size(&trial->folder));
}

static void finish(struct trial *trial) {
    folder_remove(trial->path);
    folder_release(&trial->folder);
}

static const char *path_in(const struct trial *trial, const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", trial->path, name);
    return path;
}

/* Makes a folder that has the file to be damaged. By default it has it already. */
static void prepare(struct trial *trial, const char *name) {
    start(trial);
    if (strcmp(name, VOCAB) == 0) {
        folder_drop(&trial->folder, TOKENIZER);
        folder_drop(&trial->folder, "tokenizer_config.json");
    }
    if (strcmp(name, INDEX) == 0)
        folder_shard(&trial->folder, &tiny_shape);
    folder_write(&trial->folder, trial->path);
    const struct opening opening = open_path(trial->path, folder_size(&trial->folder));
    expect_outcome(&opening, WISP_OK, NULL, NULL);
}

/* ---- 1: cut at every byte ------------------------------------------------------------------- */

static void cut_at_every_byte(void **state) {
    const char *name = *state;
    struct trial trial;
    prepare(&trial, name);
    struct sampling sampling = sampling_of("cuts", 8);
    const size_t whole = folder_file(&trial.folder, name)->size;
    for (size_t i = sampling_stride(&sampling); i <= whole; i += sampling_stride(&sampling)) {
        const size_t size = whole - i;
        assert_int_equal(truncate(path_in(&trial, name), (off_t)size), 0);
        const struct opening opening = open_path(trial.path, folder_size(&trial.folder));
        if (strcmp(name, VOCAB) == 0)
            expect_typed(&opening); /* the last line's end may be missing */
        else
            expect_outcome(&opening, WISP_ERROR_FORMAT, NULL, NULL);
        assert_true(opening.status == WISP_OK || strstr(opening.error.message, trial.path));
    }
    finish(&trial);
}

/* ---- flipped bits --------------------------------------------------------------------------- */

/* Only the header of the weights: test_malformed_sweeps.c checks their values. */
static void flip_every_bit(void **state) {
    const char *name = *state;
    struct trial trial;
    prepare(&trial, name);
    struct bytes *file = folder_file(&trial.folder, name);
    const size_t size =
        strcmp(name, WEIGHTS) == 0 ? 8 + (file->data[0] | (size_t)file->data[1] << 8) : file->size;
    const int on_disk = open(path_in(&trial, name), O_WRONLY);
    assert_true(on_disk >= 0);
    struct sampling sampling = sampling_of("flipped bits", 8);
    for (size_t bit = sampling_stride(&sampling) - 1; bit < 8 * size;
         bit += sampling_stride(&sampling)) {
        const unsigned char flipped = (unsigned char)(file->data[bit / 8] ^ 1u << bit % 8);
        assert_int_equal(pwrite(on_disk, &flipped, 1, (off_t)(bit / 8)), 1);
        const struct opening opening = open_path(trial.path, folder_size(&trial.folder));
        expect_typed(&opening);
        assert_int_equal(pwrite(on_disk, &file->data[bit / 8], 1, (off_t)(bit / 8)), 1);
    }
    close(on_disk);
    finish(&trial);
}

/* ---- 36, 37: the safetensors header --------------------------------------------------------- */

static void header_lengths(void **state) {
    struct trial trial;
    (void)state;
    start(&trial);
    struct bytes *file = folder_file(&trial.folder, WEIGHTS);
    const uint64_t lengths[] = {
        0,          1,          file->size - 7, file->size,     100 * 1000 * 1000 + 1,
        UINT32_MAX, UINT64_MAX, INT64_MAX,      UINT64_MAX - 7, UINT64_MAX - 8};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        bytes_set_u64(file, 0, lengths[i]);
        const struct opening opening = open_trial(&trial);
        expect_outcome(&opening, WISP_ERROR_FORMAT, "header length", NULL);
        assert_string_equal(opening.error.file, path_in(&trial, WEIGHTS));
    }
    finish(&trial);
}

static void trailing_byte(void **state) {
    struct trial trial;
    (void)state;
    start(&trial);
    bytes_put(folder_file(&trial.folder, WEIGHTS), "x", 1);
    const struct opening opening = open_trial(&trial);
    expect_outcome(&opening, WISP_ERROR_FORMAT, NULL, "after the last tensor");
    finish(&trial);
}

/* Longer than the limit, in a file that is longer still. The file is sparse, so it takes no disk
 * space. */
static void header_over_the_cap(void **state) {
    struct trial trial;
    (void)state;
    start(&trial);
    bytes_set_u64(folder_file(&trial.folder, WEIGHTS), 0, 100 * 1000 * 1000 + 1);
    folder_write(&trial.folder, trial.path);
    assert_int_equal(truncate(path_in(&trial, WEIGHTS), 120 * 1000 * 1000), 0);
    const struct opening opening = open_path(trial.path, 0);
    expect_outcome(&opening, WISP_ERROR_FORMAT, "header length", "100000001");
    finish(&trial);
}

/* ---- 40: depth ------------------------------------------------------------------------------ */

enum { MANY_BYTES = 10 * 1000 * 1000 };

static void fill(struct bytes *out, const char *text, size_t size) {
    while (out->size < size)
        bytes_put(out, text, strlen(text));
}

static void depth_bomb(void **state) {
    const char *name = *state;
    static const char *const openings[] = {"[", "{\"a\":", "[{\"a\":"};
    for (size_t i = 0; i < sizeof openings / sizeof *openings; i++) {
        struct trial trial;
        struct bytes bomb = {0}, file = {0};
        prepare(&trial, name);
        fill(&bomb, openings[i], MANY_BYTES);
        if (strcmp(name, WEIGHTS) == 0)
            safetensors_put(&file, (const char *)bomb.data, bomb.size, NULL, 0);
        else
            bytes_put(&file, bomb.data, bomb.size);
        folder_put(&trial.folder, name, file.data, file.size);
        const struct opening opening = open_trial(&trial);
        expect_outcome(&opening, WISP_ERROR_FORMAT, NULL, "too deeply");
        assert_string_equal(opening.error.file, path_in(&trial, name));
        bytes_release(&bomb);
        bytes_release(&file);
        finish(&trial);
    }
}

/* ---- 28, 41: ten megabytes of little things ------------------------------------------------- */

struct flood {
    const char *name;
    const char *before;
    const char *each; /* with a %u that counts, or without */
    const char *after;
    wisp_status status;
    const char *says;
};

static void put_each(struct bytes *out, const char *each, unsigned number) {
    char text[128];
    const char *at = strstr(each, "%u");
    const int before = at ? (int)(at - each) : (int)strlen(each);
    if (at)
        snprintf(text, sizeof text, "%.*s%u%s", before, each, number, at + 2);
    else
        snprintf(text, sizeof text, "%s", each);
    bytes_put(out, text, strlen(text));
}

static void open_flood(void **state) {
    const struct flood *flood = *state;
    struct trial trial;
    struct bytes text = {0}, file = {0};
    prepare(&trial, flood->name);
    bytes_put(&text, flood->before, strlen(flood->before));
    for (unsigned i = 0; text.size < MANY_BYTES; i++)
        put_each(&text, flood->each, i);
    bytes_put(&text, flood->after, strlen(flood->after));
    if (strcmp(flood->name, WEIGHTS) == 0)
        safetensors_put(&file, (const char *)text.data, text.size, NULL, 0);
    else
        bytes_put(&file, text.data, text.size);
    folder_put(&trial.folder, flood->name, file.data, file.size);
    const struct opening opening = open_trial(&trial);
    expect_outcome(&opening, flood->status, NULL, flood->says);
    bytes_release(&text);
    bytes_release(&file);
    finish(&trial);
}

#define TOKENIZER_START                                                                            \
    "{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"normalizer\":null,\"model\":{"           \
    "\"unk_token\":\"t1\",\"vocab\":{\"t\":0"

static const struct flood floods[] = {
    {"config.json", "{\"x\":0", ",\"%u\":0", "}", WISP_ERROR_UNSUPPORTED, "model_type"},
    {"config.json", "{\"x\":0", ",\"y\":0", "}", WISP_ERROR_FORMAT, "twice"},
    {"config.json", "{\"x\":[0", ",[]", "]}", WISP_ERROR_UNSUPPORTED, "model_type"},
    {"modules.json", "[{\"type\":\"sentence_transformers.models.Transformer\",\"path\":\"\"}",
     ",{\"type\":\"sentence_transformers.models.Normalize\",\"path\":\"\"}", "]",
     WISP_ERROR_UNSUPPORTED, "more than 64 modules"},
    {"config_sentence_transformers.json", "{\"prompts\":{\"x\":\"\"", ",\"%u\":\"\"", "}}", WISP_OK,
     NULL},
    {"tokenizer.json",
     "{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"normalizer\":{"
     "\"type\":\"Sequence\",\"normalizers\":[{}",
     ",{\"type\":\"Replace\",\"content\":\"%u\"}", "]}}", WISP_ERROR_UNSUPPORTED, "BertNormalizer"},
    {"tokenizer.json", TOKENIZER_START, ",\"t%u\":0", "}}}", WISP_ERROR_FORMAT, "one id"},
    {"tokenizer.json", TOKENIZER_START, ",\"t%u\":1", "}}}", WISP_ERROR_FORMAT, "one id"},
    {"tokenizer.json",
     "{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"unk_token\":\"t\","
     "\"vocab\":{\"t\":0}},\"added_tokens\":[{\"id\":0,\"content\":\"t\"}",
     ",{\"id\":0,\"content\":\"t\"}", "]}", WISP_ERROR_FORMAT, "twice"},
    {"vocab.txt", "[UNK]\n[CLS]\n[SEP]\n", "t%u\n", "", WISP_ERROR_FORMAT, "vocabulary"},
    {"vocab.txt", "[UNK]\n[CLS]\n[SEP]\n", "t\n", "", WISP_ERROR_FORMAT, "are both"},
    {"vocab.txt", "", "\n", "", WISP_ERROR_FORMAT, "empty"},
    {"model.safetensors", "{\"x\":0", ",\"%u\":0", "}", WISP_ERROR_UNSUPPORTED, "dtype"},
    {"model.safetensors", "{\"__metadata__\":{\"x\":\"\"", ",\"%u\":\"\"", "}}",
     WISP_ERROR_NOT_FOUND, "missing"},
    {"model.safetensors.index.json", "{\"weight_map\":{\"x\":\"a.safetensors\"",
     ",\"%u\":\"b.safetensors\"", "}}", WISP_OK, NULL},
};

/* Half of a weight map names one shard and half the other. A search among all earlier entries would
 * take quadratic time. */
static void two_shards(void **state) {
    struct trial trial;
    struct bytes map = {0};
    (void)state;
    start(&trial);
    folder_shard(&trial.folder, &tiny_shape);
    bytes_put(&map, "{\"weight_map\":{\"x\":\"a.safetensors\"", 34);
    for (unsigned i = 0; map.size < MANY_BYTES; i++)
        put_each(&map,
                 map.size < MANY_BYTES / 2 ? ",\"%u\":\"a.safetensors\""
                                           : ",\"%u\":\"b.safetensors\"",
                 i);
    bytes_put(&map, "}}", 2);
    folder_put(&trial.folder, INDEX, map.data, map.size);
    const struct opening opening = open_trial(&trial);
    expect_outcome(&opening, WISP_OK, NULL, NULL);
    bytes_release(&map);
    finish(&trial);
}

/* ---- shards --------------------------------------------------------------------------------- */

struct shards {
    const char *map;
    wisp_status status;
    const char *says;
};

static const struct shards shard_cases[] = {
    {"{}", WISP_ERROR_FORMAT, "weight_map"},
    {"{\"weight_map\":[]}", WISP_ERROR_FORMAT, "weight_map"},
    {"{\"weight_map\":{}}", WISP_ERROR_FORMAT, "weight_map"},
    {"{\"weight_map\":{\"x\":1}}", WISP_ERROR_FORMAT, "a file name"},
    {"{\"weight_map\":{\"x\":\"\"}}", WISP_ERROR_FORMAT, "a file name"},
    {"{\"weight_map\":{\"x\":\".\"}}", WISP_ERROR_FORMAT, "a file name"},
    {"{\"weight_map\":{\"x\":\"../a.safetensors\"}}", WISP_ERROR_FORMAT, "a file name"},
    {"{\"weight_map\":{\"x\":\"y/../../a.safetensors\"}}", WISP_ERROR_FORMAT, "a file name"},
    {"{\"weight_map\":{\"x\":\"/etc/passwd\"}}", WISP_ERROR_FORMAT, "a file name"},
    {"{\"weight_map\":{\"x\":\"..\\\\a.safetensors\"}}", WISP_ERROR_FORMAT, "a file name"},
    {"{\"weight_map\":{\"x\":\"c.safetensors\"}}", WISP_ERROR_NOT_FOUND, "c.safetensors"},
    {"{\"weight_map\":{\"x\":\"a.safetensors\"}}", WISP_ERROR_NOT_FOUND, "missing"},
    {"{\"weight_map\":{\"x\":\"a.safetensors\",\"y\":\"twin.safetensors\"}}", WISP_ERROR_FORMAT,
     "two tensors"},
    {"{\"weight_map\":{\"x\":\"folder\"}}", WISP_ERROR_IO, "regular file"},
    {"{\"weight_map\":{\"x\":\"fifo\"}}", WISP_ERROR_IO, "regular file"},
    {"{\"weight_map\":{\"x\":\"config.json\"}}", WISP_ERROR_FORMAT, "header length"},
};

static void open_shards(void **state) {
    const struct shards *c = *state;
    struct trial trial;
    start(&trial);
    folder_shard(&trial.folder, &tiny_shape);
    const struct bytes *shard = folder_file(&trial.folder, "a.safetensors");
    folder_put(&trial.folder, "twin.safetensors", shard->data, shard->size);
    folder_put_text(&trial.folder, INDEX, c->map);
    folder_write(&trial.folder, trial.path);
    assert_int_equal(mkdir(path_in(&trial, "folder"), 0777), 0);
    assert_int_equal(mkfifo(path_in(&trial, "fifo"), 0666), 0);
    const struct opening opening = open_path(trial.path, folder_size(&trial.folder));
    expect_outcome(&opening, c->status, NULL, c->says);
    finish(&trial);
}

static void too_many_shards(void **state) {
    enum { SHARDS = 300 };
    struct trial trial;
    struct bytes map = {0};
    (void)state;
    start(&trial);
    folder_drop(&trial.folder, WEIGHTS);
    bytes_put(&map, "{\"weight_map\":{\"x\":\"shard0\"", 27);
    for (unsigned i = 0; i < SHARDS; i++)
        put_each(&map, ",\"%u", i), put_each(&map, "\":\"shard%u\"", i);
    bytes_put(&map, "}}", 2);
    folder_put(&trial.folder, INDEX, map.data, map.size);
    folder_write(&trial.folder, trial.path);
    for (unsigned i = 0; i < SHARDS; i++) {
        char name[16];
        snprintf(name, sizeof name, "shard%u", i);
        write_file(path_in(&trial, name), "\x02\0\0\0\0\0\0\0{}", 10);
    }
    const struct opening opening = open_path(trial.path, folder_size(&trial.folder));
    expect_outcome(&opening, WISP_ERROR_UNSUPPORTED, NULL, "256 files");
    bytes_release(&map);
    finish(&trial);
}

/* ---- vocab.txt ------------------------------------------------------------------------------ */

struct vocabulary {
    const char *text;
    size_t size;
    wisp_status status;
    const char *says;
};

#define VOCABULARY(text, ...) {text, sizeof text - 1, __VA_ARGS__}

static const struct vocabulary vocabularies[] = {
    VOCABULARY("[UNK]\n[CLS]\n[SEP]\n", WISP_OK, NULL),
    VOCABULARY("[UNK]\r\n[CLS]\r\n[SEP]", WISP_OK, NULL),
    VOCABULARY("", WISP_ERROR_FORMAT, "no tokens"),
    VOCABULARY("[UNK]\n[CLS]\n", WISP_ERROR_FORMAT, "[SEP]"),
    VOCABULARY("[UNK]\n[CLS]\n[SEP]\nx\0y\n", WISP_ERROR_FORMAT, "line 4"),
    VOCABULARY("[UNK]\n[CLS]\n[SEP]\nx\xFFy\n", WISP_ERROR_FORMAT, "line 4"),
    VOCABULARY("[UNK]\n[CLS]\n[SEP]\n\xED\xA0\x80\n", WISP_ERROR_FORMAT, "line 4"),
    VOCABULARY("[UNK]\n[CLS]\n[SEP]\nx\ry\n", WISP_ERROR_FORMAT, "line 4"),
    VOCABULARY("[UNK]\n[CLS]\n[SEP]\nx\n\n\n", WISP_ERROR_FORMAT, "empty"),
    VOCABULARY("[UNK]\n[CLS]\n[SEP]\nx\nx\n", WISP_ERROR_FORMAT, "are both"),
};

static void open_vocabulary(void **state) {
    const struct vocabulary *c = *state;
    struct trial trial;
    prepare(&trial, VOCAB);
    folder_put(&trial.folder, VOCAB, c->text, c->size);
    const struct opening opening = open_trial(&trial);
    expect_outcome(&opening, c->status, NULL, c->says);
    finish(&trial);
}

/* ---- what is not a file --------------------------------------------------------------------- */

static void special_files(void **state) {
    static const char *const names[] = {"config.json", "tokenizer.json", "model.safetensors",
                                        "modules.json"};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
        struct trial trial;
        start(&trial);
        folder_drop(&trial.folder, names[i / 2]);
        folder_write(&trial.folder, trial.path);
        if (i % 2)
            assert_int_equal(mkfifo(path_in(&trial, names[i / 2]), 0666), 0);
        else
            assert_int_equal(mkdir(path_in(&trial, names[i / 2]), 0777), 0);
        const struct opening opening = open_path(trial.path, folder_size(&trial.folder));
        expect_outcome(&opening, WISP_ERROR_IO, NULL, "regular file");
        assert_string_equal(opening.error.file, path_in(&trial, names[i / 2]));
        finish(&trial);
    }
}

static void no_model_there(void **state) {
    (void)state;
    const struct opening nothing = open_path(temporary_path("nothing"), 0);
    expect_outcome(&nothing, WISP_ERROR_NOT_FOUND, NULL, "No such file");
    const struct opening empty = open_path("", 0);
    expect_outcome(&empty, WISP_ERROR_NOT_FOUND, NULL, NULL);
    assert_int_equal(mkdir(temporary_path("model"), 0777), 0);
    const struct opening folder = open_path(temporary_path("model"), 0);
    expect_outcome(&folder, WISP_ERROR_NOT_FOUND, NULL, "config.json");
    const struct opening device = open_path("/dev/null", 0);
    expect_outcome(&device, WISP_ERROR_IO, NULL, "regular file");
    folder_remove(temporary_path("model"));
}

#define SWEEP(title, function, state)                                                              \
    {.name = title, .test_func = function, .initial_state = (void *)(uintptr_t)(state)}

int main(void) {
    static const char *const files[] = {"config.json",
                                        "model.safetensors",
                                        "tokenizer.json",
                                        "modules.json",
                                        "tokenizer_config.json",
                                        "1_Pooling/config.json",
                                        "vocab.txt",
                                        "sentence_bert_config.json",
                                        "config_sentence_transformers.json",
                                        "model.safetensors.index.json"};
    enum { MAX_TESTS = 128, FILES = sizeof files / sizeof *files };
    static struct CMUnitTest tests[MAX_TESTS] = {
        SWEEP("36: lengths of the header", header_lengths, NULL),
        SWEEP("36: a header over the cap", header_over_the_cap, NULL),
        SWEEP("37: a trailing byte", trailing_byte, NULL),
        SWEEP("28: a weight map of 10 MB that names two shards", two_shards, NULL),
        SWEEP("300 shards", too_many_shards, NULL),
        SWEEP("folders and FIFOs for files", special_files, NULL),
        SWEEP("no model there", no_model_there, NULL),
    };
    size_t n = 7;
    for (size_t i = 0; i < FILES; i++) {
        tests[n++] = (struct CMUnitTest)SWEEP(files[i], cut_at_every_byte, files[i]);
        tests[n++] = (struct CMUnitTest)SWEEP(files[i], flip_every_bit, files[i]);
        if (strcmp(files[i], VOCAB) != 0)
            tests[n++] = (struct CMUnitTest)SWEEP(files[i], depth_bomb, files[i]);
    }
    for (size_t i = 0; i < sizeof floods / sizeof *floods; i++)
        tests[n++] = (struct CMUnitTest)SWEEP(floods[i].name, open_flood, &floods[i]);
    for (size_t i = 0; i < sizeof shard_cases / sizeof *shard_cases; i++)
        tests[n++] = (struct CMUnitTest)SWEEP(shard_cases[i].map, open_shards, &shard_cases[i]);
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++)
        tests[n++] = (struct CMUnitTest)SWEEP("vocab.txt", open_vocabulary, &vocabularies[i]);
    assert_true(n <= MAX_TESTS);
    return _cmocka_run_group_tests("malformed folders", tests, n, NULL, tear_down_temporary_folder);
}
