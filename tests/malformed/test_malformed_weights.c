/* SPDX-License-Identifier: Apache-2.0
 * Checkpoints of PyTorch and ONNX files with faults: cut at every byte and with every bit flipped,
 * and pickles that do what no checkpoint may. test_models.c reads the same files as they are. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "huggingface/pickle.h"
#include "support/folder.h"
#include "support/opening.h"
#include "support/sampling.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

/* A model of tests/data/models and its file of weights. */
struct weights {
    const char *model, *file;
};

static const struct weights all[] = {{"checkpoint", "pytorch_model.bin"},
                                     {"checkpoint", "2_Dense/pytorch_model.bin"},
                                     {"checkpoint-old", "pytorch_model.bin"},
                                     {"onnx", "onnx/model.onnx"},
                                     {"onnx-new", "model.onnx"},
                                     {"onnx-new", "model.onnx.data"},
                                     {"onnx-int8", "onnx/model_quantized.onnx"},
                                     {"onnx-q4", "onnx/model_q4.onnx"}};

/* ---- every place ---------------------------------------------------------------------------- */

struct trial {
    struct folder folder;
    char path[256], file[512];
    struct sampling sampling;
};

static void begin(struct trial *trial, const struct weights *weights, const char *what,
                  size_t one_in) {
    folder_read_model(&trial->folder, weights->model);
    snprintf(trial->path, sizeof trial->path, "%s", temporary_path("model"));
    snprintf(trial->file, sizeof trial->file, "%s/%s", trial->path, weights->file);
    folder_write(&trial->folder, trial->path);
    const struct opening opening = open_path(trial->path, folder_size(&trial->folder));
    expect_outcome(&opening, WISP_OK, NULL, NULL);
    trial->sampling = sampling_of(what, one_in);
    if (trial->sampling.mean_stride == 1) /* most bytes are those of weights */
        trial->sampling.mean_stride = (one_in + 15) / 16;
}

static void end(struct trial *trial) {
    folder_remove(trial->path);
    folder_release(&trial->folder);
}

static void cut_at_every_byte(void **state) {
    const struct weights *weights = *state;
    struct trial trial;
    begin(&trial, weights, "cuts", 256);
    const size_t whole = folder_file(&trial.folder, weights->file)->size;
    for (size_t i = sampling_stride(&trial.sampling); i <= whole;
         i += sampling_stride(&trial.sampling)) {
        assert_int_equal(truncate(trial.file, (off_t)(whole - i)), 0);
        const struct opening opening = open_path(trial.path, folder_size(&trial.folder));
        expect_typed(&opening);
        assert_int_not_equal(opening.status, WISP_OK);
    }
    end(&trial);
}

static void flip_every_bit(void **state) {
    const struct weights *weights = *state;
    struct trial trial;
    begin(&trial, weights, "flipped bits", 4096);
    const struct bytes *file = folder_file(&trial.folder, weights->file);
    const int on_disk = open(trial.file, O_WRONLY);
    assert_true(on_disk >= 0);
    for (size_t bit = sampling_stride(&trial.sampling) - 1; bit < 8 * file->size;
         bit += sampling_stride(&trial.sampling)) {
        const unsigned char flipped = (unsigned char)(file->data[bit / 8] ^ 1u << bit % 8);
        assert_int_equal(pwrite(on_disk, &flipped, 1, (off_t)(bit / 8)), 1);
        const struct opening opening = open_path(trial.path, folder_size(&trial.folder));
        expect_typed(&opening);
        assert_int_equal(pwrite(on_disk, &file->data[bit / 8], 1, (off_t)(bit / 8)), 1);
    }
    close(on_disk);
    end(&trial);
}

static void memory_runs_out(void **state) {
    struct trial trial;
    begin(&trial, *state, "memory", 1);
    expect_memory_errors(trial.path);
    end(&trial);
}

/* ---- pickles -------------------------------------------------------------------------------- */

struct program {
    const char *bytes;
    size_t size;
    wisp_status status;
    const char *says;
};

#define PROGRAM(bytes, ...) {bytes, sizeof bytes - 1, __VA_ARGS__}
#define STORAGE(elements)                                                                          \
    "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"                                             \
    "0X\3\0\0\0cpu" elements "tQ"
#define REBUILD "ctorch._utils\n_rebuild_tensor_v2\n("

static const struct program programs[] = {
    PROGRAM("\x80\2}.", WISP_OK, NULL),
    PROGRAM("\x80\2cos\nsystem\nX\1\0\0\0a\x85R.", WISP_ERROR_UNSUPPORTED, "calls os system"),
    PROGRAM("\x80\4\x8c\2os\x8c\6system\x93)R.", WISP_ERROR_UNSUPPORTED, "calls os system"),
    PROGRAM("cbuiltins\neval\n(X\1\0\0\0"
            "1tR.",
            WISP_ERROR_UNSUPPORTED, "builtins eval"),
    PROGRAM("\x80\2cos\nsystem\n)\x81.", WISP_ERROR_UNSUPPORTED, "opcode 129"),
    PROGRAM("(S'x'\nios\nsystem\n.", WISP_ERROR_UNSUPPORTED, "opcode 83"),
    PROGRAM("ccollections\nOrderedDict\n]\x85R.", WISP_ERROR_FORMAT, "begins with items"),
    PROGRAM("X\1\0\0\0aX\1\0\0\0a\x85R.", WISP_ERROR_FORMAT, "not a function"),
    PROGRAM("", WISP_ERROR_FORMAT, "ends within"),
    PROGRAM("}", WISP_ERROR_FORMAT, "ends within"),
    PROGRAM("X\xff\xff\xff\xff", WISP_ERROR_FORMAT, "ends within"),
    PROGRAM("cos\nsystem", WISP_ERROR_FORMAT, "ends within"),
    PROGRAM(".", WISP_ERROR_FORMAT, "missing on the stack"),
    PROGRAM("R.", WISP_ERROR_FORMAT, "missing on the stack"),
    PROGRAM("(R.", WISP_ERROR_FORMAT, "missing on the stack"),
    PROGRAM("\x86.", WISP_ERROR_FORMAT, "missing on the stack"),
    PROGRAM("t.", WISP_ERROR_FORMAT, "a mark is missing"),
    PROGRAM("u.", WISP_ERROR_FORMAT, "a mark is missing"),
    PROGRAM("(u.", WISP_ERROR_FORMAT, "without what they belong to"),
    PROGRAM("}(Nu.", WISP_ERROR_FORMAT, "without what they belong to"),
    PROGRAM("}(NNe.", WISP_ERROR_FORMAT, "not a list or dict"),
    PROGRAM("}s.", WISP_ERROR_FORMAT, "missing on the stack"),
    PROGRAM("NNs.", WISP_ERROR_FORMAT, "without what they belong to"),
    PROGRAM("a.", WISP_ERROR_FORMAT, "missing on the stack"),
    PROGRAM("Na.", WISP_ERROR_FORMAT, "without what they belong to"),
    PROGRAM("h\0.", WISP_ERROR_FORMAT, "not kept"),
    PROGRAM("Nq\1.", WISP_ERROR_FORMAT, "not the next one"),
    PROGRAM("Nr\xff\xff\xff\xff.", WISP_ERROR_FORMAT, "not the next one"),
    PROGRAM("NQ.", WISP_ERROR_FORMAT, "not a storage"),
    PROGRAM(STORAGE("J\xff\xff\xff\xff") ".", WISP_ERROR_FORMAT, "not a storage"),
    PROGRAM(REBUILD STORAGE("K\4") "K\0K\4\x85K\1\x85\x89NtR.", WISP_OK, NULL),
    PROGRAM(REBUILD STORAGE("K\4") "K\1K\4\x85K\1\x85\x89NtR.", WISP_ERROR_FORMAT,
            "beyond the end"),
    PROGRAM(REBUILD STORAGE("K\4") "K\5))\x89NtR.", WISP_ERROR_FORMAT, "beyond the end"),
    PROGRAM(REBUILD STORAGE("K\4") "K\0K\2K\2\x86K\1K\2\x86\x89NtR.", WISP_ERROR_UNSUPPORTED,
            "do not follow each other"),
    PROGRAM(REBUILD STORAGE("K\4") "K\0K\4\x85)\x89NtR.", WISP_ERROR_FORMAT, "a stride for each"),
    PROGRAM(REBUILD STORAGE("K\4") "K\0J\xff\xff\xff\xff\x85K\1\x85\x89NtR.", WISP_ERROR_FORMAT,
            "whole numbers"),
    PROGRAM(REBUILD "NK\0))\x89NtR.", WISP_ERROR_FORMAT, "without storage"),
    PROGRAM("((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((",
            WISP_ERROR_FORMAT, "64 marks"),
};

static void pickles_only_build_values(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        const struct program *program = &programs[i];
        struct arena arena = {0};
        struct pickle_value value;
        wisp_error error = WISP_ERROR_NONE;
        size_t used;
        const wisp_status status =
            pickle_read(&arena, program->bytes, program->size, "a pickle", &value, &used, &error);
        if (status != program->status || (program->says && !strstr(error.message, program->says)))
            fail_msg("program %zu: %d: %s", i, (int)status, error.message);
        arena_release(&arena);
    }
}

#define SWEEP(function, weights)                                                                   \
    {.name = (weights)->file, .test_func = function, .initial_state = (void *)(uintptr_t)(weights)}

int main(void) {
    enum { COUNT = sizeof all / sizeof *all };
    static struct CMUnitTest tests[3 * COUNT + 1] = {cmocka_unit_test(pickles_only_build_values)};
    size_t n = 1;
    for (size_t i = 0; i < COUNT; i++) {
        tests[n++] = (struct CMUnitTest)SWEEP(cut_at_every_byte, &all[i]);
        tests[n++] = (struct CMUnitTest)SWEEP(flip_every_bit, &all[i]);
        if (strstr(all[i].file, "model_q") || strstr(all[i].model, "checkpoint"))
            tests[n++] = (struct CMUnitTest)SWEEP(memory_runs_out, &all[i]);
    }
    return _cmocka_run_group_tests("malformed weights", tests, n, NULL, tear_down_temporary_folder);
}
