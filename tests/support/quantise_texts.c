/* SPDX-License-Identifier: Apache-2.0 */
#include "support/quantise_texts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "base/random.h"
#include "quant/blocks.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { TEXTS = QUANTISE_TEXTS, TEXT_BYTES = 100 };

const struct tiny_shape quantise_shape = {
    .hidden = 64, .wide = 128, .layers = 2, .heads = 4, .positions = 32, .type = BLOCK_F32};

void write_shape(const struct tiny_shape *shape, char path[256]) {
    struct gguf file;
    gguf_make(&file, shape);
    snprintf(path, 256, "%s", write_made(&file, "floats.gguf"));
}

const wisp_text *quantise_texts(uint64_t random) {
    static char words[TEXTS][TEXT_BYTES];
    static wisp_text texts[TEXTS];
    for (size_t i = 0; i < TEXTS; i++) {
        size_t length = 0;
        for (uint64_t n = 3 + random_next(&random) % 10; n > 0; n--)
            length += (size_t)snprintf(words[i] + length, TEXT_BYTES - length, "%s ",
                                       tiny_tokens[TINY_SPECIAL + random_next(&random) % 15]);
        texts[i] = wisp_text_of(words[i]);
    }
    return texts;
}

double mean_cosine(const char *path, const char *reference, const wisp_text *texts) {
    static float rows[2][TEXTS * 64];
    wisp_error error;
    for (int i = 0; i < 2; i++) {
        wisp_model *model = open_model_or_fail(i ? reference : path, WISP_COMPUTE_F32, NULL);
        wisp_session *session = open_session_or_fail(model, 1);
        assert_int_equal(wisp_embed(session, texts, TEXTS, NULL, rows[i], &error), WISP_OK);
        wisp_session_close(session);
        wisp_model_close(model);
    }
    double sum = 0;
    for (size_t i = 0; i < TEXTS; i++)
        sum += cosine(rows[0] + i * 64, rows[1] + i * 64, 64);
    return sum / (double)TEXTS;
}
