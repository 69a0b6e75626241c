/* SPDX-License-Identifier: Apache-2.0
 * Embeddings on disk, by their texts. Native only. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/byte_order.h"
#include "engine/identity.h"
#include "host/row_file.h"

static const uint64_t usual_bytes = UINT64_C(1000000000);

_Static_assert((int)IDENTITY_BYTES == (int)ROW_KEY_BYTES, "files and rows are known by digests");

struct wisp_vector_cache {
    struct row_file file;
    const wisp_model *model;
    atomic_uint_least64_t found, computed, lost, truncated;
};

/* A row of the file has the embedding, zeros behind fewer dimensions, and whether the text was
 * truncated. */
static size_t bytes_of_row(const wisp_model *model) {
    return model->dimensions * sizeof(float) + 1;
}

/* ---- what is computed ----------------------------------------------------------------------- */

static bool is_portable(const wisp_model *model) {
    for (size_t i = 0; wisp_kernels_name(i); i++)
        if (model->network.kernels == kernels_find_portable(wisp_kernels_name(i)))
            return true;
    return false;
}

static void add_policy(struct sha256 *hash, const struct attention_policy *policy,
                       const struct attention_settings *settings) {
    const size_t *numbers = (const size_t *)settings; /* it has nothing else */
    digest_text(hash, policy->name, strlen(policy->name));
    for (size_t i = 0; i < sizeof *settings / sizeof *numbers; i++)
        digest_number(hash, numbers[i]);
}

/* Adds what decides about the bits of a session's embeddings beside the model's files. */
static void add_choices(const wisp_session *session, struct sha256 *hash) {
    const struct model_config *config = &session->model->network.config;
    const bool portable = is_portable(session->model);
    wisp_model_info info;
    wisp_model_get_info(session->model, &info);
    const char *const names[] = {"vectors",    WISP_VERSION,   portable ? "portable" : info.kernels,
                                 info.compute, info.predictor, info.device};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        digest_text(hash, names[i], strlen(names[i]));
    add_policy(hash, session->attention.prefill, &session->attention.prefill_settings);
    if (session->thresholds)
        sha256_add(hash, session->thresholds,
                   (size_t)config->layers * config->intermediate_size * sizeof(float));
    if (session->gates)
        sha256_add(hash, session->gates, config->layers * sizeof *session->gates);
}

/* Adds the embeddings of some texts: what the choices above might not say. */
static wisp_status add_embeddings(wisp_session *session, float *rows, size_t n,
                                  const wisp_text *texts, struct sha256 *hash, wisp_error *error) {
    const size_t values = n * session->model->dimensions;
    TRY(wisp_embed_from_file(session, texts, n, NULL, rows, error));
    swap_file_numbers(rows, values, sizeof *rows);
    sha256_add(hash, rows, values * sizeof *rows);
    return WISP_OK;
}

/* Identifies what the session computes. */
static wisp_status identify(wisp_session *session, unsigned char digest[IDENTITY_BYTES],
                            wisp_error *error) {
    const wisp_text texts[] = {
        wisp_text_of("a"), wisp_text_of("The cat sat on the mat."),
        wisp_text_of("0 1 2 3 4 5 6 7 8 9, \xC3\xA9t\xC3\xA9; (x + y) = z?")};
    enum { TEXTS = sizeof texts / sizeof *texts };
    const size_t bytes = TEXTS * session->model->dimensions * sizeof(float);
    struct sha256 hash;
    sha256_start(&hash);
    add_choices(session, &hash);
    TRY(digest_weights(session->model, &hash, error));
    float *rows = malloc(bytes);
    if (!rows)
        return fail_memory(error, bytes);
    const wisp_status status = add_embeddings(session, rows, TEXTS, texts, &hash, error);
    free(rows);
    sha256_finish(&hash, digest);
    return status;
}

/* ---- the cache ------------------------------------------------------------------------------ */

wisp_status wisp_vector_cache_open(wisp_session *session, const char *folder, uint64_t bytes,
                                   wisp_vector_cache **cache, wisp_error *error) {
    unsigned char digest[IDENTITY_BYTES];
    TRY(require(cache, "cache", error));
    *cache = NULL;
    TRY(require(session, "session", error));
    TRY(require(folder, "vector_cache", error));
    if (session->skip_absent)
        return fail(
            error, WISP_ERROR_UNSUPPORTED, folder, "vector_cache",
            "embeddings without absent neurons are not kept: they depend on what is absent");
    TRY(identify(session, digest, error));
    wisp_vector_cache *made = calloc(1, sizeof *made);
    if (!made)
        return fail_memory(error, sizeof *made);
    made->model = session->model;
    const wisp_status status =
        row_file_open(&made->file, folder, digest, bytes_of_row(session->model),
                      bytes ? bytes : usual_bytes, "another vector cache", error);
    if (status == WISP_OK)
        *cache = made;
    else
        free(made);
    return status;
}

void wisp_vector_cache_close(wisp_vector_cache *cache) {
    if (cache)
        row_file_close(&cache->file);
    free(cache);
}

void wisp_vector_cache_get_stats(const wisp_vector_cache *cache, wisp_vector_cache_stats *stats) {
    *stats = (wisp_vector_cache_stats){.found = atomic_load(&cache->found),
                                       .computed = atomic_load(&cache->computed),
                                       .lost = atomic_load(&cache->lost),
                                       .truncated = atomic_load(&cache->truncated)};
}

/* The texts of a call that the cache does not have, and its memory. */
struct lookup {
    size_t n, truncated; /* the latter of those that it has */
    wisp_text *texts;
    size_t *places;       /* of each in the call */
    unsigned char *keys;  /* [n, ROW_KEY_BYTES] */
    float *rows;          /* [n, dimensions] */
    unsigned char *entry; /* of the file */
};

static void lookup_release(struct lookup *l) {
    free(l->texts);
    free(l->places);
    free(l->keys);
    free(l->rows);
    free(l->entry);
}

static wisp_status lookup_open(struct lookup *l, size_t n, size_t entry_bytes, wisp_error *error) {
    *l = (struct lookup){.texts = malloc(n * sizeof *l->texts),
                         .places = malloc(n * sizeof *l->places),
                         .keys = malloc(n * ROW_KEY_BYTES),
                         .entry = calloc(1, entry_bytes)};
    return l->texts && l->places && l->keys && l->entry
               ? WISP_OK
               : fail_memory(error, n * (sizeof *l->texts + ROW_KEY_BYTES) + entry_bytes);
}

/* Writes the key of a text: a digest of it, of its prompt and of the number of dimensions. */
static void make_key(const char *prompt, size_t dimensions, wisp_text text,
                     unsigned char key[ROW_KEY_BYTES]) {
    struct sha256 hash;
    sha256_start(&hash);
    digest_number(&hash, dimensions);
    digest_text(&hash, prompt, strlen(prompt));
    digest_text(&hash, text.bytes, text.length);
    sha256_finish(&hash, key);
}

/* Reads the rows that the file has, and lists the other texts. */
static void look_up(const wisp_vector_cache *cache, const wisp_text *texts, size_t n,
                    const char *prompt, size_t dimensions, float *rows, struct lookup *l) {
    for (size_t i = 0; i < n; i++) {
        unsigned char *key = l->keys + l->n * ROW_KEY_BYTES;
        make_key(prompt, dimensions, texts[i], key);
        if (row_file_read(&cache->file, key, l->entry)) {
            float *row = rows + i * dimensions;
            memcpy(row, l->entry + ROW_KEY_BYTES, dimensions * sizeof *row);
            swap_file_numbers(row, dimensions, sizeof *row);
            l->truncated += l->entry[ROW_KEY_BYTES + cache->file.row_bytes - 1];
            continue;
        }
        l->texts[l->n] = texts[i];
        l->places[l->n++] = i;
    }
}

/* Sets *truncated to whether a text has more tokens than the model reads. Returns false if there is
 * no memory to find out. */
static bool find_truncated(const wisp_model *model, const char *prompt, wisp_text text,
                           unsigned char *truncated) {
    size_t count = 0;
    const wisp_status status = wisp_count_prompted(model, prompt, text, &count, NULL);
    *truncated = count > model->max_tokens;
    return status == WISP_OK;
}

/* Copies the rows that were computed to their places, and keeps them. Returns how many could not be
 * kept. */
static size_t keep(const wisp_vector_cache *cache, struct lookup *l, const char *prompt,
                   size_t dimensions, float *rows) {
    const size_t bytes = dimensions * sizeof *rows;
    unsigned char *entry_row = l->entry + ROW_KEY_BYTES;
    size_t lost = 0;
    memset(entry_row, 0, cache->file.row_bytes);
    for (size_t i = 0; i < l->n; i++) {
        float *row = l->rows + i * dimensions;
        memcpy(rows + l->places[i] * dimensions, row, bytes);
        swap_file_numbers(row, dimensions, sizeof *row);
        memcpy(l->entry, l->keys + i * ROW_KEY_BYTES, ROW_KEY_BYTES);
        memcpy(entry_row, row, bytes);
        lost += !find_truncated(cache->model, prompt, l->texts[i],
                                &entry_row[cache->file.row_bytes - 1]) ||
                !row_file_write(&cache->file, l->entry);
    }
    return lost;
}

typedef wisp_status embed_function(void *context, const wisp_text *texts, size_t n,
                                   const wisp_embed_options *options, float *rows,
                                   wisp_error *error);

/* Computes the texts that the cache does not have. If one of them is at fault, computes all, so
 * that the error counts the texts as the caller does. */
static wisp_status compute(const struct lookup *l, const wisp_text *texts, size_t n,
                           size_t dimensions, const wisp_embed_options *options,
                           embed_function *embed, void *context, float *rows, wisp_error *error) {
    wisp_status status = embed(context, l->texts, l->n, options, l->rows, error);
    if (l->n == n || (status != WISP_ERROR_ARGUMENT && status != WISP_ERROR_FORMAT))
        return status;
    status = embed(context, texts, n, options, rows, error);
    for (size_t i = 0; i < l->n && status == WISP_OK; i++)
        memcpy(l->rows + i * dimensions, rows + l->places[i] * dimensions,
               dimensions * sizeof *rows);
    return status;
}

wisp_status wisp_vector_cache_embed(
    wisp_vector_cache *cache, const wisp_text *texts, size_t n, const wisp_embed_options *options,
    wisp_status (*embed)(void *context, const wisp_text *texts, size_t n,
                         const wisp_embed_options *options, float *rows, wisp_error *error),
    void *context, float *rows, wisp_error *error) {
    struct lookup l;
    const wisp_embed_options chosen = options ? *options : (wisp_embed_options){0};
    TRY(require(cache, "cache", error));
    TRY(require_texts(texts, n, error));
    const size_t all = cache->model->dimensions;
    const size_t dimensions = chosen.dimensions ? chosen.dimensions : all;
    const char *prompt = chosen.prompt ? chosen.prompt : cache->model->default_prompt;
    if (n == 0)
        return WISP_OK;
    if (chosen.skipped || dimensions > all) /* the latter fails, and says why */
        return embed(context, texts, n, options, rows, error);
    wisp_status status = lookup_open(&l, n, ROW_KEY_BYTES + cache->file.row_bytes, error);
    if (status == WISP_OK)
        look_up(cache, texts, n, prompt, dimensions, rows, &l);
    if (status == WISP_OK && l.n > 0) {
        l.rows = malloc(l.n * dimensions * sizeof *l.rows);
        status = l.rows ? compute(&l, texts, n, dimensions, options, embed, context, rows, error)
                        : fail_memory(error, l.n * dimensions * sizeof *l.rows);
    }
    if (status == WISP_OK) {
        const size_t lost = keep(cache, &l, prompt, dimensions, rows);
        atomic_fetch_add(&cache->found, n - l.n);
        atomic_fetch_add(&cache->computed, l.n);
        atomic_fetch_add(&cache->lost, lost);
        atomic_fetch_add(&cache->truncated, l.truncated);
    }
    lookup_release(&l);
    return status;
}
