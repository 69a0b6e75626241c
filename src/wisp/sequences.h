/* SPDX-License-Identifier: Apache-2.0
 * Part of wisp.h: more functions for sessions of models that generate: beam search, logits, scores,
 * and saving what a session has computed.
 */
#ifndef WISP_SEQUENCES_H
#define WISP_SEQUENCES_H

#ifndef WISP_H
#error "include wisp.h, which includes this header"
#endif

/* A text that beam search found. */
typedef struct wisp_hypothesis {
    wisp_text text;
    const int32_t *ids; /* [tokens] */
    size_t tokens;      /* without the one that ended the text */
    double logprob; /* the sum of its tokens' log-probabilities, including the one that ended it */
    double score;   /* logprob / (number of these tokens) ^ length_penalty */
    wisp_end end;   /* WISP_END_TOKEN, _LENGTH or _CONTEXT */
} wisp_hypothesis;

typedef struct wisp_beam_options {
    uint32_t beams;      /* the number of texts that are kept, at most 64. 0: 4 */
    uint32_t max_tokens; /* 0: until the context is full */
    float
        length_penalty; /* 0 ranks texts by probability, 1 by the mean log-probability per token */
    const int32_t *stop_id; /* [stop_ids]: tokens that end a text, like the model's own */
    size_t stop_ids;
    /* Called for each of `beams` texts, the best first, when the search has ended; for fewer only
     * if the vocabulary has too few tokens. A text lives until the function returns. */
    void (*hypothesis)(void *context, const wisp_hypothesis *hypothesis);
    void *context;
} wisp_beam_options;

/* Searches for the likeliest continuations of a prompt. `options` must have a function
 * `hypothesis`. The result is that of Hugging Face transformers with num_beams and
 * early_stopping=False, which stops when the best unfinished text is no better than the worst of
 * `beams` finished ones. Fails as wisp_generate does. */
WISP_API wisp_status wisp_beam_search(wisp_session *session, wisp_text prompt,
                                      const wisp_beam_options *options, wisp_error *error);

/* Computes the logits [n, vocabulary_size] after each of n token ids. The first id begins a text.
 * Fails as wisp_generate does, and if an id is not a token. */
WISP_API wisp_status wisp_logits(wisp_session *session, const int32_t *ids, size_t n, float *logits,
                                 wisp_error *error);

/* Computes the logits [vocabulary_size] after the last of n > 0 token ids. First ids that equal
 * those of the session's last text are not computed again. */
WISP_API wisp_status wisp_next_logits(wisp_session *session, const int32_t *ids, size_t n,
                                      float *logits, wisp_error *error);

/* Computes the natural log-probabilities [n - first] of the token ids from `first` on, each given
 * all ids before it. `first` is at least 1, because nothing predicts the first token, and less than
 * n. First ids, up to `first`, that equal those of the session's last text are not computed
 * again. */
WISP_API wisp_status wisp_score(wisp_session *session, const int32_t *ids, size_t n, size_t first,
                                float *logprobs, wisp_error *error);

/* Scores `n` texts by how well they answer a query, with Qwen3-Reranker. Its prompt asks whether a
 * text meets the query; the score is the probability of "yes", relative to "yes" and "no" together.
 * Writes scores [n], from 0 to 1. Query and text cannot produce control tokens. A text that is too
 * long loses its end. The common beginning of the prompts is computed once. Scores of other qwen3
 * models mean little, because these were not trained for it. Fails with WISP_ERROR_UNSUPPORTED if
 * the architecture is not qwen3, or the vocabulary lacks <|im_start|>, <|im_end|>, <think>,
 * </think>, yes or no. */
WISP_API wisp_status wisp_judge(wisp_session *session, wisp_text query, const wisp_text *texts,
                                size_t n, float *scores, wisp_error *error);

/* Returns the type in which the session of a model that generates keeps keys and values, never
 * WISP_CACHE_AUTO. */
WISP_API wisp_cache_type wisp_session_get_cache_type(const wisp_session *session);

/* Save and load what the session has computed of its last texts, also in another process or on
 * another machine. A text that continues one of them then has the same bits as if the session had
 * never been closed. Model, compute mode, predictor and type of cache must be the same when
 * loading; the number of threads may differ. What was computed with another sparsity or attention
 * policy stays as it is. Logits are those of the kernel set that computes them. docs/formats.md
 * describes the bytes.
 *
 * Saving writes a file as wisp_convert does: it appears complete or not at all. Loading fails with
 * WISP_ERROR_FORMAT if the bytes are damaged, with WISP_ERROR_UNSUPPORTED if another version wrote
 * them, and with WISP_ERROR_ARGUMENT if they belong to another model or session. Native only. */
WISP_API wisp_status wisp_session_save(wisp_session *session, const char *path, wisp_error *error);
WISP_API wisp_status wisp_session_load(wisp_session *session, const char *path, wisp_error *error);

/* Save to and load from memory. Saving sets *size and writes nothing if that exceeds `capacity`.
 * `bytes` may be NULL if `capacity` is 0. */
WISP_API wisp_status wisp_session_save_bytes(wisp_session *session, void *bytes, size_t capacity,
                                             size_t *size, wisp_error *error);
WISP_API wisp_status wisp_session_load_bytes(wisp_session *session, const void *bytes, size_t size,
                                             wisp_error *error);

/* Makes wisp_generate and wisp_generate_batch also keep the keys and values of texts in a folder,
 * and read those of a prompt that begins like a known text, whichever session or process computed
 * it. A text has the same bytes with and without the folder. A file holds 64 tokens. It is used if
 * the same model, options, kernel set and build of wisp computed it from the same ids, and it is
 * undamaged; otherwise the tokens are computed. The folder is created if it does not exist. It must
 * belong to this user, and no other may have access. If the files exceed `bytes` (0: 4 GB), the
 * least recently used ones are deleted.
 *
 * Reads the model's file once, to identify it. Fails with WISP_ERROR_UNSUPPORTED if the file cannot
 * be read again (wisp_source.lasting) or the model does not generate text, with WISP_ERROR_ARGUMENT
 * if `bytes` is less than one file or the session already has a folder, and with WISP_ERROR_IO if
 * the folder cannot be used. Native only. */
WISP_API wisp_status wisp_session_use_prompt_cache(wisp_session *session, const char *folder,
                                                   uint64_t bytes, wisp_error *error);

/* Totals since wisp_session_use_prompt_cache. A block that cannot be written or read costs time,
 * but no call fails. */
typedef struct wisp_prompt_cache_stats {
    uint64_t known_tokens; /* tokens of prompts that were read instead of computed */
    uint64_t read_blocks, read_bytes;
    uint64_t written_blocks, written_bytes;
    uint64_t damaged_blocks; /* found, but not usable */
    uint64_t failed_blocks;  /* could not be written */
    uint64_t removed_blocks; /* deleted to make room for others */
    double read_seconds, write_seconds;
    char failure[512]; /* what was wrong with the last damaged or failed block; "": nothing */
} wisp_prompt_cache_stats;

/* Returns false and sets *stats to zeros if the session has no prompt cache. */
WISP_API bool wisp_session_get_prompt_cache_stats(const wisp_session *session,
                                                  wisp_prompt_cache_stats *stats);

/* Limits the memory for the keys and values of a session's texts to `bytes`. The others are in an
 * unnamed file in `folder` (NULL: $TMPDIR, else /var/tmp); while a layer is computed, a thread of
 * the session reads those of the next layer. A text has the same bits with any limit. The session
 * must not have a text yet. Fails with WISP_ERROR_ARGUMENT if `bytes` is less than a block (256
 * tokens of a layer), with WISP_ERROR_UNSUPPORTED if the model does not generate text, and with
 * WISP_ERROR_IO if the file cannot be created. Native only.
 *
 * If the file cannot be written or read later, or its bytes have changed, the call that needs them
 * fails with WISP_ERROR_IO. The session then has no text, and computes the next one from its
 * beginning. Calls with such a session fail in a child of fork(). */
WISP_API wisp_status wisp_session_limit_kv_memory(wisp_session *session, uint64_t bytes,
                                                  const char *folder, wisp_error *error);

/* Totals since wisp_session_limit_kv_memory. A block is 256 tokens of a layer. */
typedef struct wisp_kv_stats {
    uint64_t resident_bytes; /* of the blocks in memory at present */
    uint64_t held_blocks;    /* blocks that were used; each use counts */
    uint64_t ahead_blocks;   /* those of them that were read before they were needed */
    uint64_t waited_blocks;  /* those of them that a thread waited for */
    double waited_seconds;   /* summed over threads */
    uint64_t reads, read_bytes, written_bytes;
    double read_seconds;
    uint64_t chosen_blocks;    /* blocks that a policy chose for a token before reading (quest) */
    uint64_t recurring_blocks; /* those of them that were also chosen for the token before */
} wisp_kv_stats;

/* Returns false and sets *stats to zeros if the session has no such limit. */
WISP_API bool wisp_session_get_kv_stats(const wisp_session *session, wisp_kv_stats *stats);

#endif
