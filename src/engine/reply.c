/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/reply.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/checked.h"

bool token_ends_text(const struct codec *codec, const int32_t *stop_id, size_t stop_ids,
                     int32_t id) {
    for (size_t i = 0; i < stop_ids; i++)
        if (stop_id[i] == id)
            return true;
    return codec_is_end(codec, id);
}

wisp_status reply_check(const wisp_model *model, const wisp_generate_options *options,
                        wisp_error *error) {
    if (options->stops > 0)
        TRY(require((const void *)options->stop, "stop", error));
    for (size_t i = 0; i < options->stops; i++)
        TRY(require(options->stop[i], "stop", error));
    if (options->stop_ids > 0)
        TRY(require(options->stop_id, "stop_id", error));
    for (size_t i = 0; i < options->stop_ids; i++)
        if (options->stop_id[i] < 0 ||
            (size_t)options->stop_id[i] >= model->network.config.vocabulary_size)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, "stop_id",
                        "id %d, but there are %u tokens", options->stop_id[i],
                        model->network.config.vocabulary_size);
    return sampler_check(&options->sampling, model->network.config.vocabulary_size, error);
}

wisp_status reply_open(struct reply *reply, const wisp_model *model,
                       const wisp_generate_options *options, const struct token_order *order,
                       const int32_t *prompt, size_t n, wisp_generation *result,
                       wisp_error *error) {
    const size_t vocabulary = model->network.config.vocabulary_size;
    *reply = (struct reply){.codec = model->codec,
                            .options = options,
                            .result = result,
                            .held = {.stop = options->stop, .stops = options->stops},
                            .likely_count = smaller(options->logprobs, vocabulary),
                            .most = options->context_shift ? SIZE_MAX : model->max_tokens - n + 1};
    if (options->max_tokens > 0)
        reply->most = smaller(reply->most, options->max_tokens);
    if (reply->likely_count > 0) {
        reply->likely = malloc(reply->likely_count * sizeof *reply->likely);
        if (!reply->likely)
            return fail_memory(error, reply->likely_count * sizeof *reply->likely);
    }
    if (options->grammar)
        TRY(token_mask_open(&reply->mask, options->grammar, model->codec, order, options->stop_id,
                            options->stop_ids, error));
    TRY(sampler_open(&reply->sampler, &options->sampling, vocabulary, error));
    for (size_t i = 0; i < n; i++)
        TRY(sampler_count(&reply->sampler, prompt[i], error));
    return WISP_OK;
}

void reply_release(struct reply *reply) {
    sampler_release(&reply->sampler);
    token_mask_release(&reply->mask);
    held_text_release(&reply->held);
    free(reply->likely);
    *reply = (struct reply){0};
}

/* Hands out the first n bytes of the held text. Sets *more to whether the caller wants more. */
static wisp_status hand_out(struct reply *reply, wisp_piece *piece, size_t n, bool *more,
                            wisp_error *error) {
    const wisp_generate_options *o = reply->options;
    TRY(held_text_take(&reply->held, n, &piece->text, error));
    *more = !o->piece || o->piece(o->context, piece);
    held_text_drop(&reply->held, n);
    return WISP_OK;
}

/* Computes the most likely tokens. Returns the logarithm by which probabilities are normalised. */
static double rank_likely(struct reply *reply, const float *logits) {
    struct candidate *c = reply->sampler.candidates;
    const size_t size = reply->sampler.vocabulary_size;
    const double log_sum = log_sum_exp(logits, size);
    for (size_t i = 0; i < size; i++)
        c[i] = (struct candidate){.id = (int32_t)i, .rank = logits[i]};
    candidates_select(c, size, reply->likely_count);
    for (size_t i = 0; i < reply->likely_count; i++)
        reply->likely[i] = (wisp_token_value){c[i].id, (float)((double)c[i].rank - log_sum)};
    return log_sum;
}

wisp_status reply_prepare(struct reply *reply, mask_check *check, void *context, bool *paused,
                          wisp_error *error) {
    *paused = false;
    return reply->options->grammar ? token_mask_prepare(&reply->mask, check, context, paused, error)
                                   : WISP_OK;
}

wisp_status reply_step(struct reply *reply, const float *logits, int32_t *id, bool *more,
                       wisp_error *error) {
    wisp_generation *result = reply->result;
    wisp_piece piece = {.likely = reply->likely, .likely_count = reply->likely_count};
    const double log_sum = reply->likely ? rank_likely(reply, logits) : 0;
    const bool constrained = reply->options->grammar != NULL;
    const uint8_t *allowed = NULL;
    *more = false;
    if (constrained && !grammar_state_goes_on(&reply->mask.state) &&
        grammar_state_is_complete(&reply->mask.state)) { /* the grammar has only the empty text */
        result->end = WISP_END_GRAMMAR;
        return WISP_OK;
    }
    if (constrained)
        TRY(token_mask_allowed(&reply->mask, &allowed, error));
    TRY(sampler_next(&reply->sampler, logits, allowed, id, error));
    if (token_ends_text(reply->codec, reply->options->stop_id, reply->options->stop_ids, *id)) {
        result->end = WISP_END_TOKEN;
        piece = (wisp_piece){.id = -1};
        bool ignored;
        return reply->held.length > 0 ? hand_out(reply, &piece, reply->held.length, &ignored, error)
                                      : WISP_OK;
    }
    if (constrained)
        TRY(token_mask_read(&reply->mask, *id, error));
    piece.id = *id;
    piece.logprob = reply->likely ? (float)((double)logits[*id] - log_sum) : 0;
    TRY(sampler_count(&reply->sampler, *id, error));
    TRY(held_text_add(&reply->held, codec_decode(reply->codec, *id), error));
    result->tokens++;
    size_t ready = 0;
    if (held_text_cut(&reply->held))
        result->end = WISP_END_STOP;
    else if (constrained && !grammar_state_goes_on(&reply->mask.state))
        result->end = WISP_END_GRAMMAR;
    else if (result->tokens == reply->most)
        result->end =
            reply->most == reply->options->max_tokens ? WISP_END_LENGTH : WISP_END_CONTEXT;
    else
        *more = true;
    ready = *more ? held_text_ready(&reply->held) : reply->held.length;
    bool is_wanted;
    TRY(hand_out(reply, &piece, ready, &is_wanted, error));
    if (!is_wanted && *more) {
        *more = false;
        result->end = WISP_END_CALLER;
    }
    return WISP_OK;
}
