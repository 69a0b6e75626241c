/* SPDX-License-Identifier: Apache-2.0
 * The choice of policies that `auto` stands for: first one for calls that read texts, with full
 * attention for tokens that are added one at a time, then, beside the one that was found, one for
 * these. Each family of policies is tried from its largest budget down, until one does not pass;
 * of what passes, the one that reads fewest bytes is chosen. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "calibrate/attention.h"

enum { MOST_BUDGETS = 7 };

static const double sure_nats = 1; /* of an answer */

/* Policies by budget. */
static const struct family {
    const char *name, *setting; /* NULL: it has no budget */
    bool prefill, decode;       /* for which calls */
    bool exact;                 /* nothing is estimated, so that it is for small models, too */
    bool positions; /* budgets are positions, and one of a whole window leaves out nothing */
    size_t budgets[MOST_BUDGETS];
} families[] = {
    {"mass", "mass", true, true, true, false, {990, 980, 950, 900, 880, 800, 700}},
    {"minference", "budget", true, false, false, false, {80, 60, 45, 30, 20, 10}},
    {"quest", "tokens", false, true, false, true, {4096, 2048, 1024, 512}},
    {"strided,window=1024", "stride", true, true, false, false, {2, 4, 8}},
    {"local", "window", true, true, false, true, {4096, 2048, 1024, 512}},
    {"learned", NULL, true, true, false, false, {1}},
};

/* The state of a search: the best policy so far for one kind of calls. */
struct search {
    struct attention_calibration *c;
    bool one_by_one;
    const char *prefill; /* the policy for the other calls, if one_by_one */
    double full_nats, full_bytes;
    bool finds[MOST_NEEDLES]; /* full attention surely does */
    size_t found;             /* how many */
    char best[ATTENTION_TEXT_BYTES / 2];
    double least; /* bytes of the best one */
};

/* Sets the mean of the nats of the windows to measure on, and what was read for it. */
static wisp_status read_windows(const struct search *search, wisp_session *session, double *nats,
                                struct attention_use *use, wisp_error *error) {
    const struct attention_calibration *c = search->c;
    const size_t predicted =
        smaller(search->one_by_one ? QUALITY_ADDED : QUALITY_READ, c->window / 4);
    *nats = 0;
    for (size_t w = 0; w < c->windows; w++) {
        const struct attention_text text = {c->ids + (c->windows + w) * c->window, c->window,
                                            c->window - predicted};
        struct attention_prediction found;
        TRY(attention_progress(c, "policies", 0, 0, error));
        TRY(attention_predict(session, &text, search->one_by_one, &found, error));
        *nats += found.nats / (double)c->windows;
    }
    *use = attention_used(session);
    return WISP_OK;
}

/* Looks for a hidden sentence. It is found if each token of the answer is the likeliest one, and
 * surely if they cost no more than sure_nats. */
static wisp_status look_for(const struct attention_calibration *c, wisp_session *session,
                            size_t needle, bool *found, bool *surely, wisp_error *error) {
    const int32_t *ids = c->ids + (c->windows + needle % c->windows) * c->window;
    struct attention_prediction prediction;
    struct attention_text text;
    TRY(attention_progress(c, "policies", 0, 0, error));
    TRY(attention_hide_needle(c->model, ids, c->window, (double)needle / (double)c->needles,
                              (uint32_t)needle, c->hidden, &text, error));
    TRY(attention_predict(session, &text, true, &prediction, error));
    *found = prediction.likeliest;
    *surely = *found && prediction.nats * (double)(text.tokens - text.known) <= sure_nats;
    return WISP_OK;
}

static void tell(const struct search *search, const wisp_tried_attention *tried) {
    if (search->c->options->tried)
        search->c->options->tried(search->c->options->context, tried);
}

/* Looks for all hidden sentences with full attention. Those that it does not surely find are not
 * asked of others: which token is the likeliest is chance there. */
static wisp_status find_needles(struct search *search, wisp_session *session, wisp_error *error) {
    for (size_t i = 0; i < search->c->needles; i++) {
        bool found;
        TRY(look_for(search->c, session, i, &found, &search->finds[i], error));
        search->found += search->finds[i];
    }
    return WISP_OK;
}

/* Measures full attention, by which the others are judged. */
static wisp_status measure_full(struct search *search, wisp_session *session,
                                wisp_tried_attention *tried, wisp_error *error) {
    struct attention_use use;
    TRY(read_windows(search, session, &search->full_nats, &use, error));
    search->full_bytes = search->least = use.bytes;
    if (!search->one_by_one) /* else they were looked for before */
        TRY(find_needles(search, session, error));
    tried->perplexity = exp(search->full_nats);
    tried->seen = tried->read = 1;
    tried->hidden = tried->found = (uint32_t)search->found;
    tried->searched = tried->passes = true;
    return WISP_OK;
}

/* Measures another policy. A NaN passes nothing. */
static wisp_status measure(const struct search *search, wisp_session *session,
                           wisp_tried_attention *tried, double *bytes, wisp_error *error) {
    struct attention_use use;
    double nats;
    TRY(read_windows(search, session, &nats, &use, error));
    *bytes = use.bytes;
    tried->perplexity = exp(nats);
    tried->loss = exp(nats - search->full_nats) - 1;
    tried->seen = use.seen;
    tried->read = use.bytes / search->full_bytes;
    tried->hidden = (uint32_t)search->found;
    tried->searched = tried->passes = tried->loss <= (double)search->c->options->loss;
    for (size_t i = 0; i < search->c->needles && tried->passes; i++) {
        bool surely;
        if (!search->finds[i])
            continue;
        TRY(look_for(search->c, session, i, &tried->passes, &surely, error));
        tried->found += tried->passes;
    }
    return WISP_OK;
}

/* Tries a policy for the calls that are searched, and keeps it if it is the best one so far. */
static wisp_status try_policy(struct search *search, const char *policy, bool *passes,
                              wisp_error *error) {
    char policies[ATTENTION_TEXT_BYTES];
    const bool is_full = strcmp(policy, "full") == 0;
    wisp_tried_attention tried = {.policies = policies, .one_by_one = search->one_by_one};
    wisp_session *session;
    double bytes = 0;
    snprintf(policies, sizeof policies, "%s/%s",
             search->one_by_one && !is_full ? search->prefill : policy,
             search->one_by_one ? policy : "full");
    TRY(attention_session(search->c, policies, &session, error));
    const wisp_status status = is_full ? measure_full(search, session, &tried, error)
                                       : measure(search, session, &tried, &bytes, error);
    wisp_session_close(session);
    TRY(status);
    *passes = tried.passes;
    if (is_full || (tried.passes && bytes < search->least)) {
        snprintf(search->best, sizeof search->best, "%s", policy);
        search->least = is_full ? search->least : bytes;
    }
    tell(search, &tried);
    return WISP_OK;
}

/* Tries a family from its largest budget on, as long as they pass. */
static wisp_status try_family(struct search *search, const struct family *family,
                              wisp_error *error) {
    bool passes = true;
    for (size_t i = 0; i < MOST_BUDGETS && family->budgets[i] > 0 && passes; i++) {
        char policy[ATTENTION_TEXT_BYTES / 2];
        if (family->positions && family->budgets[i] >= search->c->window)
            continue;
        if (family->setting)
            snprintf(policy, sizeof policy, "%s,%s=%zu", family->name, family->setting,
                     family->budgets[i]);
        else
            snprintf(policy, sizeof policy, "%s", family->name);
        TRY(try_policy(search, policy, &passes, error));
    }
    return WISP_OK;
}

static wisp_status try_all(struct search *search, wisp_error *error) {
    bool passes;
    TRY(try_policy(search, "full", &passes, error));
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if ((search->one_by_one ? families[i].decode : families[i].prefill) &&
            (families[i].exact || !search->c->small))
            TRY(try_family(search, &families[i], error));
    return WISP_OK;
}

wisp_status attention_find_choice(struct attention_calibration *c, wisp_error *error) {
    struct search prefill = {.c = c};
    TRY(try_all(&prefill, error));
    struct search decode = prefill;
    decode.one_by_one = true;
    decode.prefill = prefill.best;
    TRY(try_all(&decode, error));
    if (strcmp(prefill.best, decode.best) == 0)
        snprintf(c->choice, sizeof c->choice, "%s", prefill.best);
    else
        snprintf(c->choice, sizeof c->choice, "%s/%s", prefill.best, decode.best);
    return WISP_OK;
}
