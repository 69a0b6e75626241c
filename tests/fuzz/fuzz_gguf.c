/* SPDX-License-Identifier: Apache-2.0
 * Opens any bytes as a GGUF model, as wisp would by itself and with one of the predictors, which
 * compute in int8: it opens and embeds, or gives a typed error. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

struct memory {
    const uint8_t *data;
    size_t size;
};

static int read_memory(void *context, uint64_t offset, void *buffer, size_t length) {
    const struct memory *memory = context;
    if (offset > memory->size || length > memory->size - offset)
        abort();
    memcpy(buffer, memory->data + offset, length);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct memory memory = {data, size};
    const wisp_source source = {.size = size,
                                .data = size % 2 ? data : NULL,
                                .read = read_memory,
                                .context = &memory,
                                .name = "fuzz.gguf"};
    const wisp_model_options choices[] = {
        {0}, {.compute = WISP_COMPUTE_INT8, .predictor = (wisp_predictor)(1 + size / 2 % 4)}};
    for (size_t i = 0; i < 2; i++) {
        wisp_model *model = NULL;
        wisp_error error;
        fuzz_check(wisp_model_open_source(&source, &choices[i], &model, &error), &error);
        fuzz_use(model);
        wisp_model_close(model);
    }
    return 0;
}
