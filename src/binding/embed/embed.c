/* SPDX-License-Identifier: Apache-2.0
 * Embeddings, by encoders or, in modules that generate, by decoders. */
#include "binding/engine.h"

#ifdef HAS_FILES

static wisp_status embed(void *context, const wisp_text *texts, size_t n,
                         const wisp_embed_options *options, float *rows, wisp_error *error) {
    return wisp_embed(context, texts, n, options, rows, error);
}

/* Takes from the vector cache the rows that it has. */
static wisp_status embed_kept(struct engine *engine, const wisp_text *texts, size_t n,
                              const wisp_embed_options *options, float *rows) {
    if (!engine->vectors)
        TRY(wisp_vector_cache_open(engine->session, engine->vector_cache,
                                   engine->vector_cache_bytes, &engine->vectors, &engine->error));
    return wisp_vector_cache_embed(engine->vectors, texts, n, options, embed, engine->session, rows,
                                   &engine->error);
}

#endif

EXPORT("engine_embed")
wisp_status engine_embed(struct engine *engine, const wisp_text *texts, size_t n,
                         const char *prompt, size_t dimensions, float *rows) {
    const wisp_embed_options options = {.prompt = prompt, .dimensions = dimensions};
#ifdef HAS_FILES
    if (engine->vector_cache)
        return embed_kept(engine, texts, n, &options, rows);
#endif
    return wisp_embed(engine->session, texts, n, &options, rows, &engine->error);
}
