/* SPDX-License-Identifier: Apache-2.0
 * Folders of decoders with faults at every place in turn: each file cut at every byte and with
 * every bit flipped. A damaged folder gives a typed error, or a model that computes. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/byte_order.h"
#include "support/decoder_folder.h"
#include "support/opening.h"
#include "support/sampling.h"

/* A file of a Llama's folder with this tokenizer, or of a folder of another family. */
struct target {
    enum decoder_tokenizer tokenizer;
    const char *file;
    size_t one_in; /* places that `make test` tries */
    bool is_family;
    enum decoder_family family;
};

static const struct target targets[] = {
    {.tokenizer = TOKENIZER_BYTE_LEVEL, .file = "config.json", .one_in = 4},
    {.tokenizer = TOKENIZER_BYTE_LEVEL, .file = "tokenizer.json", .one_in = 64},
    {.tokenizer = TOKENIZER_BYTE_LEVEL, .file = "tokenizer_config.json", .one_in = 4},
    {.tokenizer = TOKENIZER_BYTE_LEVEL, .file = "generation_config.json", .one_in = 1},
    {.tokenizer = TOKENIZER_SENTENCEPIECE, .file = "tokenizer.json", .one_in = 64},
    {.tokenizer = TOKENIZER_UNIGRAM, .file = "tokenizer.json", .one_in = 64},
    {.tokenizer = TOKENIZER_MODEL_BPE, .file = "tokenizer.model", .one_in = 64},
    {.tokenizer = TOKENIZER_MODEL_BPE, .file = "added_tokens.json", .one_in = 1},
    {.tokenizer = TOKENIZER_VOCAB, .file = "vocab.json", .one_in = 64},
    {.tokenizer = TOKENIZER_VOCAB, .file = "merges.txt", .one_in = 1},
    {.tokenizer = TOKENIZER_VOCAB, .file = "tokenizer_config.json", .one_in = 4},
    {.tokenizer = TOKENIZER_TEKKEN, .file = "tekken.json", .one_in = 64},
    {.tokenizer = TOKENIZER_MODEL_UNIGRAM, .file = "tokenizer.model", .one_in = 64},
    {.is_family = true, .family = FAMILY_GPT2, .file = "config.json", .one_in = 16},
    {.is_family = true, .family = FAMILY_GEMMA2, .file = "config.json", .one_in = 16},
    {.is_family = true, .family = FAMILY_GEMMA3_TEXT, .file = "config.json", .one_in = 16},
    {.is_family = true, .family = FAMILY_GEMMA3, .file = "config.json", .one_in = 16},
    {.is_family = true, .family = FAMILY_LFM2, .file = "config.json", .one_in = 16},
    {.is_family = true, .family = FAMILY_GPT2, .file = "model.safetensors", .one_in = 64},
    {.is_family = true, .family = FAMILY_GEMMA2, .file = "model.safetensors", .one_in = 64},
    {.is_family = true, .family = FAMILY_LFM2, .file = "model.safetensors", .one_in = 64},
    {.is_family = true, .family = FAMILY_PHI3, .file = "config.json", .one_in = 16},
    {.is_family = true, .family = FAMILY_PHI3, .file = "model.safetensors", .one_in = 64},
    {.is_family = true, .family = FAMILY_GLM4_MOE_LITE, .file = "config.json", .one_in = 16},
    {.is_family = true, .family = FAMILY_BITNET, .file = "model.safetensors", .one_in = 128},
    {.is_family = true,
     .family = FAMILY_GPT_OSS_PACKED,
     .file = "model.safetensors",
     .one_in = 128},
};

static void set_up(const struct target *target, struct folder *folder, char path[512]) {
    if (target->is_family)
        decoder_folder_make_family(folder, target->family);
    else
        decoder_folder_make(folder, target->tokenizer);
    folder_write(folder, temporary_path("model"));
    snprintf(path, 512, "%s/%s", temporary_path("model"), target->file);
    const struct opening opening = open_path(temporary_path("model"), folder_size(folder));
    expect_outcome(&opening, WISP_OK, NULL, NULL);
}

/* Returns how many first bytes of a file say something about the rest: of model.safetensors its
 * header, whose length is in its first 8 bytes, and not its weights. */
static size_t telling_bytes(const struct target *target, const struct bytes *file) {
    if (strcmp(target->file, "model.safetensors") != 0)
        return file->size;
    return 8 + (size_t)load_u64((const unsigned char *)file->data);
}

static void cut_at_every_byte(void **state) {
    const struct target *target = *state;
    const bool text = strstr(target->file, ".json") != NULL;
    struct folder folder;
    char path[512];
    set_up(target, &folder, path);
    struct sampling sampling = sampling_of("cuts", target->one_in);
    const struct bytes *file = folder_file(&folder, target->file);
    const size_t whole = file->size, weights = whole - telling_bytes(target, file);
    for (size_t i = weights + sampling_stride(&sampling); i <= whole;
         i += sampling_stride(&sampling)) {
        assert_int_equal(truncate(path, (off_t)(whole - i)), 0);
        const struct opening opening = open_path(temporary_path("model"), folder_size(&folder));
        if (text)
            expect_outcome(&opening, WISP_ERROR_FORMAT, NULL, NULL);
        else
            expect_typed(&opening); /* a message may end after any field */
    }
    folder_release(&folder);
}

static void flip_every_bit(void **state) {
    const struct target *target = *state;
    struct folder folder;
    char path[512];
    set_up(target, &folder, path);
    const struct bytes *file = folder_file(&folder, target->file);
    const int on_disk = open(path, O_WRONLY);
    assert_true(on_disk >= 0);
    struct sampling sampling = sampling_of("flipped bits", target->one_in * 4);
    for (size_t bit = sampling_stride(&sampling) - 1; bit < 8 * telling_bytes(target, file);
         bit += sampling_stride(&sampling)) {
        const unsigned char flipped = (unsigned char)(file->data[bit / 8] ^ 1u << bit % 8);
        assert_int_equal(pwrite(on_disk, &flipped, 1, (off_t)(bit / 8)), 1);
        const struct opening opening = open_path(temporary_path("model"), folder_size(&folder));
        expect_typed(&opening);
        assert_int_equal(pwrite(on_disk, &file->data[bit / 8], 1, (off_t)(bit / 8)), 1);
    }
    close(on_disk);
    folder_release(&folder);
}

int main(void) {
    enum { TARGETS = sizeof targets / sizeof *targets };
    static struct CMUnitTest tests[2 * TARGETS];
    for (size_t i = 0; i < TARGETS; i++) {
        void *state = (void *)(uintptr_t)&targets[i];
        tests[2 * i] = (struct CMUnitTest){
            .name = targets[i].file, .test_func = cut_at_every_byte, .initial_state = state};
        tests[2 * i + 1] = (struct CMUnitTest){
            .name = targets[i].file, .test_func = flip_every_bit, .initial_state = state};
    }
    return _cmocka_run_group_tests("malformed folders of decoders", tests, 2 * TARGETS, NULL,
                                   tear_down_temporary_folder);
}
