/* SPDX-License-Identifier: Apache-2.0
 * Reads any bytes as a safetensors file: every tensor's bytes can be read, or there is an error. */
#include "fuzz.h"
#include "huggingface/encoders.h"
#include "huggingface/safetensors.h"

static wisp_status read_all(struct directory *dir, const uint8_t *data, size_t size,
                            wisp_error *error) {
    const wisp_source source = {.size = size, .data = data, .name = "fuzz.safetensors"};
    const struct json settings = {.type = JSON_OBJECT};
    const struct hf_config config = {.root = &settings, .file = "config.json"};
    uint32_t index;
    TRY(directory_add_source(dir, &source, &index, error));
    TRY(safetensors_read(dir, index, error));
    TRY(directory_finish(dir, error));
    for (size_t i = 0; i < dir->n_tensors; i++) {
        const struct tensor *tensor = &dir->tensors[i];
        const void *bytes;
        uint32_t sum = 0;
        TRY(directory_rows(dir, tensor, 0, tensor->rows, NULL, NULL, &bytes, error));
        for (uint64_t b = 0; b < tensor->bytes; b++)
            sum += ((const unsigned char *)bytes)[b];
        (void)*(volatile uint32_t *)&sum;
    }
    TRY(hf_encoder_rename_tensors(dir, size % 2 ? &hf_bert : &hf_nomic_bert, NULL, &config, error));
    return directory_finish(dir, error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct directory dir = {.file = "fuzz"};
    wisp_error error;
    fuzz_check(read_all(&dir, data, size, &error), &error);
    directory_release(&dir);
    return 0;
}
