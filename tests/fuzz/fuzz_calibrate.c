/* SPDX-License-Identifier: Apache-2.0
 * Calibrates any bytes as a GGUF file. If that succeeds, the result opens with each predictor.
 */
#include "fuzz.h"
#include "fuzz_file.h"

enum { TEXTS = 32 };

static void open_with(const char *path, wisp_predictor predictor) {
    const wisp_model_options options = {.predictor = predictor};
    wisp_model *model = NULL;
    wisp_error error;
    if (wisp_model_open(path, &options, &model, &error) != WISP_OK)
        abort();
    fuzz_use(model);
    wisp_model_close(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const some[] = {"the man is eating food", "a b c", "guitar, some one!",
                                       "[MASK] \xC3\xA9t\xC3\xA9 the the the the"};
    const wisp_calibrate_options options = {.rank = (uint32_t)(size % 4),
                                            .tokens = 80,
                                            .seed = 1,
                                            .sentence = size % 3 == 0,
                                            .predictor_type = size % 5 ? NULL : "q8_0",
                                            .threads = 1 + (uint32_t)(size % 2)};
    wisp_text texts[TEXTS];
    wisp_error error;
    for (size_t i = 0; i < TEXTS; i++)
        texts[i] = wisp_text_of(some[i % 4]);
    const char *output = fuzz_path("output.gguf");
    const wisp_status status =
        wisp_calibrate(fuzz_file("input.gguf", data, size), output, texts, TEXTS, &options, &error);
    /* The model may be too small for the rank, or too narrow for the type. */
    if (status != WISP_ERROR_ARGUMENT ||
        (strcmp(error.field, "rank") != 0 && strcmp(error.field, "predictor_type") != 0))
        fuzz_check(status, &error);
    if (status == WISP_OK) {
        open_with(output, WISP_PREDICTOR_LOWRANK);
        if (options.sentence)
            open_with(output, WISP_PREDICTOR_SENTENCE);
    }
    return 0;
}
