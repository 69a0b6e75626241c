/* SPDX-License-Identifier: Apache-2.0
 * Beam search: keeps the texts of the highest probability so far, adds a token to all of them in
 * one pass, and keeps the best of the results. If several of these continue one text, it is
 * copied; keys and values that two texts already have in common are neither copied nor computed
 * again. Counts and stops as Hugging Face transformers does with early_stopping=False. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/number_text.h"
#include "engine/beams.h"
#include "engine/candidates.h"
#include "engine/generation.h"
#include "engine/reply.h"

enum { USUAL_BEAMS = 4, MOST_BEAMS = 64 };

/* A text that goes on or has ended. */
struct beam {
    struct sequence *sequence; /* of a running one */
    int32_t *ids;              /* [most]: generated, without a token that ended it */
    size_t n;
    double logprob; /* sum over the generated tokens, with the one that ended it */
    double score;   /* of an ended one */
    wisp_end end;
};

/* A token that may follow a running beam. */
struct extension {
    size_t beam;
    int32_t id;
    double logprob; /* of the whole text */
};

struct beam_search {
    wisp_session *session;
    wisp_beam_options options;
    struct token_list prompt;
    size_t beams, most, keep; /* `keep` extensions are looked at in each step */
    size_t vocabulary;
    struct beam *all;                    /* [3 * beams]: the memory of running, next and ended */
    struct beam *running, *next, *ended; /* [beams]; `ended` has the highest score first */
    size_t n_running, n_ended;
    int32_t *ids;                 /* the beams' ids */
    struct candidate *candidates; /* [vocabulary] */
    struct extension *extensions; /* [beams * keep] */
    struct addition *additions;   /* [beams] */
    size_t in_pass;               /* additions of a pass that is paused */
    bool reads;          /* the pass reads what comes before the tokens chosen last (plan) */
    size_t length;       /* of the running texts; 0 while the prompt is read */
    wisp_end length_end; /* why a text of `most` tokens ends */
    bool is_done;
};

static bool ends(const struct beam_search *s, int32_t id) {
    return token_ends_text(s->session->model->codec, s->options.stop_id, s->options.stop_ids, id);
}

static int likelier_first(const void *a, const void *b) {
    const struct extension *x = a, *y = b;
    if (x->logprob != y->logprob)
        return x->logprob > y->logprob ? -1 : 1;
    return x->beam != y->beam ? (x->beam < y->beam ? -1 : 1) : x->id - y->id;
}

/* Fills the extensions with the likeliest of all running beams, and returns their number. */
static size_t extend(const struct beam_search *s, const float *logits) {
    size_t n = 0;
    const size_t each = smaller(s->keep, s->vocabulary);
    for (size_t b = 0; b < s->n_running; b++, logits += s->vocabulary) {
        const double log_sum = log_sum_exp(logits, s->vocabulary);
        for (size_t i = 0; i < s->vocabulary; i++)
            s->candidates[i] = (struct candidate){.id = (int32_t)i, .rank = logits[i]};
        candidates_select(s->candidates, s->vocabulary, each);
        for (size_t i = 0; i < each; i++)
            s->extensions[n++] = (struct extension){b, s->candidates[i].id,
                                                    s->running[b].logprob +
                                                        ((double)s->candidates[i].rank - log_sum)};
    }
    qsort(s->extensions, n, sizeof *s->extensions, likelier_first);
    return smaller(n, s->keep);
}

/* Keeps a text that has ended if it is among the best. */
static void keep_ended(struct beam_search *s, const struct extension *e, size_t length,
                       bool by_token) {
    const struct beam *beam = &s->running[e->beam];
    const double score = e->logprob / pow((double)length, (double)s->options.length_penalty);
    size_t at = s->n_ended;
    while (at > 0 && score > s->ended[at - 1].score)
        at--;
    if (at == s->beams)
        return;
    if (s->n_ended < s->beams)
        s->n_ended++;
    const struct beam last = s->ended[s->n_ended - 1]; /* whose ids are free */
    memmove(&s->ended[at + 1], &s->ended[at], (s->n_ended - 1 - at) * sizeof *s->ended);
    struct beam *kept = &s->ended[at];
    *kept = (struct beam){.ids = last.ids,
                          .n = beam->n,
                          .logprob = e->logprob,
                          .score = score,
                          .end = by_token ? WISP_END_TOKEN : s->length_end};
    memcpy(kept->ids, beam->ids, beam->n * sizeof *kept->ids);
    if (!by_token)
        kept->ids[kept->n++] = e->id;
}

/* Makes the extensions [n], of distinct texts, the running beams. The first extension of a beam
 * keeps its sequence; the others get copies in sequences that no beam needs. */
static wisp_status run_on(struct beam_search *s, const struct extension *extensions, size_t n,
                          wisp_error *error) {
    struct generation *g = s->session->generation;
    bool kept[MOST_BEAMS] = {false}, used[MOST_BEAMS] = {false};
    for (size_t i = 0; i < n; i++) {
        const struct extension *e = &extensions[i];
        const struct beam *from = &s->running[e->beam];
        struct beam *to = &s->next[i];
        memcpy(to->ids, from->ids, from->n * sizeof *to->ids);
        to->ids[from->n] = e->id;
        to->n = from->n + 1;
        to->logprob = e->logprob;
        to->sequence = kept[e->beam] ? NULL : from->sequence;
        kept[e->beam] = true;
        if (to->sequence)
            used[to->sequence - g->sequences] = true;
    }
    for (size_t i = 0, spare = 0; i < n; i++) {
        if (s->next[i].sequence)
            continue;
        while (used[spare])
            spare++;
        used[spare] = true;
        s->next[i].sequence = &g->sequences[spare];
        const struct sequence *from = s->running[extensions[i].beam].sequence;
        TRY(sequence_copy(s->session, s->next[i].sequence, from, from->past.count, error));
    }
    struct beam *swapped = s->running;
    s->running = s->next;
    s->next = swapped;
    s->n_running = n;
    const bool is_long = generation_is_long(s->session, s->prompt.count + s->running[0].n);
    for (size_t i = 0; i < n; i++)
        if (s->running[i].sequence->cache.is_long != is_long)
            sequence_rewind(s->running[i].sequence, 0, is_long);
    return WISP_OK;
}

/* Adds a token to the running beams, whose logits these are. The first call has those of the
 * prompt. */
static wisp_status step(struct beam_search *s, const float *logits, wisp_error *error) {
    const size_t length = ++s->length;
    const size_t n = extend(s, logits);
    size_t going = 0;
    for (size_t i = 0; i < n; i++) {
        const struct extension e = s->extensions[i];
        const bool by_token = ends(s, e.id);
        if (!by_token && length < s->most) {
            if (going < s->beams) /* in place: going <= i */
                s->extensions[going++] = e;
        } else if (i < s->beams) {
            keep_ended(s, &e, length, by_token);
        }
    }
    s->is_done = going == 0;
    if (s->is_done)
        return WISP_OK;
    TRY(run_on(s, s->extensions, going, error));
    const double best =
        s->running[0].logprob / pow((double)length, (double)s->options.length_penalty);
    s->is_done = s->n_ended == s->beams && best <= s->ended[s->n_ended - 1].score;
    return WISP_OK;
}

/* Chooses what the next pass adds, and returns the number of additions. Sets *reads if that is
 * not the last token of each running beam, but what comes before it: a part of the prompt, or of a
 * text that has become long and is read again. */
static size_t plan(const struct beam_search *s, bool *reads) {
    const size_t prompt = s->prompt.count;
    *reads = true;
    for (size_t b = 0; b < s->n_running; b++) {
        const struct beam *beam = &s->running[b];
        const size_t done = beam->sequence->past.count, before = prompt + beam->n - (beam->n > 0);
        const int32_t *ids = done < prompt ? s->prompt.ids + done : beam->ids + (done - prompt);
        const size_t left = (done < prompt ? prompt : before) - done;
        if (left == 0)
            continue;
        s->additions[0] =
            (struct addition){beam->sequence, ids, smaller(left, PROMPT_TOKENS), true};
        return 1;
    }
    *reads = false;
    for (size_t b = 0; b < s->n_running; b++)
        s->additions[b] = (struct addition){s->running[b].sequence,
                                            &s->running[b].ids[s->running[b].n - 1], 1, false};
    return s->n_running;
}

/* Hands out the ended texts, the best first. */
static wisp_status hand_out(const struct beam_search *s, wisp_error *error) {
    const struct codec *codec = s->session->model->codec;
    for (size_t i = 0; i < s->n_ended; i++) {
        const struct beam *beam = &s->ended[i];
        size_t length = 0;
        for (size_t t = 0; t < beam->n; t++)
            length += codec_decode(codec, beam->ids[t]).length;
        char *text = malloc(length + 1), *at = text;
        if (!text)
            return fail_memory(error, length + 1);
        for (size_t t = 0; t < beam->n; t++) {
            const wisp_text token = codec_decode(codec, beam->ids[t]);
            if (token.length > 0)
                memcpy(at, token.bytes, token.length);
            at += token.length;
        }
        const wisp_hypothesis hypothesis = {.text = {text, length},
                                            .ids = beam->ids,
                                            .tokens = beam->n,
                                            .logprob = beam->logprob,
                                            .score = beam->score,
                                            .end = beam->end};
        s->options.hypothesis(s->options.context, &hypothesis);
        free(text);
    }
    return WISP_OK;
}

bool beams_ended(const struct beam_search *search) {
    return search->is_done;
}

wisp_status beams_run(struct beam_search *s, double seconds, wisp_error *error) {
    const double pause_at = clock_seconds() + seconds;
    do {
        const float *logits;
        bool paused;
        if (s->in_pass == 0) {
            const size_t n = plan(s, &s->reads);
            TRY(generation_begin(s->session, s->additions, n, false, error));
            s->in_pass = n;
        }
        TRY(generation_end(s->session, s->additions, s->in_pass, pause_at, &paused, &logits,
                           error));
        if (paused)
            return WISP_OK;
        s->in_pass = 0;
        const bool begins = s->length == 0 && s->running[0].sequence->past.count == s->prompt.count;
        if (begins || !s->reads)
            TRY(step(s, logits, error));
    } while (!s->is_done && clock_seconds() < pause_at);
    return s->is_done ? hand_out(s, error) : WISP_OK;
}

/* Takes the memory of the search, and lets it begin with what the first sequence knows of the
 * prompt. */
static wisp_status prepare(struct beam_search *s, wisp_error *error) {
    size_t end_tokens = 0;
    for (size_t id = 0; id < s->vocabulary; id++)
        end_tokens += ends(s, (int32_t)id);
    s->keep = larger(2, 1 + end_tokens) * s->beams;
    /* Some have one item too many, because calloc(0) may be NULL. */
    s->all = calloc(3 * s->beams, sizeof *s->all);
    s->ids = calloc(3 * s->beams, (s->most + 1) * sizeof *s->ids);
    s->candidates = malloc((s->vocabulary + 1) * sizeof *s->candidates);
    s->extensions = calloc(s->beams, (smaller(s->keep, s->vocabulary) + 1) * sizeof *s->extensions);
    s->additions = calloc(s->beams, sizeof *s->additions);
    if (!s->all || !s->ids || !s->candidates || !s->extensions || !s->additions)
        return fail_memory(error, 3 * s->beams * s->most * sizeof *s->ids);
    for (size_t i = 0; i < 3 * s->beams; i++)
        s->all[i].ids = s->ids + i * s->most;
    s->running = s->all;
    s->next = s->running + s->beams;
    s->ended = s->next + s->beams;
    struct sequence *first = &s->session->generation->sequences[0];
    s->running[0].sequence = first;
    s->n_running = 1;
    const bool is_long = generation_is_long(s->session, s->prompt.count);
    const size_t shared = sequence_shared(first, s->prompt.ids, s->prompt.count - 1, is_long);
    sequence_rewind(first, shared, is_long);
    sequence_mark(first, s->prompt.count - 1);
    return WISP_OK;
}

static wisp_status check(const wisp_beam_options *o, wisp_error *error) {
    TRY(require(o, "options", error));
    TRY(require((const void *)(uintptr_t)o->hypothesis, "hypothesis", error));
    if (o->stop_ids > 0)
        TRY(require(o->stop_id, "stop_id", error));
    if (o->beams > MOST_BEAMS)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "beams", "%u is more than %d", o->beams,
                    MOST_BEAMS);
    if (!(o->length_penalty >= -100 && o->length_penalty <= 100))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "length_penalty",
                    "%s is not between -100 and 100",
                    number_text((double)o->length_penalty, 6).text);
    return WISP_OK;
}

static wisp_status open_search(struct beam_search *s, wisp_text prompt, wisp_error *error) {
    wisp_session *session = s->session;
    const uint32_t max_tokens = s->options.max_tokens;
    TRY(generation_open(session, s->beams, error));
    TRY(encode_prompt(session->model, prompt, NULL, &s->prompt, error));
    TRY(check_prompt_length(session, s->prompt.count, error));
    const size_t room = session->model->max_tokens - s->prompt.count + 1;
    s->most = max_tokens ? smaller(max_tokens, room) : room;
    s->length_end = s->most == max_tokens ? WISP_END_LENGTH : WISP_END_CONTEXT;
    return prepare(s, error);
}

wisp_status beams_open(struct beam_search **search, wisp_session *session, wisp_text prompt,
                       const wisp_beam_options *options, wisp_error *error) {
    *search = NULL;
    TRY(require_texts(&prompt, 1, error));
    TRY(check(options, error));
    pool_renew(session->team);
    struct beam_search *s = calloc(1, sizeof *s);
    if (!s)
        return fail_memory(error, sizeof *s);
    s->session = session;
    s->options = *options;
    s->beams = options->beams ? options->beams : USUAL_BEAMS;
    s->vocabulary = session->model->network.config.vocabulary_size;
    const wisp_status status = open_search(s, prompt, error);
    if (status == WISP_OK)
        *search = s;
    else
        beams_close(s);
    return status;
}

void beams_close(struct beam_search *s) {
    if (!s)
        return;
    free(s->all);
    free(s->ids);
    free(s->candidates);
    free(s->extensions);
    free(s->additions);
    free(s->prompt.ids);
    free(s);
}

wisp_status wisp_beam_search(wisp_session *session, wisp_text prompt,
                             const wisp_beam_options *options, wisp_error *error) {
    struct beam_search *search;
    TRY(require(session, "session", error));
    wisp_status status = beams_open(&search, session, prompt, options, error);
    if (status == WISP_OK)
        status = beams_run(search, INFINITY, error);
    beams_close(search);
    return end_call(session, status, error);
}
