/* SPDX-License-Identifier: Apache-2.0
 * Part of wisp.h: models from sources that a program provides, models of which only part is in
 * memory, and limits of memory.
 */
#ifndef WISP_SOURCES_H
#define WISP_SOURCES_H

#ifndef WISP_H
#error "include wisp.h, which includes this header"
#endif

/* ---- sources -------------------------------------------------------------------------------- */

/* Returned by wisp_source.read if the bytes have changed since the model was opened. */
enum { WISP_SOURCE_CHANGED = -2 };

/* Provides the bytes of a GGUF model.
 *
 * With `data`, the `size` bytes at `data` are used in place, and `read` is not called. They must
 * outlive the model and must not change. Do not map a file that another program may truncate: the
 * system would kill the process.
 *
 * Without `data`, `read` copies the bytes [offset, offset + length) to `buffer` and returns 0,
 * WISP_SOURCE_CHANGED, or another number on failure. The library never asks for bytes beyond
 * `size`. It calls `read` on the calling thread while wisp_model_open_source runs. If `lasting` is
 * true, it also calls `read` later, from any thread that embeds, until the model is closed: token
 * embeddings, which are up to half of a small model, are then read when a text needs them and not
 * kept in memory (unless wisp_model_options.in_memory is set).
 *
 * `may_change` applies to lasting sources only: the bytes may change while the model is open. The
 * library then reads all token embeddings once when it opens the model, and keeps a checksum of 8
 * bytes for each. wisp_embed fails with WISP_ERROR_IO if the embedding of a token has changed. */
typedef struct wisp_source {
    uint64_t size; /* in bytes */
    const void *data;
    int (*read)(void *context, uint64_t offset, void *buffer, size_t length);
    void (*close)(void *context); /* called once: when the model is closed, could not be opened, or
                                     was opened with `in_memory`. May be NULL */
    void *context;                /* passed to `read` and `close` */
    const char *name;             /* the source's name in errors. May be NULL */
    bool lasting;
    bool may_change;
    bool keeps; /* with `lasting` and `available`: `read` can also return bytes that were passed to
                   wisp_session_provide. Token embeddings are then read when a text needs them and
                   not kept in memory. Native only */
    uint64_t available; /* for wisp_source_hot_bytes and models opened with `hot_only`: only the
                           bytes before this one exist so far. 0: all */
} wisp_source;

/* Opens a GGUF model in n files, at most 256, as llama-gguf-split writes them, whatever they are
 * called: paths[0] is the first. wisp_model_open opens them by the path of the first if they have
 * the names that it gives, NAME-00001-of-00003.gguf. Native only. */
WISP_API wisp_status wisp_model_open_parts(const char *const *paths, uint32_t n,
                                           const wisp_model_options *options, wisp_model **model,
                                           wisp_error *error);

/* Opens a GGUF model from a source. Copies `source`, and calls its `close` on failure, too. */
WISP_API wisp_status wisp_model_open_source(const wisp_source *source,
                                            const wisp_model_options *options, wisp_model **model,
                                            wisp_error *error);

/* ---- models without their cold neurons ------------------------------------------------------ */

/* A model whose file stores neurons as rows (wisp_calibrate) can be opened with the option
 * `hot_only`, without its cold neurons: those that are rarely needed, according to its calibration.
 * Only the bytes before the first cold neuron are then used (wisp_source_hot_bytes). The others
 * need not exist yet; set `available` in this case, because without it `read` is asked for up to
 * 65,536 bytes after the list of tensors. The predictor must be lowrank (AUTO becomes LOWRANK) or
 * sentence; if only tokens are cold (see below), any. If the file has digests of its chunks
 * (docs/formats.md), the hot bytes are verified: WISP_ERROR_FORMAT names a chunk that differs.
 * Models that are opened whole are not verified. Opening fails with WISP_ERROR_UNSUPPORTED for
 * another predictor, a model that generates, and a file from a version of wisp that wrote no row
 * scales.
 *
 * If the file has hot tokens (wisp_convert_options.hot_tokens; with `plain` no neurons are cold),
 * the embeddings of all other tokens are absent, too. A lasting source that has all bytes, opened
 * without `in_memory`, needs none provided: they are read when a text needs them, and are not
 * verified. Embeddings that were provided stay in memory despite `memory`, unless the source
 * `keeps` them or cold tokens are evicted (limits of memory, below). A call waits for embeddings
 * even with `skip_absent`.
 *
 * The library does not fetch the other bytes. If texts need absent rows, wisp_embed stops and
 * returns WISP_NEED_RANGES; the caller provides the bytes and continues the call:
 *
 *     status = wisp_embed(session, texts, n, NULL, rows, &error);
 *     while (status == WISP_NEED_RANGES) {
 *         status = wisp_session_needs(session, 4096, &ranges, &count, &error);
 *         for (size_t i = 0; i < count && status == WISP_OK; i++)
 *             ... read ranges[i] of the file to `bytes` ...
 *             status = wisp_session_provide(session, ranges[i].offset, bytes, ranges[i].length,
 *                                           &error);
 *         if (status == WISP_OK)
 *             status = wisp_embed_continue(session, &error);
 *     }
 *     wisp_embed_give_up(session); // does nothing if the call has ended
 *
 * Nothing is computed twice. A batch stops before its tokens are looked up, for all of their rows
 * at once (with limited `memory` for as many as fit), and after the predictor of a layer has chosen
 * neurons. Embeddings have the same bits as those of the whole model with the same predictor, in
 * whatever order ranges come. Texts, rows, prompt and `skipped` must not change until the call
 * ends. Rows are complete when it returns WISP_OK.
 *
 * All sessions of a model share the rows that were provided to any of them. */

/* Limits of memory: wisp_model_options.memory limits wisp_model_info.resident_bytes of a model that
 * is opened with `hot_only`. How it does so depends on the source:
 *
 * - A path. Rarely used cold neurons are evicted, 64 at a time, but never those that a batch is
 *   computing or waits for; these may exceed the limit. If the other weights exceed it, matrices,
 *   predictors and positions stay in the file as far as necessary, also while the model is opened,
 *   and are read for each batch, one layer at a time. Sessions and threads at different layers hold
 *   one layer each.
 * - A source that `keeps` what is provided: as for a path, but the caller also calls
 *   wisp_model_limit_memory with the same limit before opening a session.
 * - Another source with `available`, and every source in WebAssembly. Cold tokens are evicted, too,
 *   and the limit is never exceeded, so it must suffice for a batch. The model serves one session,
 *   whose threads share each batch.
 * - For other sources the option is WISP_ERROR_ARGUMENT; use wisp_model_limit_memory after opening.
 *
 * In the native library, a model that generates may have a limit without `hot_only`. One with
 * experts keeps all its other weights in memory. An expert is read when a token needs it, and the
 * least recently used expert is evicted, but never one that is being computed. One without experts
 * keeps the output layer and as many layers as the limit allows; the matrices of the others are
 * read for each pass, a block or two at a time. With WISP_PREDICTOR_GATE and _TOPK neurons are read
 * as tokens need them; their file must have them as rows (wisp_convert_options.neurons) of Q4_0 or
 * Q8_0, else opening fails with WISP_ERROR_UNSUPPORTED. Sessions that compute at the same time may
 * exceed the limit. Results have the same bits with any limit.
 *
 * A model with a limit does not keep the spellings of tokens, unless it generates. If the limit
 * is too low, opening fails with WISP_ERROR_ARGUMENT and names the smallest possible limit. In the
 * native library, a limit without `hot_only` is WISP_ERROR_ARGUMENT if the model does not generate.
 * For a source of the third kind whose file has no cold neurons, it is WISP_ERROR_UNSUPPORTED. */

/* Sets *bytes to the number of bytes at the beginning of a GGUF file that opening with `hot_only`
 * needs: all bytes before the first cold row, of a token (token_embd.cold) or of a neuron (the
 * first tensor blk.L.ffn_neurons.cold). For a file without cold rows it is the whole file. The
 * source's `size` is the size of the whole file. Only header, metadata and the list of tensors are
 * read, and `close` is not called. Fails with WISP_ERROR_IO if these exceed the bytes that are
 * `available`, and as opening the model does if they are malformed. */
WISP_API wisp_status wisp_source_hot_bytes(const wisp_source *source, uint64_t *bytes,
                                           wisp_error *error);

/* Does what wisp_model_options.memory does, for a model that wisp_model_open_source opened with
 * `hot_only`. Call it before opening a session. Until then the model is wholly in memory, unless
 * its source `keeps` what is provided and the option was set. Fails as the option does. Native
 * only. */
WISP_API wisp_status wisp_model_limit_memory(wisp_model *model, uint64_t bytes, wisp_error *error);

/* Bytes [offset, offset + length) of a file. */
typedef struct wisp_range {
    uint64_t offset, length;
} wisp_range;

/* Sets *ranges to the ranges of the file that the session's waiting call needs, in ascending order,
 * and *count to their number. Ranges with at most `gap` unneeded bytes between them are merged, up
 * to 1 MiB. If the file has digests of its chunks (docs/formats.md), ranges are whole chunks; they
 * overlap if a row that crosses two chunks did not fit into the first range. Neurons that were
 * provided meanwhile, also through another session, are not included, so *count may be 0; it is 0
 * if no call waits. The ranges live until the next call with the session. */
WISP_API wisp_status wisp_session_needs(wisp_session *session, uint64_t gap,
                                        const wisp_range **ranges, size_t *count,
                                        wisp_error *error);

/* Like wisp_session_needs, but for the token embeddings that a text needs, whether or not a call
 * waits, so that they can be provided before the text is embedded. No prompt is added, not even the
 * model's default: if the text will be embedded with a prompt, begin it with the prompt here. If
 * cold tokens are evicted (limits of memory), rows that no call waits for are accepted only while
 * there is room. Needed neurons are known only when a text is computed. */
WISP_API wisp_status wisp_session_text_needs(wisp_session *session, wisp_text text, uint64_t gap,
                                             const wisp_range **ranges, size_t *count,
                                             wisp_error *error);

/* Provides `length` bytes of the file, from `offset` on, to a session's model that was opened with
 * `hot_only`. The bytes are copied. Each cold neuron or token whose whole row is within them
 * becomes present; other bytes, including incomplete rows, are ignored. May be called at any time,
 * from several threads with a session each. Fails with WISP_ERROR_FORMAT if a weight is not finite.
 *
 * If the file has digests of its chunks, each whole cold chunk is verified, and only rows in these
 * chunks are accepted, so pass each range of wisp_session_needs in one call. If a chunk differs, no
 * row is accepted, and WISP_ERROR_FORMAT names the chunk's number and bytes.
 */
WISP_API wisp_status wisp_session_provide(wisp_session *session, uint64_t offset, const void *bytes,
                                          size_t length, wisp_error *error);

/* Continues the call of wisp_embed that waits. Returns WISP_NEED_RANGES again if neurons of this
 * layer or a later one are absent, otherwise what wisp_embed returns. WISP_ERROR_ARGUMENT if no
 * call waits. */
WISP_API wisp_status wisp_embed_continue(wisp_session *session, wisp_error *error);

/* Abandons the call of wisp_embed that waits, if any. Its rows are incomplete. A new call of
 * wisp_embed, a failure and wisp_session_close do so, too. */
WISP_API void wisp_embed_give_up(wisp_session *session);

/* Does what wisp_embed does, and reads needed cold neurons from the file that wisp_model_open
 * opened. Fails with WISP_ERROR_IO, and names the bytes, if the file has become shorter or was
 * written to since. Native only.
 */
WISP_API wisp_status wisp_embed_from_file(wisp_session *session, const wisp_text *texts, size_t n,
                                          const wisp_embed_options *options, float *rows,
                                          wisp_error *error);

/* Counters of a model opened with `hot_only`, since it was opened. Bytes are bytes in memory unless
 * stated otherwise. */
typedef struct wisp_cold_stats {
    uint64_t neurons, hot_neurons; /* of all layers */
    uint64_t hot_bytes;            /* of hot neurons, which always stay in memory */
    uint64_t cold_bytes;           /* that all cold neurons would occupy */
    uint64_t warm_bytes;           /* of groups of 64 cold neurons with at least one present */
    uint64_t most_warm_bytes;      /* the maximum of warm_bytes */
    uint64_t budget;               /* for warm_bytes; UINT64_MAX: none */
    uint64_t hits, misses; /* cold neurons that a batch needed in a layer, present or absent; each
                              counts once per batch */
    uint64_t evictions;    /* of groups */
    uint64_t ranges, range_bytes; /* provided; bytes of the file */
    uint64_t rows;                /* neurons that became present */
    uint64_t prefetched; /* rows that no call waited for: read along with others, or provided in
                            advance */
    uint64_t prefetched_used;   /* prefetched rows that a later batch needed */
    uint64_t prefetched_wasted; /* prefetched rows that were evicted unused */
    uint64_t tokens;            /* cold tokens whose embeddings were provided and are in memory */
    uint64_t least_memory;      /* the smallest limit that wisp_model_options.memory and
                                   wisp_model_limit_memory accept */
} wisp_cold_stats;

/* Returns false and sets *stats to zeros if the model was not opened with `hot_only`. */
WISP_API bool wisp_model_get_cold_stats(const wisp_model *model, wisp_cold_stats *stats);

/* A layer of a model opened with `hot_only`, for drawing its neurons. Neuron i >= hot, in the order
 * of the file, is stored in the bytes [cold_offset + (i - hot) * row_bytes, + row_bytes) of the
 * file. */
typedef struct wisp_layer_neurons {
    uint64_t neurons, hot;           /* the first `hot` neurons always stay in memory */
    uint64_t cold_offset, row_bytes; /* 0 if the layer has no cold neurons */
} wisp_layer_neurons;

/* Writes two masks of the layer's neurons: `present`, those in memory, and `needed`, those that the
 * most recent batch has needed so far (with several sessions: their batches, mixed). Neuron i is
 * bit i % 64 of word i / 64; each mask has (intermediate_size + 63) / 64 words. With `skip_absent`,
 * `needed` includes the neurons that were skipped. Returns false and writes nothing if the model
 * was not opened with `hot_only` or has no such layer. */
WISP_API bool wisp_model_get_neurons(const wisp_model *model, size_t layer,
                                     wisp_layer_neurons *about, uint64_t *present,
                                     uint64_t *needed);

/* From now on keeps, for each of the first `tokens` tokens of a batch, which neurons the predictor
 * lowrank has chosen for it; 0: of none. The memory is tokens x layers x masks. Fails with
 * WISP_ERROR_ARGUMENT if the model was not opened with `hot_only`. Must not be called while a
 * session computes. */
WISP_API wisp_status wisp_model_trace_tokens(wisp_model *model, size_t tokens, wisp_error *error);

/* Writes a mask as wisp_model_get_neurons does: the neurons of one token of the most recent batch,
 * counted from its first, special tokens included. Returns false and writes nothing if there is no
 * such token or layer, or it was not kept. */
WISP_API bool wisp_model_get_token_neurons(const wisp_model *model, size_t layer, size_t token,
                                           uint64_t *needed);

#endif
