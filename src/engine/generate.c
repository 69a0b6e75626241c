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
#include "engine/draft.h"
#include "engine/generation.h"
#include "engine/prompt_cache.h"
#include "engine/reply.h"
#include "engine/requests.h"
#include "engine/residency.h"

/* A request waits while another one's prompt is read that has at least WORTH_WAITING more of its
 * first tokens than any sequence has now. */
enum { WORTH_WAITING = 16, USUAL_AT_ONCE = 8 };

/* A request in a sequence. */
struct slot {
    struct sequence *sequence;
    size_t request;
    struct reply reply;
    int32_t id;         /* chosen last */
    struct draft draft; /* what may follow it */
    size_t kept;        /* blocks of the text that the prompt cache was offered */
    bool reading;       /* the sequence does not have the whole prompt yet */
    double since;       /* when the request joined, or its prompt was read */
    uint64_t file_read; /* residency_read_bytes when its prompt was read */
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
                    "%zu tokens stay, which leaves fewer than two of the model's context of %zu",
                    kept, context);
    r->results[request].dropped_tokens = slide(prompt, kept, context);
    return WISP_OK;
}

/* Makes the text so far and the token chosen last a prompt that is read again: without its oldest
 * part if it fills the context, or as a long text if it has become one. */
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
    slot->kept = 0;
    slot->reading = true;
    return WISP_OK;
}

/* ---- passes --------------------------------------------------------------------------------- */

/* Ends a text by its own error, if its options say that it fails alone. Else returns the status. */
static wisp_status fail_alone(const struct requests *r, size_t request, wisp_status status,
                              const wisp_error *error) {
    const wisp_generate_options *options = r->options[request];
    const bool is_own = status == WISP_ERROR_ARGUMENT || status == WISP_ERROR_UNSUPPORTED;
    if (!is_own || !options->failed || !error)
        return status;
    r->failed[request] = true;
    options->failed(options->context, error);
    return WISP_OK;
}

/* Passes over requests that have failed. */
static void skip_failed(struct requests *r) {
    while (r->next < r->n && r->failed[r->next])
        r->next++;
}

/* Lets the next request join. Sets *waits, and does nothing, if a prompt that is being read has
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
    const struct token_order *order = NULL;
    if (r->options[slot->request]->grammar)
        TRY(generation_token_order(r->session, &order, error));
    TRY(reply_open(&slot->reply, r->session->model, r->options[slot->request], order, prompt->ids,
                   prompt->count, result, error));
    if (source != slot->sequence && known > 0)
        TRY(sequence_copy(r->session, slot->sequence, source, known, error));
    else
        sequence_rewind(slot->sequence, known, is_long);
    if (SOURCES_READ_AGAIN && r->session->prompts)
        TRY(prompt_cache_read(r->session, slot->sequence, prompt->ids, prompt->count, &known,
                              error));
    result->reused_tokens = known;
    sequence_mark(slot->sequence, prompt->count - 1);
    return WISP_OK;
}

/* Lets requests join while there are free sequences. */
static wisp_status join_all(struct requests *r, wisp_error *error) {
    for (bool waits = false; r->count < r->most && r->next < r->n && !waits; skip_failed(r)) {
        const size_t request = r->next, before = r->count;
        const wisp_status status = join(r, &waits, error);
        TRY(fail_alone(r, request, status, error));
        if (status != WISP_OK && r->count > before)
            reply_release(&r->slots[--r->count].reply);
    }
    return WISP_OK;
}

/* Guesses tokens behind the last one of a slot, as far as the context and the limit of tokens let
 * them follow. */
static void guess(const struct requests *r, struct slot *slot) {
    const wisp_generate_options *options = r->options[slot->request];
    const struct token_list *past = &slot->sequence->past;
    const size_t context = r->session->model->max_tokens;
    size_t most = smaller(options->drafts, context - smaller(context, past->count + 1));
    most = smaller(most, slot->reply.most - r->results[slot->request].tokens - 1);
    draft_guess(&slot->draft, past->ids, past->count, slot->id, most);
    while (slot->draft.n > 0 && generation_is_long(r->session, past->count + 1 + slot->draft.n) !=
                                    slot->sequence->cache.is_long)
        slot->draft.n--;
}

/* Chooses what the next pass adds, and returns the number of additions. Sets *all if it adds
 * guesses, whose logits are all needed. While a prompt is read there are none: all of its logits
 * would be computed, too. */
static size_t plan(const struct requests *r, bool *all) {
    size_t n = 0, room = PROMPT_TOKENS;
    bool reads = false;
    *all = false;
    for (size_t i = 0; i < r->count; i++)
        reads = reads || r->slots[i].reading;
    for (size_t i = 0; i < r->count; i++) {
        struct slot *slot = &r->slots[i];
        const struct token_list *prompt = &r->prompts[slot->request];
        const size_t done = slot->sequence->past.count;
        struct addition addition = {slot->sequence, &slot->id, 1, slot->reading};
        if (slot->reading) {
            addition.ids = prompt->ids + done;
            addition.n = smaller(prompt->count - done, room);
            room -= addition.n;
        }
        slot->draft.n = 0;
        if (!reads && r->options[slot->request]->drafts > 0) {
            guess(r, slot);
            addition.ids = slot->draft.ids;
            addition.n = 1 + slot->draft.n;
            *all = *all || slot->draft.n > 0;
        }
        if (addition.n == 0)
            continue;
        r->additions[n] = addition;
        r->added[n++] = i;
    }
    return n;
}

struct mask_wait {
    const wisp_session *session;
    double pause_at;
};

static wisp_status check_mask(void *context, bool *paused, wisp_error *error) {
    const struct mask_wait *wait = context;
    if (atomic_load(&wait->session->cancelled))
        return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    *paused = !isinf(wait->pause_at) && clock_seconds() >= wait->pause_at;
    return WISP_OK;
}

/* Chooses the tokens that follow, for the logits behind the last token and behind each guess that
 * is right. Takes wrong guesses back. */
static wisp_status step(const struct requests *r, struct slot *slot, const float *logits,
                        bool *more, wisp_error *error) {
    const size_t vocabulary = r->session->model->network.config.vocabulary_size;
    const struct draft *draft = &slot->draft;
    struct mask_wait wait = {r->session, INFINITY};
    struct sequence *sequence = slot->sequence;
    wisp_generation *result = &r->results[slot->request];
    size_t right = 0;
    bool paused;
    TRY(reply_step(&slot->reply, logits, &slot->id, more, error));
    for (; *more && right < draft->n && slot->id == draft->ids[1 + right];) {
        right++;
        TRY(reply_prepare(&slot->reply, check_mask, &wait, &paused, error));
        TRY(reply_step(&slot->reply, logits + right * vocabulary, &slot->id, more, error));
    }
    if (right < draft->n)
        sequence_rewind(sequence, sequence->past.count - (draft->n - right),
                        sequence->cache.is_long);
    result->drafted += draft->n;
    result->accepted += right;
    draft_learn(&slot->draft, right);
    return WISP_OK;
}

/* Gives slot i the logits after what it has. Sets *left if its text has ended. */
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
        slot->file_read = residency_read_bytes(r->session->model);
    } else {
        result->read_bytes += generation_read_bytes(r->session, slot->sequence);
        result->file_bytes = residency_read_bytes(r->session->model) - slot->file_read;
    }
    slot->reading = false;
    TRY(step(r, slot, logits, &more, error));
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

/* Computes the masks of all texts that have a grammar: they do not depend on the pass. */
static wisp_status prepare_masks(struct requests *r, double pause_at, bool *paused,
                                 wisp_error *error) {
    struct mask_wait wait = {r->session, pause_at};
    *paused = false;
    for (size_t i = 0; i < r->count && !*paused; i++)
        TRY(reply_prepare(&r->slots[i].reply, check_mask, &wait, paused, error));
    return WISP_OK;
}

bool requests_ended(const struct requests *r) {
    return r->next == r->n && r->count == 0;
}

/* Offers the texts that a pass has added to, and whose prompt it read, to the prompt cache. */
static void keep_prompts(struct requests *r, size_t n) {
    if (!SOURCES_READ_AGAIN || !r->session->prompts)
        return;
    for (size_t i = 0; i < n; i++) {
        struct slot *slot = &r->slots[r->added[i]];
        if (slot->reading)
            slot->kept = prompt_cache_write(r->session, slot->sequence, slot->kept);
    }
}

/* Gives the logits of a pass to the n slots that it added to. */
static wisp_status advance_all(struct requests *r, size_t n, const float *logits,
                               wisp_error *error) {
    const size_t vocabulary = r->session->model->network.config.vocabulary_size;
    size_t row = 0; /* of the logits */
    for (size_t i = 0; i < n; i++)
        row += 1 + r->slots[r->added[i]].draft.n;
    for (size_t i = n; i-- > 0;) { /* from the last: the last slot takes the place of a left one */
        bool left;
        row -= 1 + r->slots[r->added[i]].draft.n;
        const size_t request = r->slots[r->added[i]].request;
        const wisp_status status = advance(r, r->added[i], logits + row * vocabulary, &left, error);
        TRY(fail_alone(r, request, status, error));
        if (status == WISP_OK && !left)
            continue;
        if (SOURCES_READ_AGAIN && r->session->prompts) {
            const struct slot *slot = &r->slots[r->added[i]];
            prompt_cache_write(r->session, slot->sequence, slot->kept);
            prompt_cache_touch(r->session, slot->sequence);
        }
        reply_release(&r->slots[r->added[i]].reply);
        r->slots[r->added[i]] = r->slots[--r->count];
    }
    return WISP_OK;
}

wisp_status requests_run(struct requests *r, double seconds, wisp_error *error) {
    const double pause_at = clock_seconds() + seconds;
    if (requests_ended(r))
        return WISP_OK;
    do {
        const float *logits;
        bool paused;
        if (r->in_pass == 0) {
            TRY(join_all(r, error));
            if (requests_ended(r)) /* the last ones have failed */
                return WISP_OK;
            TRY(prepare_masks(r, pause_at, &paused, error));
            if (paused)
                return WISP_OK;
            bool all;
            const size_t n = plan(r, &all);
            TRY(generation_begin(r->session, r->additions, n, all, error));
            r->in_pass = n;
        }
        TRY(generation_end(r->session, r->additions, r->in_pass, pause_at, &paused, &logits,
                           error));
        if (paused)
            return WISP_OK;
        const size_t n = r->in_pass;
        r->in_pass = 0;
        keep_prompts(r, n);
        TRY(advance_all(r, n, logits, error));
    } while (!requests_ended(r) && clock_seconds() < pause_at);
    return WISP_OK;
}

/* Converts the prompt of a request to ids and checks it. */
static wisp_status read_request(struct requests *r, const wisp_request *request, size_t i,
                                wisp_error *error) {
    const wisp_model *model = r->session->model;
    if (request->ids) {
        TRY(check_ids(r->session, request->ids, request->n_ids, error));
        for (size_t t = 0; t < request->n_ids; t++)
            TRY(token_list_add(&r->prompts[i], request->ids[t], error));
    } else {
        TRY(require_texts(&request->prompt, 1, error));
        TRY(encode_prompt(model, request->prompt, r->options[i], &r->prompts[i], error));
    }
    if (r->options[i]->context_shift)
        TRY(slide_prompt(r, i, error));
    TRY(check_prompt_length(r->session, r->prompts[i].count, error));
    if (r->options[i]->drafts > 0 && model->network.config.conv_taps > 0)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "drafts",
                    "%u, and models with short convolutions cannot take tokens back",
                    r->options[i]->drafts);
    return reply_check(model, r->options[i], error);
}

static wisp_status read_requests(struct requests *r, const wisp_request *requests,
                                 wisp_error *error) {
    static const wisp_generate_options defaults = {0};
    for (size_t i = 0; i < r->n; i++) {
        r->options[i] = requests[i].options ? requests[i].options : &defaults;
        r->results[i] = (wisp_generation){0};
        wisp_error own;
        wisp_status status = read_request(r, &requests[i], i, &own);
        status = fail_alone(r, i, status, &own);
        if (status == WISP_OK)
            continue;
        if (error)
            *error = own;
        if (r->n > 1 && error)
            snprintf(error->message, sizeof error->message, "request %zu: %.480s", i, own.message);
        return status;
    }
    skip_failed(r);
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
    r->failed = calloc(n, sizeof *r->failed);
    r->results = results ? results : calloc(n, sizeof *r->results);
    r->slots = calloc(r->most, sizeof *r->slots);
    r->additions = calloc(r->most, sizeof *r->additions);
    r->added = calloc(r->most, sizeof *r->added);
    if (!r->options || !r->prompts || !r->failed || !r->results || !r->slots || !r->additions ||
        !r->added)
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
    free(r->failed);
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
