/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/prompt_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "engine/device_texts.h"
#include "engine/generation.h"

/* Digests what the keys and values of a text depend on besides its ids, as far as it cannot change
 * while the session is open. */
static wisp_status digest_session(wisp_session *session, struct sha256 *hash, wisp_error *error) {
    const wisp_model *model = session->model;
    const struct attention_choice *attention = &session->attention;
    unsigned char identity[IDENTITY_BYTES];
    TRY(identify_model(session, identity, error));
    sha256_start(hash);
    sha256_add(hash, identity, sizeof identity);
    TRY(digest_weights(model, hash, error));
    const char *const names[] = {wisp_build(),
                                 model->network.kernels->name,
                                 wisp_predictor_name(model->predictor),
                                 attention->prefill->name,
                                 attention->decode->name,
                                 wisp_cache_type_name(wisp_session_get_cache_type(session))};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        digest_text(hash, names[i], strlen(names[i]));
    const struct attention_settings *const settings[] = {&attention->prefill_settings,
                                                         &attention->decode_settings};
    for (size_t i = 0; i < 2; i++) {
        const struct attention_settings *s = settings[i];
        const size_t numbers[] = {s->window, s->sinks,  s->stride,   s->tokens,
                                  s->mass,   s->budget, s->vertical, s->slash};
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
            digest_number(hash, numbers[n]);
    }
    digest_number(hash, model->compute);
    return WISP_OK;
}

/* Returns the name before the first block of a text that is long or not. */
static struct text_name root_of(const wisp_session *session, bool is_long) {
    const struct model_config *c = &session->model->network.config;
    struct sha256 hash = session->prompts->hash;
    struct text_name root = {{0}};
    if (session->thresholds)
        sha256_add(&hash, session->thresholds,
                   c->intermediate_size * (size_t)c->layers * sizeof *session->thresholds);
    digest_number(&hash, is_long);
    sha256_finish(&hash, root.digest);
    return root;
}

wisp_status prompt_cache_open(wisp_session *session, const struct text_store *store,
                              wisp_error *error) {
    struct prompt_cache *made = calloc(1, sizeof *made);
    wisp_status status = made ? WISP_OK : fail_memory(error, sizeof *made);
    if (status == WISP_OK)
        status = texts_need_host(session->model, "prompt_cache", "a prompt cache", error);
    if (status == WISP_OK && session->model->plan.by_gate)
        status = fail(error, WISP_ERROR_UNSUPPORTED, session->model->dir.file, "prompt_cache",
                      "keys and values of tokens that are generated with the predictor %s are not "
                      "those of prompts, which the cache is for",
                      wisp_predictor_name((size_t)session->model->predictor));
    if (status == WISP_OK)
        status = digest_session(session, &made->hash, error);
    if (status != WISP_OK) {
        free(made);
        store->close(store->context);
        return status;
    }
    made->store = *store;
    session->prompts = made;
    return WISP_OK;
}

bool wisp_session_get_prompt_cache_stats(const wisp_session *session,
                                         wisp_prompt_cache_stats *stats) {
    *stats = session->prompts ? session->prompts->stats : (wisp_prompt_cache_stats){0};
    return session->prompts != NULL;
}

/* ---- reading -------------------------------------------------------------------------------- */

static void note_failure(struct prompt_cache *prompts, const wisp_error *failure) {
    memcpy(prompts->stats.failure, failure->message, sizeof prompts->stats.failure);
}

/* Removes a block that cannot be used, and says why. */
static void drop(struct prompt_cache *prompts, const struct text_name *name,
                 const wisp_error *failure) {
    prompts->store.remove(prompts->store.context, name);
    prompts->stats.damaged_blocks++;
    note_failure(prompts, failure);
}

/* Reads the block of the name r->expected. Returns whether the sequence has it now. */
static bool read_block(struct prompt_cache *prompts, struct sequence *sequence,
                       struct text_block_reader *r, unsigned char *buffer, size_t capacity) {
    const struct text_store *store = &prompts->store;
    int32_t ids[TEXT_BLOCK_TOKENS];
    wisp_error failure;
    size_t length, n;
    bool found;
    wisp_status status =
        store->read(store->context, r->expected, buffer, capacity, &length, &found, &failure);
    if (status == WISP_OK && !found)
        return false;
    const size_t whole = text_block_bytes(sequence, r->first, TEXT_BLOCK_TOKENS);
    if (status == WISP_OK && length != whole)
        status = fail(&failure, WISP_ERROR_FORMAT, r->file, "block",
                      "a block of %zu bytes has %zu: it is damaged", whole, length);
    if (status == WISP_OK)
        status = text_block_read_header(sequence, r, buffer, &n, &failure);
    if (status == WISP_OK && n != TEXT_BLOCK_TOKENS)
        status = fail(&failure, WISP_ERROR_FORMAT, r->file, "tokens", "%zu of a block of %d", n,
                      TEXT_BLOCK_TOKENS);
    if (status == WISP_OK)
        status = text_block_read(sequence, r, buffer, n, ids, &failure);
    if (status != WISP_OK) {
        drop(prompts, r->expected, &failure);
        return false;
    }
    prompts->stats.read_blocks++;
    prompts->stats.read_bytes += length;
    return true;
}

/* Returns the tokens, at most `end`, after which the sequence can go on. */
static size_t usable(const struct sequence *sequence, size_t end) {
    return sequence->conv.layers > 0 ? end / CONV_STATE_EVERY * CONV_STATE_EVERY : end;
}

/* Says that the sequence has the first n ids. */
static wisp_status extend(struct sequence *sequence, const int32_t *ids, size_t n,
                          wisp_error *error) {
    struct conv_state *conv = &sequence->conv;
    const size_t known = sequence->past.count;
    for (size_t i = known; i < n; i++)
        if (token_list_add(&sequence->past, ids[i], error) != WISP_OK) {
            sequence->past.count = known;
            return WISP_ERROR_MEMORY;
        }
    if (conv->mark > known)
        conv->mark = 0; /* its state is that of another text */
    if (n > known)
        conv_state_rewind(conv, n);
    sequence->cache.length = n;
    return WISP_OK;
}

wisp_status prompt_cache_read(wisp_session *session, struct sequence *sequence, const int32_t *ids,
                              size_t n, size_t *known, wisp_error *error) {
    struct prompt_cache *prompts = session->prompts;
    struct workspace *space = &session->workers[0].forward;
    const size_t vocabulary = session->model->network.config.vocabulary_size;
    const double start = clock_seconds();
    struct text_name name;
    char file[2 * IDENTITY_BYTES + 1];
    struct text_block_reader r = {.vocabulary = vocabulary,
                                  .most_tokens = TEXT_BLOCK_TOKENS,
                                  .before = root_of(session, sequence->cache.is_long),
                                  .expected = &name,
                                  .file = file};
    if (usable(sequence, (n - 1) / TEXT_BLOCK_TOKENS * TEXT_BLOCK_TOKENS) <= *known)
        return WISP_OK;
    const size_t capacity =
        text_block_bytes(sequence, CONV_STATE_EVERY - TEXT_BLOCK_TOKENS, TEXT_BLOCK_TOKENS);
    TRY(workspace_reserve(space, capacity, error));
    TRY(sequence_reserve(session, sequence, n, error));
    for (; r.first + TEXT_BLOCK_TOKENS < n && !atomic_load(&session->cancelled);
         r.first += TEXT_BLOCK_TOKENS) {
        name = text_name_after(&r.before, ids + r.first, TEXT_BLOCK_TOKENS);
        sha256_text(name.digest, file);
        if (r.first + TEXT_BLOCK_TOKENS <= *known)
            r.before = name;
        else if (!read_block(prompts, sequence, &r, space->base, capacity))
            break;
    }
    TRY(generation_check(session, error));
    const size_t end = usable(sequence, r.first);
    prompts->stats.read_seconds += clock_seconds() - start;
    if (end > *known) {
        TRY(extend(sequence, ids, end, error));
        prompts->stats.known_tokens += end - *known;
        *known = end;
        prompt_cache_touch(session, sequence);
    } else if (r.first < *known) { /* a block that failed may have changed what was known */
        *known = conv_state_known(&sequence->conv, r.first);
        sequence_rewind(sequence, *known, sequence->cache.is_long);
    }
    return WISP_OK;
}

/* ---- writing -------------------------------------------------------------------------------- */

size_t prompt_cache_write(wisp_session *session, const struct sequence *sequence, size_t done) {
    struct prompt_cache *prompts = session->prompts;
    const struct text_store *store = &prompts->store;
    struct workspace *space = &session->workers[0].forward;
    const size_t blocks = sequence->past.count / TEXT_BLOCK_TOKENS;
    const int32_t *ids = sequence->past.ids;
    const double start = clock_seconds();
    struct text_name name = root_of(session, sequence->cache.is_long);
    bool wrote = false;
    if (blocks <= done)
        return done;
    for (size_t i = 0; i < blocks; i++) {
        const size_t first = i * TEXT_BLOCK_TOKENS;
        wisp_error failure;
        name = text_name_after(&name, ids + first, TEXT_BLOCK_TOKENS);
        if (i < done || store->has(store->context, &name))
            continue;
        const size_t bytes = text_block_bytes(sequence, first, TEXT_BLOCK_TOKENS);
        wisp_status status = workspace_reserve(space, bytes, &failure);
        if (status == WISP_OK) {
            text_block_write(sequence, ids, first, TEXT_BLOCK_TOKENS, &name, space->base);
            if (session->kv_tier) /* else zeros may stand for keys that could not be read */
                status = session->kv_tier->check(session->kv_tier, &failure);
        }
        if (status == WISP_OK) {
            status = store->write(store->context, &name, space->base, bytes, &failure);
        }
        if (status != WISP_OK) { /* the text goes on: another session computes it again */
            prompts->stats.failed_blocks++;
            note_failure(prompts, &failure);
            break;
        }
        prompts->stats.written_blocks++;
        prompts->stats.written_bytes += bytes;
        wrote = true;
    }
    if (wrote)
        prompts->stats.removed_blocks += store->make_room(store->context);
    prompts->stats.write_seconds += clock_seconds() - start;
    return blocks;
}

void prompt_cache_touch(const wisp_session *session, const struct sequence *sequence) {
    const struct text_store *store = &session->prompts->store;
    struct text_name name = root_of(session, sequence->cache.is_long);
    for (size_t i = 0; i < sequence->past.count / TEXT_BLOCK_TOKENS; i++) {
        name =
            text_name_after(&name, sequence->past.ids + i * TEXT_BLOCK_TOKENS, TEXT_BLOCK_TOKENS);
        store->use(store->context, &name, i);
    }
}
