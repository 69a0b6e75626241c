/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/token_vectors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "engine/session.h"
#include "formats/schema.h"

/* ---- settings ------------------------------------------------------------------------------- */

/* Returns the token that the vocabulary spells so; -1 if there is none. WordPiece's begins a word
 * or is special. */
static int32_t find_token(const wisp_model *model, wisp_text word) {
    static const char word_start[] = "\xE2\x96\x81"; /* U+2581, before words of WordPiece */
    const size_t n = tokenizer_vocabulary_size(model->tokenizer);
    const bool words = tokenizer_codec(model->tokenizer) == NULL;
    wisp_text spelling;
    for (int32_t id = 0; (size_t)id < n && wisp_token_spelling(model, id, &spelling); id++) {
        if (words && !tokenizer_piece(model->tokenizer, id).special) {
            const size_t start = strlen(word_start);
            if (spelling.length < start || memcmp(spelling.bytes, word_start, start) != 0)
                continue;
            spelling = (wisp_text){spelling.bytes + start, spelling.length - start};
        }
        if (spelling.length == word.length && memcmp(spelling.bytes, word.bytes, word.length) == 0)
            return id;
    }
    return -1;
}

/* Reads the prompt of a side. If its text or its first word is a token, it may be that this token
 * stands behind the first one of each text. */
static void read_prompt(const wisp_model *model, const char *name, bool has_prefix,
                        struct token_side *side) {
    const char *prompt = wisp_model_prompt(model, name);
    side->prefix = -1;
    side->prompt = wisp_text_of(prompt ? prompt : "");
    if (!has_prefix || side->prompt.length == 0)
        return;
    const size_t lengths[] = {side->prompt.length, strcspn(prompt, " \t\n")};
    for (size_t i = 0; i < 2 && side->prefix < 0 && lengths[i] > 0; i++) {
        side->prefix = find_token(model, (wisp_text){prompt, lengths[i]});
        if (side->prefix >= 0)
            side->prompt = wisp_text_of(prompt + lengths[i]);
    }
}

enum { LEAST = 4 }; /* tokens of a text */

static wisp_status read_limit(const wisp_model *model, const char *key, struct token_side *side,
                              wisp_error *error) {
    side->limit = model->max_tokens;
    TRY(metadata_u32_or(&model->dir, key, &side->limit, error));
    if (side->limit < LEAST)
        return fail(error, WISP_ERROR_FORMAT, model->dir.file, key, "%u tokens are fewer than %d",
                    side->limit, LEAST);
    side->limit = side->limit < model->max_tokens ? side->limit : model->max_tokens;
    return WISP_OK;
}

/* Reads how queries are expanded. Their limit is their length then. */
static wisp_status read_expansion(const wisp_model *model, struct token_settings *s,
                                  wisp_error *error) {
    static const char mask_key[] = "tokenizer.ggml.mask_token_id";
    uint32_t mask = UINT32_MAX;
    TRY(metadata_u32_or(&model->dir, KEY_TOKENS_EXPANDED, &s->expanded, error));
    TRY(metadata_bool_or(&model->dir, KEY_TOKENS_ATTENDS, &s->attends, error));
    if (s->expanded == 0)
        return WISP_OK;
    if (s->expanded < LEAST || s->expanded > model->max_tokens)
        return fail(error, WISP_ERROR_FORMAT, model->dir.file, KEY_TOKENS_EXPANDED,
                    s->expanded < LEAST ? "%u tokens are fewer than %u"
                                        : "%u tokens are more than the %u of a text",
                    s->expanded, s->expanded < LEAST ? LEAST : model->max_tokens);
    /* The last mask token of a query without words is to see one of its tokens. */
    const uint32_t window = model->network.config.window;
    if (!s->attends && window > 0 && s->expanded > window + 2)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, KEY_TOKENS_EXPANDED,
                    "%u tokens, of which the last see none in local layers, which see %u before a "
                    "token",
                    s->expanded, window);
    TRY(metadata_u32_or(&model->dir, mask_key, &mask, error));
    if (mask >= model->network.config.vocabulary_size)
        return fail(error, WISP_ERROR_FORMAT, model->dir.file, mask_key,
                    "no token that can fill queries up");
    s->mask = (int32_t)mask;
    s->queries.limit = s->expanded;
    return WISP_OK;
}

/* Finds the tokens of the words that are skipped. Words that are not tokens do not count. */
static void find_skipped(const wisp_model *model, const struct metadata *words,
                         struct token_settings *s) {
    for (size_t i = 0; words && i < words->count; i++) {
        const int32_t id = find_token(model, words->as.texts[i]);
        if (id >= 0)
            s->skipped[s->n_skipped++] = id;
    }
}

wisp_status token_settings_load(wisp_model *model, wisp_error *error) {
    enum { MOST_WORDS = 4096 };
    const struct metadata *words = directory_find_metadata(&model->dir, KEY_TOKENS_SKIPPED);
    const size_t size = model->network.config.hidden_size;
    bool has_prefix = false;
    if (model->network.config.pooling != POOLING_TOKENS)
        return WISP_OK;
    if (words &&
        (words->type != VALUE_ARRAY || words->element != VALUE_STRING || words->count > MOST_WORDS))
        return fail(error, WISP_ERROR_FORMAT, model->dir.file, KEY_TOKENS_SKIPPED,
                    "not a list of at most %d words", MOST_WORDS);
    if (dense_modules_outputs(&model->network.dense, size) > size)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, TENSOR_DENSE_2 TENSOR_WEIGHT,
                    "vectors of tokens that are longer than their hidden states");
    const size_t room = words ? (size_t)words->count : 0;
    const size_t bytes = sizeof *model->tokens + room * sizeof *model->tokens->skipped;
    struct token_settings *s = model->tokens = calloc(1, bytes);
    if (!s)
        return fail_memory(error, bytes);
    TRY(metadata_bool_or(&model->dir, KEY_TOKENS_PREFIXES, &has_prefix, error));
    read_prompt(model, "query", has_prefix, &s->queries);
    read_prompt(model, "document", has_prefix, &s->documents);
    TRY(read_limit(model, KEY_TOKENS_QUERY_LENGTH, &s->queries, error));
    TRY(read_limit(model, KEY_TOKENS_DOCUMENT_LENGTH, &s->documents, error));
    find_skipped(model, words, s);
    return read_expansion(model, s, error);
}

/* ---- a batch -------------------------------------------------------------------------------- */

static const struct token_side *side_of(const struct token_job *job, const wisp_model *model) {
    return job->queries ? &model->tokens->queries : &model->tokens->documents;
}

static wisp_status encode(const struct token_job *job, const wisp_model *model, wisp_text text,
                          int32_t *ids, size_t *count, size_t *keys, bool *truncated,
                          wisp_error *error) {
    const struct token_settings *s = model->tokens;
    const struct token_side *side = side_of(job, model);
    const bool prefixed = side->prefix >= 0;
    TRY(tokenizer_encode(model->tokenizer, text, side->limit - prefixed, ids, count, truncated,
                         error));
    if (prefixed) { /* behind the first token, if there is one */
        const size_t at = *count > 0;
        memmove(ids + at + 1, ids + at, (*count - at) * sizeof *ids);
        ids[at] = side->prefix;
        ++*count;
    }
    *keys = *count;
    if (!job->queries)
        return WISP_OK;
    while (*count < s->expanded)
        ids[(*count)++] = s->mask;
    *keys = s->attends ? *count : *keys;
    return WISP_OK;
}

static bool is_skipped(const struct token_settings *s, int32_t id) {
    for (size_t i = 0; i < s->n_skipped; i++)
        if (s->skipped[i] == id)
            return true;
    return false;
}

/* Writes a vector, of length 1 if the model says so. Returns false if it is not finite. */
static bool write_vector(const wisp_model *model, const float *from, size_t size, float *to) {
    const double least = 1e-12; /* as torch.nn.functional.normalize has it */
    double squares = 0;
    for (size_t i = 0; i < size; i++)
        squares += (double)from[i] * (double)from[i];
    const double length = sqrt(squares);
    const float scale =
        model->network.config.normalize ? (float)(1 / (length > least ? length : least)) : 1;
    for (size_t i = 0; i < size; i++)
        to[i] = from[i] * scale;
    return isfinite(squares);
}

/* Makes the vectors of a text, whose hidden states are x [tokens, hidden_size], in their place. A
 * vector is no longer than a hidden state, so that it never lies on those that are still needed.
 */
static wisp_status make_vectors(const struct token_job *job, const wisp_model *model,
                                const int32_t *ids, size_t tokens, float *x, size_t *kept,
                                struct workspace space, wisp_error *error) {
    const struct dense_modules *dense = &model->network.dense;
    const size_t hidden = model->network.config.hidden_size;
    const size_t size = dense_modules_outputs(dense, hidden);
    *kept = 0;
    for (size_t first = 0; first < tokens; first += TOKEN_ROWS) {
        const size_t n = smaller(tokens - first, TOKEN_ROWS);
        const float *rows = dense_modules_apply(dense, x + first * hidden, n, false, space);
        for (size_t i = 0; i < n; i++) {
            if (!job->queries && is_skipped(model->tokens, ids[first + i]))
                continue;
            if (!write_vector(model, rows + i * size, size, x + *kept * size))
                return fail(error, WISP_ERROR_FORMAT, model->dir.file, NULL,
                            "the vector of token %zu is not finite", first + i);
            ++*kept;
        }
    }
    return WISP_OK;
}

static wisp_status finish(const struct token_job *job, const wisp_model *model,
                          const struct pass *pass, size_t first, struct workspace space,
                          wisp_error *error) {
    const struct batch *batch = &pass->batch;
    for (size_t i = 0; i < batch->texts; i++) {
        const size_t start = batch->starts[i], tokens = batch->starts[i + 1] - start;
        float *x = pass->x + start * model->network.config.hidden_size;
        size_t kept;
        TRY(make_vectors(job, model, batch->ids + start, tokens, x, &kept, space, error));
        TRY(job->take(job->context, first + i, x, kept, error));
    }
    return WISP_OK;
}

/* ---- vectors as a result -------------------------------------------------------------------- */

struct wisp_token_vectors {
    size_t n, size;
    struct {
        float *rows; /* [count, size] */
        size_t count;
    } text[]; /* [n] */
};

static wisp_status keep_vectors(void *context, size_t text, const float *rows, size_t n,
                                wisp_error *error) {
    wisp_token_vectors *vectors = context;
    const size_t bytes = n * vectors->size * sizeof *rows;
    float *kept = malloc(bytes + 1); /* never of 0 bytes */
    if (!kept)
        return fail_memory(error, bytes);
    memcpy(kept, rows, bytes);
    vectors->text[text].rows = kept;
    vectors->text[text].count = n;
    return WISP_OK;
}

wisp_status wisp_embed_tokens(wisp_session *session, const wisp_text *texts, size_t n,
                              bool are_queries, wisp_token_vectors **vectors, wisp_error *error) {
    TRY(require(vectors, "vectors", error));
    *vectors = NULL;
    TRY(require(session, "session", error));
    TRY(require_texts(texts, n, error));
    const size_t bytes = sizeof **vectors + n * sizeof *(*vectors)->text;
    wisp_token_vectors *made = calloc(1, bytes);
    if (!made)
        return fail_memory(error, bytes);
    made->n = n;
    made->size = wisp_model_dimensions(session->model);
    const struct token_job job = {encode, finish, are_queries, keep_vectors, made};
    const wisp_status status = token_job_run(session, &job, texts, n, error);
    if (status == WISP_OK)
        *vectors = made;
    else
        wisp_token_vectors_close(made);
    return status;
}

const float *wisp_token_vectors_get(const wisp_token_vectors *vectors, size_t text, size_t *count) {
    *count = text < vectors->n ? vectors->text[text].count : 0;
    return text < vectors->n ? vectors->text[text].rows : NULL;
}

void wisp_token_vectors_close(wisp_token_vectors *vectors) {
    for (size_t i = 0; vectors && i < vectors->n; i++)
        free(vectors->text[i].rows);
    free(vectors);
}

/* ---- MaxSim --------------------------------------------------------------------------------- */

float wisp_max_sim(const float *query, size_t n_query, const float *document, size_t n_document,
                   size_t size) {
    double sum = 0;
    for (size_t i = 0; i < n_query && n_document > 0; i++) {
        float most = -INFINITY;
        for (size_t j = 0; j < n_document; j++)
            most = fmaxf(most, wisp_dot(query + i * size, document + j * size, size));
        sum += (double)most;
    }
    return (float)sum;
}

struct scoring {
    const float *query;
    size_t n, size;
    float *scores;
};

static wisp_status score_text(void *context, size_t text, const float *rows, size_t n,
                              wisp_error *error) {
    const struct scoring *s = context;
    (void)error;
    s->scores[text] = wisp_max_sim(s->query, s->n, rows, n, s->size);
    return WISP_OK;
}

wisp_status token_rerank(wisp_session *session, wisp_text query, const wisp_text *texts, size_t n,
                         float *scores, wisp_error *error) {
    wisp_token_vectors *asked;
    TRY(wisp_embed_tokens(session, &query, 1, true, &asked, error));
    struct scoring scoring = {.size = wisp_model_dimensions(session->model), .scores = scores};
    scoring.query = wisp_token_vectors_get(asked, 0, &scoring.n);
    const struct token_job job = {encode, finish, false, score_text, &scoring};
    const wisp_status status = token_job_run(session, &job, texts, n, error);
    wisp_token_vectors_close(asked);
    return status;
}
