/* SPDX-License-Identifier: Apache-2.0
 * Generates texts, several at a time: each request gets a sequence of the session, and every pass
 * adds to each sequence either a piece of its prompt or the token that was chosen last. A request
 * joins when a sequence is free, and leaves the sequence when its text has ended. Sequences keep
 * their keys and values between calls, so that a prompt which begins as a known text did is
 * computed from where the two differ. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "engine/generation.h"
#include "engine/reply.h"
#include "engine/requests.h"

/* A request waits while another one's prompt is read that has at least WORTH_WAITING more of its
 * first tokens than any sequence has now. */
enum { WORTH_WAITING = 16, USUAL_AT_ONCE = 8 };

/* A request in a sequence. */
struct slot {
    struct sequence *sequence;
    size_t request;
    struct reply reply;
    int32_t id;   /* chosen last */
    bool reading; /* the sequence does not have the whole prompt yet */
    double since; /* when the request joined, or its prompt was read */
};

/* Returns a sequence without a request: the one that shares most tokens with the prompt, and among
 * those that share as many the one with the shortest text. */
static struct sequence *find_free(const struct requests *r, const struct token_list *prompt) {
    const bool is_long = generation_is_long(r->session, prompt->count);
    struct sequence *best = NULL;
    size_t best_shared = 0;
    for (size_t i = 0; i < r->most; i++) {
        struct sequence *s = &r->session->generation->sequences[i];
        const size_t shared = sequence_shared(s, prompt->ids, prompt->count - 1, is_long);
        bool taken = false;
        for (size_t k = 0; k < r->count; k++)
            taken = taken || r->slots[k].sequence == s;
        if (!taken && (!best || shared > best_shared ||
                       (shared == best_shared && s->past.count < best->past.count))) {
            best = s;
            best_shared = shared;
        }
    }
    return best;
}

/* ---- sliding -------------------------------------------------------------------------------- */

/* Returns how many first tokens of a prompt of n stay when the context slides. */
static size_t kept_tokens(const struct requests *r, size_t request, size_t n) {
    const int32_t first = codec_first_token(r->session->model->codec);
    const bool begins = first >= 0 && r->prompts[request].ids[0] == first;
    /* A sum of keep_tokens, which may be UINT32_MAX, can be too large for size_t. */
    return smaller(r->options[request]->keep_tokens, n - begins) + begins;
}

/* Drops the oldest tokens of a list after the first `kept`, in blocks of half of what the context
 * has besides these, until the list fits. Returns how many. */
static size_t slide(struct token_list *list, size_t kept, size_t context) {
    const size_t block = (context - kept) / 2, over = list->count - smaller(list->count, context);
    const size_t dropped = (over + block - 1) / block * block;
    if (dropped == 0) /* the list may have no ids */
        return 0;
    memmove(list->ids + kept, list->ids + kept + dropped,
            (list->count - kept - dropped) * sizeof *list->ids);
    list->count -= dropped;
    return dropped;
}

/* Shortens a prompt that is longer than the context. */
static wisp_status slide_prompt(struct requests *r, size_t request, wisp_error *error) {
    const size_t context = r->session->model->max_tokens;
    struct token_list *prompt = &r->prompts[request];
    const size_t kept = prompt->count > 0 ? kept_tokens(r, request, prompt->count) : 0;
    if (kept + 2 > context)
        return fail(error, WISP_ERROR_ARGUMENT, r->session->model->dir.file, "keep_tokens",
                    "%zu tokens stay, which leaves less than two of the model's context of %zu",
                    kept, context);
    r->results[request].dropped_tokens = slide(prompt, kept, context);
    return WISP_OK;
}

/* Makes the text so far and the token chosen last a prompt that is read anew: without its oldest
 * part where it fills the context, or as a long text where it has become one. */
static wisp_status read_anew(const struct requests *r, struct slot *slot, wisp_error *error) {
    const size_t context = r->session->model->max_tokens;
    struct token_list *prompt = &r->prompts[slot->request];
    const struct token_list *past = &slot->sequence->past;
    wisp_generation *result = &r->results[slot->request];
    for (size_t i = prompt->count; i < past->count; i++)
        TRY(token_list_add(prompt, past->ids[i], error));
    TRY(token_list_add(prompt, slot->id, error));
    if (prompt->count > context)
        result->dropped_tokens +=
            slide(prompt, kept_tokens(r, slot->request, result->prompt_tokens), context);
    const bool is_long = generation_is_long(r->session, prompt->count);
    const size_t shared = sequence_shared(slot->sequence, prompt->ids, prompt->count - 1, is_long);
    sequence_rewind(slot->sequence, shared, is_long);
    slot->reading = true;
    return WISP_OK;
}

/* ---- passes --------------------------------------------------------------------------------- */

/* Lets the next request join. Sets *waits, and does nothing, where a prompt that is being read has
 * tokens that it can copy soon. */
static wisp_status join(struct requests *r, bool *waits, wisp_error *error) {
    const struct generation *g = r->session->generation;
    const struct token_list *prompt = &r->prompts[r->next];
    const bool is_long = generation_is_long(r->session, prompt->count);
    const struct sequence *source = NULL;
    size_t known = 0;
    for (size_t i = 0; i < g->count; i++) {
        const size_t shared =
            sequence_shared(&g->sequences[i], prompt->ids, prompt->count - 1, is_long);
        if (!source || shared > known) {
            source = &g->sequences[i];
            known = shared;
        }
    }
    for (size_t i = 0; i < r->count; i++) {
        const struct token_list *other = &r->prompts[r->slots[i].request];
        size_t shared = 0;
        while (shared + 1 < prompt->count && shared < other->count &&
               other->ids[shared] == prompt->ids[shared])
            shared++;
        if (r->slots[i].reading && shared >= known + WORTH_WAITING &&
            r->slots[i].sequence->cache.is_long == is_long)
            *waits = true;
    }
    if (*waits)
        return WISP_OK;
    struct slot *slot = &r->slots[r->count];
    *slot = (struct slot){.sequence = find_free(r, prompt),
                          .request = r->next++,
                          .reading = true,
                          .since = clock_seconds()};
    r->count++; /* requests_close releases the reply from now on */
    wisp_generation *result = &r->results[slot->request];
    result->prompt_tokens = prompt->count;
    result->reused_tokens = known;
    const struct token_order *order = NULL;
    if (r->options[slot->request]->grammar)
        TRY(generation_token_order(r->session, &order, error));
    TRY(reply_open(&slot->reply, r->session->model, r->options[slot->request], order, prompt->ids,
                   prompt->count, result, error));
    if (source != slot->sequence && known > 0)
        TRY(sequence_copy(r->session, slot->sequence, source, known, error));
    else
        sequence_rewind(slot->sequence, known, is_long);
    sequence_mark(slot->sequence, prompt->count - 1);
    return WISP_OK;
}

/* Chooses what the next pass adds, and returns the number of additions. */
static size_t plan(const struct requests *r) {
    size_t n = 0, room = PROMPT_TOKENS;
    for (size_t i = 0; i < r->count; i++) {
        const struct slot *slot = &r->slots[i];
        const struct token_list *prompt = &r->prompts[slot->request];
        const size_t done = slot->sequence->past.count;
        struct addition addition = {slot->sequence, &slot->id, 1};
        if (slot->reading) {
            addition.ids = prompt->ids + done;
            addition.n = smaller(prompt->count - done, room);
            room -= addition.n;
        }
        if (addition.n == 0)
            continue;
        r->additions[n] = addition;
        r->added[n++] = i;
    }
    return n;
}

/* Gives slot i the logits after what it has. Sets *left where its text has ended. */
static wisp_status advance(const struct requests *r, size_t i, const float *logits, bool *left,
                           wisp_error *error) {
    struct slot *slot = &r->slots[i];
    wisp_generation *result = &r->results[slot->request];
    bool more;
    const wisp_generate_options *options = r->options[slot->request];
    *left = false;
    if (slot->reading && slot->sequence->past.count < r->prompts[slot->request].count)
        return WISP_OK;
    const double now = clock_seconds();
    if (slot->reading && result->tokens == 0) {
        result->prompt_seconds = now - slot->since;
        slot->since = now;
    } else {
        result->read_bytes += generation_read_bytes(r->session, slot->sequence);
    }
    slot->reading = false;
    TRY(reply_step(&slot->reply, logits, &slot->id, &more, error));
    result->seconds = clock_seconds() - slot->since;
    *left = !more;
    const size_t count = slot->sequence->past.count;
    const bool is_full = options->context_shift && count == r->session->model->max_tokens;
    const bool becomes_long =
        generation_is_long(r->session, count + 1) != slot->sequence->cache.is_long;
    if (more && (is_full || becomes_long))
        TRY(read_anew(r, slot, error));
    if (!more && options->ended)
        options->ended(options->context, result);
    return WISP_OK;
}

bool requests_ended(const struct requests *r) {
    return r->next == r->n && r->count == 0;
}

/* Gives the logits of a pass to the n slots that it added to. */
static wisp_status advance_all(struct requests *r, size_t n, const float *logits,
                               wisp_error *error) {
    const size_t vocabulary = r->session->model->network.config.vocabulary_size;
    for (size_t i = n; i-- > 0;) { /* from the last: the last slot takes the place of a left one */
        bool left;
        TRY(advance(r, r->added[i], logits + i * vocabulary, &left, error));
        if (!left)
            continue;
        reply_release(&r->slots[r->added[i]].reply);
        r->slots[r->added[i]] = r->slots[--r->count];
    }
    return WISP_OK;
}

wisp_status requests_run(struct requests *r, double seconds, wisp_error *error) {
    const double pause_at = clock_seconds() + seconds;
    do {
        const float *logits;
        bool paused;
        if (r->in_pass == 0) {
            for (bool waits = false; r->count < r->most && r->next < r->n && !waits;)
                TRY(join(r, &waits, error));
            const size_t n = plan(r);
            TRY(generation_begin(r->session, r->additions, n, false, error));
            r->in_pass = n;
        }
        TRY(generation_end(r->session, r->additions, r->in_pass, pause_at, &paused, &logits,
                           error));
        if (paused)
            return WISP_OK;
        const size_t n = r->in_pass;
        r->in_pass = 0;
        TRY(advance_all(r, n, logits, error));
    } while (!requests_ended(r) && clock_seconds() < pause_at);
    return WISP_OK;
}

/* Converts the prompts to ids and checks all requests. */
static wisp_status read_requests(struct requests *r, const wisp_request *requests,
                                 wisp_error *error) {
    static const wisp_generate_options defaults = {0};
    const wisp_model *model = r->session->model;
    for (size_t i = 0; i < r->n; i++) {
        const wisp_request *request = &requests[i];
        r->options[i] = request->options ? request->options : &defaults;
        r->results[i] = (wisp_generation){0};
        wisp_status status = WISP_OK;
        if (request->ids) {
            status = check_ids(r->session, request->ids, request->n_ids, error);
            for (size_t t = 0; t < request->n_ids && status == WISP_OK; t++)
                status = token_list_add(&r->prompts[i], request->ids[t], error);
        } else {
            status = require_texts(&request->prompt, 1, error);
            if (status == WISP_OK)
                status = codec_encode(model->codec, request->prompt, true, &r->prompts[i], error);
        }
        if (status == WISP_OK && r->options[i]->context_shift)
            status = slide_prompt(r, i, error);
        if (status == WISP_OK)
            status = check_prompt_length(r->session, r->prompts[i].count, error);
        if (status == WISP_OK)
            status = reply_check(model, r->options[i], error);
        if (status != WISP_OK && r->n > 1 && error) {
            const wisp_error cause = *error;
            snprintf(error->message, sizeof error->message, "request %zu: %.480s", i,
                     cause.message);
        }
        TRY(status);
    }
    return WISP_OK;
}

wisp_status requests_open(struct requests *r, wisp_session *session, const wisp_request *requests,
                          size_t n, size_t at_once, wisp_generation *results, wisp_error *error) {
    *r = (struct requests){.session = session,
                           .n = n,
                           .most = smaller(n, at_once ? at_once : USUAL_AT_ONCE),
                           .owns_results = !results};
    pool_renew(session->team);
    TRY(generation_open(session, r->most, error));
    r->options = calloc(n, sizeof *r->options);
    r->prompts = calloc(n, sizeof *r->prompts);
    r->results = results ? results : calloc(n, sizeof *r->results);
    r->slots = calloc(r->most, sizeof *r->slots);
    r->additions = calloc(r->most, sizeof *r->additions);
    r->added = calloc(r->most, sizeof *r->added);
    if (!r->options || !r->prompts || !r->results || !r->slots || !r->additions || !r->added)
        return fail_memory(error, n * (sizeof *r->prompts + sizeof *r->results));
    return read_requests(r, requests, error);
}

void requests_close(struct requests *r) {
    for (size_t i = 0; i < r->count; i++)
        reply_release(&r->slots[i].reply);
    for (size_t i = 0; r->prompts && i < r->n; i++)
        free(r->prompts[i].ids);
    if (r->owns_results)
        free(r->results);
    free((void *)r->options);
    free(r->prompts);
    free(r->slots);
    free(r->additions);
    free(r->added);
}

wisp_status wisp_generate_batch(wisp_session *session, const wisp_request *requests, size_t n,
                                size_t at_once, wisp_generation *results, wisp_error *error) {
    struct requests r;
    TRY(require(session, "session", error));
    if (n == 0)
        return WISP_OK;
    TRY(require(requests, "requests", error));
    wisp_status status = requests_open(&r, session, requests, n, at_once, results, error);
    if (status == WISP_OK)
        status = requests_run(&r, INFINITY, error);
    requests_close(&r);
    return end_call(session, status, error);
}

wisp_status wisp_generate(wisp_session *session, wisp_text prompt,
                          const wisp_generate_options *options, wisp_generation *result,
                          wisp_error *error) {
    const wisp_request request = {.prompt = prompt, .options = options};
    return wisp_generate_batch(session, &request, 1, 1, result, error);
}
