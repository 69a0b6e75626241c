/* SPDX-License-Identifier: Apache-2.0
 * The folders in which fuzz_checkpoint.c replaces a file, by the first byte of its input: models of
 * tests/data/models, then the families of decoders. */
#ifndef TESTS_FUZZ_CHECKPOINTS_H
#define TESTS_FUZZ_CHECKPOINTS_H

#include <stdbool.h>
#include <string.h>

#include "support/decoder_folder.h"

static const char *const checkpoint_models[] = {"checkpoint",
                                                "checkpoint-old",
                                                "onnx",
                                                "onnx-new",
                                                "onnx-int8",
                                                "onnx-q4",
                                                "colbert-bert",
                                                "colbert-own",
                                                "colbert-stanford",
                                                "colbert-modernbert",
                                                "dense-twice",
                                                "distilbert",
                                                "electra-small",
                                                "embeddinggemma",
                                                "eurobert",
                                                "gte-en",
                                                "gte-multilingual",
                                                "jina-v2",
                                                "jina-v3",
                                                "lfm2-embedding",
                                                "modernbert",
                                                "mpnet",
                                                "nomic-moe",
                                                "overridden",
                                                "qwen3-embedding",
                                                "rank-distilbert",
                                                "rank-jina-v2",
                                                "rank-roberta",
                                                "splade-distilbert",
                                                "splade-modernbert",
                                                "static",
                                                "static-weights"};

enum {
    CHECKPOINT_MODELS = sizeof checkpoint_models / sizeof *checkpoint_models,
    CHECKPOINTS = CHECKPOINT_MODELS + DECODER_FAMILIES,
    CHECKPOINT_WHOLE = 128 /* with the number of a file: the input has its weights, too */
};

static inline void checkpoint_make(struct folder *folder, unsigned number) {
    if (number < CHECKPOINT_MODELS)
        folder_read_model(folder, checkpoint_models[number]);
    else
        decoder_folder_make_family(folder, (enum decoder_family)(number - CHECKPOINT_MODELS));
}

/* Returns how many bytes the header of a safetensors file has, 0 of another file. */
static inline size_t checkpoint_header(const struct folder_file *file) {
    static const char suffix[] = ".safetensors";
    const size_t length = strlen(file->name);
    size_t size = 0;
    if (length < sizeof suffix || strcmp(file->name + length - sizeof suffix + 1, suffix) != 0)
        return 0;
    for (size_t i = 0; i < 8; i++) /* little-endian */
        size |= (size_t)file->bytes.data[i] << (8 * i);
    return size;
}

#endif
