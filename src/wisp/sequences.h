/* SPDX-License-Identifier: Apache-2.0
 * Part of wisp.h: what a session of a model that generates can do beyond replies: beam search,
 * logits, scores, and saving what it has computed.
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

/* Computes logits [n, vocabulary_size]: those after each of n token ids, the first of which begins
 * a text. Fails as wisp_generate does, and if an id is not a token. */
WISP_API wisp_status wisp_logits(wisp_session *session, const int32_t *ids, size_t n, float *logits,
                                 wisp_error *error);

/* Computes the logits [vocabulary_size] after the last of n > 0 token ids. A beginning that the
 * session's last text has in common is not computed again. */
WISP_API wisp_status wisp_next_logits(wisp_session *session, const int32_t *ids, size_t n,
                                      float *logits, wisp_error *error);

/* Computes the natural log-probabilities [n - first] of the token ids from `first` on, each given
 * all ids before it. `first` is at least 1, because nothing predicts the first token, and less than
 * n. A beginning before `first` that the session's last text has in common is not computed
 * again. */
WISP_API wisp_status wisp_score(wisp_session *session, const int32_t *ids, size_t n, size_t first,
                                float *logprobs, wisp_error *error);

/* Scores `n` texts by how well they answer a query, with Qwen3-Reranker: the model is asked by that
 * model's prompt whether a text meets the query, and a score is the probability of yes beside that
 * of no. Writes scores [n], from 0 to 1. Query and text become no control tokens; a text that is
 * too long loses its end. What the prompts of texts have in common is computed once. Scores of
 * other models of the family, which were not trained to answer so, mean little.
 * WISP_ERROR_UNSUPPORTED if the architecture is not qwen3, or the vocabulary lacks <|im_start|>,
 * <|im_end|>, <think>, </think>, yes or no. */
WISP_API wisp_status wisp_judge(wisp_session *session, wisp_text query, const wisp_text *texts,
                                size_t n, float *scores, wisp_error *error);

/* Save and load what the session has computed of its last texts, also in another process or on
 * another machine. A text that continues one of them then has the same bits as if the session had
 * never been closed. Model, compute mode, predictor and cache_type must be the same when loading;
 * the number of threads may differ. As in a session whose sparsity is set in mid-text, what was
 * computed with another sparsity or attention policy stays. Logits are those of the kernel set that
 * computes them. docs/formats.md describes the bytes.
 *
 * Saving writes a file as wisp_convert does: it appears complete or not at all. Loading fails with
 * WISP_ERROR_FORMAT if the bytes are damaged, with WISP_ERROR_UNSUPPORTED if another version wrote
 * them, and with WISP_ERROR_ARGUMENT if they belong to another model or session. Only in the native
 * library. */
WISP_API wisp_status wisp_session_save(wisp_session *session, const char *path, wisp_error *error);
WISP_API wisp_status wisp_session_load(wisp_session *session, const char *path, wisp_error *error);

/* Save to and load from memory. Saving sets *size and writes nothing if that exceeds `capacity`.
 * `bytes` may be NULL if `capacity` is 0. */
WISP_API wisp_status wisp_session_save_bytes(wisp_session *session, void *bytes, size_t capacity,
                                             size_t *size, wisp_error *error);
WISP_API wisp_status wisp_session_load_bytes(wisp_session *session, const void *bytes, size_t size,
                                             wisp_error *error);

/* Makes a session keep the keys and values of its texts in a folder, too, and read those of a
 * prompt that begins as a known text does, whichever session or process computed it: a text has the
 * same bytes with and without. wisp_generate and wisp_generate_batch do so. A file holds 64 tokens;
 * it is used where it was computed from the same ids by the same model, options, kernel set and
 * build of wisp, and nothing of it is damaged. Else the tokens are computed. The folder is made if
 * it does not exist, and must be this user's alone. Files that were used longest ago are deleted
 * when all have more than `bytes` (0: 4 GB).
 *
 * Reads the model's file once, to tell it from others. Fails with WISP_ERROR_UNSUPPORTED if that
 * cannot be read again (wisp_source.lasting) or the model generates no text, with
 * WISP_ERROR_ARGUMENT if `bytes` is less than one file or the session has a folder already, and
 * with WISP_ERROR_IO if the folder cannot be used. Only in the native library. */
WISP_API wisp_status wisp_session_use_prompt_cache(wisp_session *session, const char *folder,
                                                   uint64_t bytes, wisp_error *error);

/* Totals since then. A block that cannot be written or read costs time alone. */
typedef struct wisp_prompt_cache_stats {
    uint64_t known_tokens; /* of prompts: read instead of being computed */
    uint64_t read_blocks, read_bytes;
    uint64_t written_blocks, written_bytes;
    uint64_t damaged_blocks; /* that were found and could not be used */
    uint64_t failed_blocks;  /* that could not be written */
    uint64_t removed_blocks; /* that made room for others */
    double read_seconds, write_seconds;
    char failure[512]; /* what was wrong with the last damaged or failed block; "": nothing */
} wisp_prompt_cache_stats;

/* Returns false, with zeros, where the session has no prompt cache. */
WISP_API bool wisp_session_get_prompt_cache_stats(const wisp_session *session,
                                                  wisp_prompt_cache_stats *stats);

/* Limits the memory that the keys and values of a session's texts take: beyond `bytes` they are in
 * a file without a name in `folder` (NULL: $TMPDIR, else /var/tmp), from which a thread of the
 * session reads those of the next layer while one is computed. A text has the same bits at any
 * limit. The session must not have a text yet. Fails with WISP_ERROR_ARGUMENT if `bytes` is less
 * than a block (256 tokens of a layer), with WISP_ERROR_UNSUPPORTED if the model generates no text,
 * and with WISP_ERROR_IO if there can be no such file. Only in the native library.
 *
 * If the file cannot be written or read later, or its bytes have changed, the call that needs them
 * fails with WISP_ERROR_IO. The session then has no text, and computes the next one anew. Such a
 * session stays with the process that opened it: in a child of fork() its calls fail. */
WISP_API wisp_status wisp_session_limit_kv_memory(wisp_session *session, uint64_t bytes,
                                                  const char *folder, wisp_error *error);

/* Totals since then. A block is 256 tokens of a layer. */
typedef struct wisp_kv_stats {
    uint64_t resident_bytes; /* of blocks in memory, now */
    uint64_t held_blocks;    /* that were used; a block counts each time */
    uint64_t ahead_blocks;   /* of these, had been read before they were asked for */
    uint64_t waited_blocks;  /* of these, were waited for */
    double waited_seconds;   /* summed over threads */
    uint64_t reads, read_bytes, written_bytes;
    double read_seconds;
    uint64_t chosen_blocks;    /* that a policy chose for a token before it read them (quest) */
    uint64_t recurring_blocks; /* of these, chosen for the token before, too */
} wisp_kv_stats;

/* Returns false, with zeros, if the session has no such limit. */
WISP_API bool wisp_session_get_kv_stats(const wisp_session *session, wisp_kv_stats *stats);

#endif
