/* SPDX-License-Identifier: Apache-2.0
 * Part of wisp.h: a vector for each token of a text, and embeddings that are kept on disk, so that
 * a text is not embedded twice. Native only, but for wisp_max_sim.
 */
#ifndef WISP_VECTORS_H
#define WISP_VECTORS_H

#ifndef WISP_H
#error "include wisp.h, which includes this header"
#endif

/* The vectors of the tokens of some texts. */
typedef struct wisp_token_vectors wisp_token_vectors;

/* Computes a vector for each token of `n` texts, with a model whose pooling is "tokens" (ColBERT).
 * Queries get the prompt "query" and, if the model says so, mask tokens up to a number of tokens;
 * documents get the prompt "document", and words that the model says, usually punctuation, have no
 * vectors. wisp_rerank scores texts by such vectors (MaxSim). WISP_ERROR_UNSUPPORTED if the model
 * makes none. Native only. */
WISP_API wisp_status wisp_embed_tokens(wisp_session *session, const wisp_text *texts, size_t n,
                                       bool are_queries, wisp_token_vectors **vectors,
                                       wisp_error *error);

/* Returns the vectors [*count, wisp_model_dimensions] of a text, which live as long as `vectors`.
 */
WISP_API const float *wisp_token_vectors_get(const wisp_token_vectors *vectors, size_t text,
                                             size_t *count);

WISP_API void wisp_token_vectors_close(wisp_token_vectors *vectors);

/* Returns the sum, over the vectors query [n_query, size], of the largest product with one of
 * document [n_document, size]; 0 if one of them has none. */
WISP_API float wisp_max_sim(const float *query, size_t n_query, const float *document,
                            size_t n_document, size_t size);

/* A file of embeddings of a model, by their texts. Threads and processes may use it at the same
 * time, each process by an object of its own. What is damaged counts as absent. */
typedef struct wisp_vector_cache wisp_vector_cache;

/* Opens the file for what the session computes, in a folder of this user, and makes both if they do
 * not exist. The file is known by the bytes of the model's files, by all that decides about the
 * bits of embeddings, and by the version of the library; that of a portable model
 * (wisp_model_options) has the same entries on every machine. It has at most `bytes`, 0 for 1 GB:
 * then embeddings go that were used longest ago. Files of others that no process uses are deleted,
 * those used longest ago first, until all in the folder have at most `bytes`. Uses the session only
 * during the call.
 *
 * Fails as wisp_embed_from_file does, and with WISP_ERROR_UNSUPPORTED if the model's files cannot
 * be read again or the session leaves out absent neurons. */
WISP_API wisp_status wisp_vector_cache_open(wisp_session *session, const char *folder,
                                            uint64_t bytes, wisp_vector_cache **cache,
                                            wisp_error *error);

WISP_API void wisp_vector_cache_close(wisp_vector_cache *cache);

/* Writes the embeddings of n texts to rows [n, dimensions] as wisp_embed does. `embed`, which does
 * what wisp_embed does with some session or service, is called with the texts that the cache does
 * not have, and their rows are kept; again with all texts if one of these is at fault, so that the
 * error counts them all. A row that cannot be kept, as on a full disk, is not an error. */
WISP_API wisp_status wisp_vector_cache_embed(
    wisp_vector_cache *cache, const wisp_text *texts, size_t n, const wisp_embed_options *options,
    wisp_status (*embed)(void *context, const wisp_text *texts, size_t n,
                         const wisp_embed_options *options, float *rows, wisp_error *error),
    void *context, float *rows, wisp_error *error);

typedef struct wisp_vector_cache_stats {
    uint64_t found, computed; /* texts */
    uint64_t lost;            /* of those that were computed, that could not be kept */
    uint64_t truncated;       /* of those that were found: wisp_stats counts the others */
} wisp_vector_cache_stats;

WISP_API void wisp_vector_cache_get_stats(const wisp_vector_cache *cache,
                                          wisp_vector_cache_stats *stats);

#endif
