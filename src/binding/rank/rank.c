/* SPDX-License-Identifier: Apache-2.0
 * Scores of pairs of texts. Modules that only embed, or only generate, do not have them. */
#include "binding/engine.h"

EXPORT("engine_rank")
wisp_status engine_rank(struct engine *engine, const wisp_text *texts, size_t n, float *scores) {
    return wisp_rerank(engine->session, texts[0], texts + 1, n - 1, scores, &engine->error);
}
