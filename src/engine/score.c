/* SPDX-License-Identifier: Apache-2.0
 * Logits and log-probabilities of given tokens. */
#include <string.h>

#include "base/checked.h"
#include "engine/candidates.h"
#include "engine/generation.h"

/* A pass that computes all logits computes at most so many floats of them. */
enum { MOST_LOGITS = 1 << 24 };

/* Receives logits [n, vocabulary_size] that follow the ids from `first` on. */
typedef void take_logits(void *context, size_t first, size_t n, const float *logits);

/* Computes the logits that follow the ids [first, n) of a text. Tokens before `first` that the
 * session's text begins with are not computed again. */
static wisp_status compute(wisp_session *session, const int32_t *ids, size_t n, size_t first,
                           take_logits *take, void *context, wisp_error *error) {
    TRY(require(session, "session", error));
    TRY(require(ids, "ids", error));
    pool_renew(session->team);
    TRY(generation_open(session, 1, error));
    TRY(check_prompt_length(session, n, error));
    TRY(check_ids(session, ids, n, error));
    struct sequence *sequence = &session->generation->sequences[0];
    const size_t vocabulary = session->model->network.config.vocabulary_size;
    const size_t rows = larger(smaller(MOST_LOGITS / vocabulary, PROMPT_TOKENS), 1);
    const bool is_long = generation_is_long(session, n);
    size_t done = sequence_shared(sequence, ids, first, is_long);
    wisp_status status = WISP_OK;
    sequence_rewind(sequence, done, is_long);
    sequence_mark(sequence, first);
    for (size_t step; done < n && status == WISP_OK; done += step) {
        /* The last token before `first` needs no logits, but a pass computes a row anyway. */
        const bool all = done >= first;
        const float *logits;
        step = all ? smaller(n - done, rows) : smaller(first - done, PROMPT_TOKENS);
        status = generation_pass(session, &(struct addition){sequence, ids + done, step, false}, 1,
                                 all, &logits, error);
        if (status == WISP_OK && all)
            take(context, done, step, logits);
    }
    return end_call(session, status, error);
}

struct copied {
    float *to;
    size_t first, vocabulary;
};

static void copy_logits(void *context, size_t first, size_t n, const float *logits) {
    const struct copied *c = context;
    memcpy(c->to + (first - c->first) * c->vocabulary, logits, n * c->vocabulary * sizeof *logits);
}

wisp_status wisp_logits(wisp_session *session, const int32_t *ids, size_t n, float *logits,
                        wisp_error *error) {
    TRY(require(session, "session", error));
    TRY(require(logits, "logits", error));
    struct copied copied = {.to = logits,
                            .vocabulary = session->model->network.config.vocabulary_size};
    return n == 0 ? WISP_OK : compute(session, ids, n, 0, copy_logits, &copied, error);
}

wisp_status wisp_next_logits(wisp_session *session, const int32_t *ids, size_t n, float *logits,
                             wisp_error *error) {
    TRY(require(session, "session", error));
    TRY(require(logits, "logits", error));
    struct copied copied = {
        .to = logits, .first = n - 1, .vocabulary = session->model->network.config.vocabulary_size};
    return compute(session, ids, n, n > 0 ? n - 1 : 0, copy_logits, &copied, error);
}

struct scored {
    float *logprobs; /* [n - first] */
    const int32_t *ids;
    size_t n, first, vocabulary;
};

static void score(void *context, size_t first, size_t n, const float *logits) {
    const struct scored *s = context;
    for (size_t t = first; t < first + n && t + 1 < s->n; t++, logits += s->vocabulary)
        s->logprobs[t + 1 - s->first] =
            (float)((double)logits[s->ids[t + 1]] - log_sum_exp(logits, s->vocabulary));
}

wisp_status wisp_score(wisp_session *session, const int32_t *ids, size_t n, size_t first,
                       float *logprobs, wisp_error *error) {
    TRY(require(session, "session", error));
    TRY(require(logprobs, "logprobs", error));
    if (first == 0 || first >= n)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "first",
                    "%zu is not from 1 to below the %zu tokens", first, n);
    TRY(require(ids, "ids", error));
    const size_t vocabulary = session->model->network.config.vocabulary_size;
    struct scored scored = {logprobs, ids, n, first, vocabulary};
    TRY(check_ids(session, ids, n, error));
    /* Nothing follows the last token: its logits are not needed, and it can be past the context. */
    return compute(session, ids, n - 1, first - 1, score, &scored, error);
}
