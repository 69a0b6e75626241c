/* SPDX-License-Identifier: Apache-2.0
 * Scores texts for a query, as the model does: as a cross-encoder, by vectors of tokens, or by
 * being asked. */
#include "engine/embed.h"
#include "engine/session.h"
#include "engine/token_vectors.h"

wisp_status wisp_rerank(wisp_session *session, wisp_text query, const wisp_text *texts, size_t n,
                        float *scores, wisp_error *error) {
    TRY(require(session, "session", error));
    TRY(require_texts(&query, 1, error));
    TRY(require_texts(texts, n, error));
    if (n > 0)
        TRY(require(scores, "scores", error));
    wisp_embed_give_up(session);
    pool_renew(session->team);
    const wisp_model *model = session->model;
    if (model->network.config.pooling == POOLING_TOKENS)
        return n == 0 ? WISP_OK : token_rerank(session, query, texts, n, scores, error);
    if (rank_by_asking && !config_embeds(&model->network.config))
        return rank_by_asking(session, query, texts, n, scores, error);
    if (model->network.config.pooling != POOLING_RANK)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "pooling_type",
                    "the model does not score pairs of texts: it is not a cross-encoder");
    return pair_job_run(session, query, texts, n, scores, error);
}
