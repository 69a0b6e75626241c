/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "builder.h"
#include "opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

const char *const activations[ACTIVATIONS] = {"relu", "gelu", "silu"};

void make_texts(struct texts *t) {
    for (size_t i = 0; i < TEXTS; i++) {
        size_t used = 0;
        for (size_t w = 0; w < 1 + i % 9; w++)
            used += (size_t)snprintf(
                t->bytes[i] + used, TEXT_BYTES - used, "%s ",
                tiny_tokens[TINY_SPECIAL + (i * 7 + w * (i + 3)) % (TINY_TOKENS - TINY_SPECIAL)]);
        t->text[i] = (wisp_text){t->bytes[i], used};
    }
}

const char *tiny_model(const char *name, const char *activation) {
    struct gguf file;
    struct bytes bytes = {0};
    gguf_make(&file, strcmp(activation, "silu") == 0 ? &tiny_nomic_q8_0 : &tiny_shape_q8_0);
    gguf_set_text(&file, "wisp.hidden_act", activation);
    gguf_write_bytes(&file, &bytes);
    write_file(name, bytes.data, bytes.size);
    gguf_release(&file);
    bytes_release(&bytes);
    return temporary_path(name);
}

void calibrate_or_fail(const char *input, const char *output, uint32_t threads) {
    struct texts texts;
    const wisp_calibrate_options o = {.sparsity = 0.5f, .rank = 8, .seed = 3, .threads = threads};
    wisp_error error;
    make_texts(&texts);
    if (wisp_calibrate(input, output, texts.text, TEXTS, &o, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

wisp_model *open_with(const char *path, wisp_compute compute, wisp_predictor predictor,
                      const char *kernels) {
    const wisp_model_options o = {.compute = compute, .predictor = predictor, .kernels = kernels};
    wisp_model *model;
    wisp_error error;
    if (wisp_model_open(path, &o, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return model;
}

void embed_or_fail(wisp_session *session, const wisp_text *texts, size_t n, float *rows) {
    wisp_error error;
    if (wisp_embed(session, texts, n, NULL, rows, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

float *layer_floats(const wisp_model *model, const char *name, size_t rows, size_t length) {
    float *values;
    wisp_error error;
    if (directory_load_floats(&model->dir, name, rows, length, &values, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return values;
}

int remove_models(void **state) {
    (void)state;
    remove_temporary_folder();
    return 0;
}
