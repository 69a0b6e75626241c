/* SPDX-License-Identifier: Apache-2.0
 * Embeddings, by encoders or, in modules that generate, by decoders. */
#include "binding/engine.h"

EXPORT("engine_embed")
wisp_status engine_embed(struct engine *engine, const wisp_text *texts, size_t n,
                         const char *prompt, size_t dimensions, float *rows) {
    const wisp_embed_options options = {.prompt = prompt, .dimensions = dimensions};
    return wisp_embed(engine->session, texts, n, &options, rows, &engine->error);
}
