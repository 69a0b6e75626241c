/* SPDX-License-Identifier: Apache-2.0
 * Reads folders of tests/data/models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "support/folder.h"
#include "support/golden.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

void folder_read_model(struct folder *folder, const char *model) {
    static const char *const files[] = {"config.json",
                                        "model.safetensors",
                                        "pytorch_model.bin",
                                        "model.onnx",
                                        "model.onnx.data",
                                        "onnx/model.onnx",
                                        "onnx/model_quantized.onnx",
                                        "onnx/model_q4.onnx",
                                        "modules.json",
                                        "preprocessor_config.json",
                                        "spiece.model",
                                        "tokenizer.json",
                                        "vocab.txt",
                                        "vocab.json",
                                        "merges.txt",
                                        "tokenizer_config.json",
                                        "1_Pooling/config.json",
                                        "1_SpladePooling/config.json",
                                        "sentence_bert_config.json",
                                        "1_Dense/config.json",
                                        "1_Dense/model.safetensors",
                                        "1_MultiVectorMask/config.json",
                                        "2_Normalize/config.json",
                                        "artifact.metadata",
                                        "2_Dense/config.json",
                                        "2_Dense/model.safetensors",
                                        "2_Dense/pytorch_model.bin",
                                        "3_Dense/config.json",
                                        "3_Dense/model.safetensors",
                                        "config_sentence_transformers.json"};
    char name[GOLDEN_PATH_BYTES], path[GOLDEN_PATH_BYTES];
    static unsigned char bytes[1 << 20];
    *folder = (struct folder){0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(name, sizeof name, "models/%s/%s", model, files[i]);
        FILE *stream = fopen(data_path(name, path), "rb");
        if (!stream)
            continue;
        const size_t size = fread(bytes, 1, sizeof bytes, stream);
        fclose(stream);
        assert_true(size < sizeof bytes);
        folder_put(folder, files[i], bytes, size);
    }
}
