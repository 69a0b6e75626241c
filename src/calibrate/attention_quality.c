/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/attention_quality.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

/* Adds the nats of id `id` after these logits. */
static void weigh(const float *logits, size_t n, int32_t id, struct attention_prediction *found) {
    double total = 1; /* the id itself */
    for (size_t i = 0; i < n; i++) {
        if (i != (size_t)id)
            total += exp((double)logits[i] - (double)logits[id]);
        if (logits[i] > logits[id])
            found->likeliest = false;
    }
    found->nats += log(total);
}

/* Adds the ids [first, end) of a text, in calls as those of a prompt, and weighs the ids that
 * follow those from `known` - 1 on. */
static wisp_status read_ids(wisp_session *session, const struct attention_text *text, size_t end,
                            struct attention_prediction *found, wisp_error *error) {
    enum { MOST_LOGITS = 1 << 25 };
    const size_t vocabulary = session->model->network.config.vocabulary_size;
    const size_t rows = larger(smaller(MOST_LOGITS / vocabulary, PROMPT_TOKENS), 1);
    for (size_t done = 0, n; done < end; done += n) {
        const bool all = done >= text->known;
        const float *logits;
        n = all ? smaller(end - done, rows)
                : smaller(smaller(text->known, end) - done, PROMPT_TOKENS);
        const struct addition addition = {&session->generation->sequences[0], text->ids + done, n,
                                          false};
        TRY(generation_pass(session, &addition, 1, all, &logits, error));
        if (done + n < text->known)
            continue;
        for (size_t i = all ? 0 : n - 1; i < n && done + i + 1 < text->tokens; i++)
            weigh(logits + (all ? i * vocabulary : 0), vocabulary, text->ids[done + i + 1], found);
    }
    return WISP_OK;
}

wisp_status attention_predict(wisp_session *session, const struct attention_text *text,
                              bool one_by_one, struct attention_prediction *found,
                              wisp_error *error) {
    struct sequence *sequence = &session->generation->sequences[0];
    const size_t vocabulary = session->model->network.config.vocabulary_size;
    const bool is_long = generation_is_long(session, text->tokens);
    *found = (struct attention_prediction){.likeliest = true};
    sequence_rewind(sequence, 0, is_long);
    TRY(read_ids(session, text, one_by_one ? text->known : text->tokens - 1, found, error));
    for (size_t t = text->known; one_by_one && t + 1 < text->tokens; t++) {
        const struct addition addition = {sequence, text->ids + t, 1, false};
        const float *logits;
        TRY(generation_pass(session, &addition, 1, false, &logits, error));
        weigh(logits, vocabulary, text->ids[t + 1], found);
    }
    found->nats /= (double)(text->tokens - text->known);
    return WISP_OK;
}

/* ---- needles -------------------------------------------------------------------------------- */

/* Converts a text. The caller frees the list, also after an error. */
static wisp_status encode(const wisp_model *model, const char *text, struct token_list *list,
                          wisp_error *error) {
    *list = (struct token_list){0};
    return codec_encode(model->codec, wisp_text_of(text), false, list, error);
}

static void put(int32_t **to, const int32_t *ids, size_t n) {
    memcpy(*to, ids, n * sizeof *ids);
    *to += n;
}

wisp_status attention_hide_needle(const wisp_model *model, const int32_t *filler, size_t tokens,
                                  double depth, uint32_t number, int32_t *ids,
                                  struct attention_text *text, wisp_error *error) {
    struct token_list needle, question = {0}, answer = {0};
    char sentence[96], key[16];
    snprintf(key, sizeof key, "%u", 10000 + (number * 19731 + 63914) % 90000);
    snprintf(sentence, sizeof sentence, "\nThe pass key is %s. Remember it. %s is the pass key.\n",
             key, key);
    wisp_status status = encode(model, sentence, &needle, error);
    if (status == WISP_OK)
        status = encode(model, "\nWhat is the pass key? The pass key is ", &question, error);
    if (status == WISP_OK)
        status = encode(model, key, &answer, error);
    const size_t own = needle.count + question.count + answer.count;
    if (status == WISP_OK && tokens < 2 * own)
        status = fail(error, WISP_ERROR_ARGUMENT, NULL, "window",
                      "%zu tokens are too few to hide a sentence in, whose question has %zu",
                      tokens, own);
    if (status == WISP_OK) {
        const size_t rest = tokens - own, at = 1 + (size_t)((double)(rest - 1) * depth);
        int32_t *to = ids;
        put(&to, filler, at);
        put(&to, needle.ids, needle.count);
        put(&to, filler + at, rest - at);
        put(&to, question.ids, question.count);
        put(&to, answer.ids, answer.count);
        *text = (struct attention_text){ids, tokens, tokens - answer.count};
    }
    free(needle.ids);
    free(question.ids);
    free(answer.ids);
    return status;
}

struct attention_use attention_used(const wisp_session *session) {
    struct attention_use use = {0};
    wisp_layer_stats s;
    double visible = 0;
    for (uint32_t l = 0; wisp_session_get_layer_stats(session, l, &s); l++) {
        use.seen += (double)s.keys_seen;
        visible += (double)s.keys_visible;
        use.bytes += (double)s.kv_bytes;
    }
    use.seen /= visible;
    return use;
}
