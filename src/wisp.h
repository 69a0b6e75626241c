/* SPDX-License-Identifier: Apache-2.0
 *
 * wisp: a sparse transformer inference engine. This header is the whole public C API.
 *
 * A complete program (`make test-example` compiles and runs exactly these lines):
 *
 *     #include <stdio.h>
 *     #include <wisp.h>
 *
 *     int main(int argc, char **argv) {
 *         const wisp_text texts[] = {wisp_text_of("A man is eating food."),
 *                                    wisp_text_of("Someone has a meal.")};
 *         wisp_error error = {0};
 *         wisp_model *model = NULL;
 *         wisp_session *session = NULL;
 *         float rows[2 * 384];
 *
 *         if (wisp_model_open(argc > 1 ? argv[1] : "models/wisp-default.gguf", NULL, &model,
 *                             &error) == WISP_OK &&
 *             wisp_session_open(model, NULL, &session, &error) == WISP_OK &&
 *             wisp_model_dimensions(model) == 384 &&
 *             wisp_embed(session, texts, 2, NULL, rows, &error) == WISP_OK)
 *             printf("similarity %.4f\n", wisp_dot(rows, rows + 384, 384));
 *         else
 *             fprintf(stderr, "%s\n", error.message);
 *         wisp_session_close(session);
 *         wisp_model_close(model);
 *         return error.status;
 *     }
 *
 * Objects: a wisp_model holds the weights. It does not change while it is open, and any number of
 * threads and sessions may share it. A wisp_session embeds or generates texts with a model: it owns
 * working memory and worker threads, and one thread at a time may use it. A wisp_source provides
 * the bytes of a model. A wisp_file shows the contents of a model's file.
 *
 * Errors: every call that can fail returns a wisp_status. When the caller passes a wisp_error, a
 * failing call fills it. The library never exits, aborts or prints. A failed call changes nothing
 * but output buffers: model and session remain usable. These calls fail with WISP_ERROR_ARGUMENT
 * where an object, a path, a text or the place for a result is NULL; all others need objects that
 * are open, unless they say that NULL is allowed.
 *
 * Ownership: an object that an _open function returns is released with the matching _close
 * function, which accepts NULL. Strings and pointers that a getter returns live as long as the
 * object they were taken from.
 */
#ifndef WISP_H
#define WISP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WISP_API __attribute__((visibility("default")))
#else
#define WISP_API
#endif

#define WISP_VERSION "0.1.0"

/* ---- status and errors ---------------------------------------------------------------------- */

typedef enum wisp_status {
    WISP_OK = 0,
    WISP_ERROR_ARGUMENT = 1,    /* the caller passed an invalid argument */
    WISP_ERROR_MEMORY = 2,      /* an allocation failed */
    WISP_ERROR_IO = 3,          /* reading or writing failed, or a file changed while in use */
    WISP_ERROR_NOT_FOUND = 4,   /* a required file, tensor, key or prompt is absent */
    WISP_ERROR_FORMAT = 5,      /* a file is malformed */
    WISP_ERROR_UNSUPPORTED = 6, /* a well-formed file needs something that this build cannot do */
    WISP_ERROR_CANCELLED = 7,   /* wisp_session_cancel was called */
    WISP_NEED_RANGES = 8        /* no failure: the call waits for bytes (wisp_session_needs) */
} wisp_status;

/* Describes a failure. The caller owns it. `message` is complete and names the file and the field.
 * All three strings are terminated, and empty where they do not apply. */
typedef struct wisp_error {
    wisp_status status;
    char file[160]; /* the file at fault */
    char field[96]; /* the tensor, key or option at fault */
    char message[512];
} wisp_error;

/* Returns "ok", "argument", "memory", "io", "not_found", "format", "unsupported", "cancelled" or
 * "need_ranges". */
WISP_API const char *wisp_status_name(wisp_status status);

/* ---- sources -------------------------------------------------------------------------------- */

/* Returned by wisp_source.read where the bytes are no longer those that the model began with. */
enum { WISP_SOURCE_CHANGED = -2 };

/* Provides the bytes of a GGUF model.
 *
 * With `data`, the `size` bytes at `data` are used in place. They must outlive the model and must
 * not change, and `read` is not called. A mapped file is not safe where another program may
 * truncate it: the system then ends the process.
 *
 * Without `data`, `read` copies the bytes [offset, offset + length) to `buffer` and returns 0, or
 * WISP_SOURCE_CHANGED, or another number on failure. The library never asks for bytes beyond
 * `size`. It calls `read` on the calling thread while wisp_model_open_source runs. Where `lasting`
 * is true, it also calls `read` later, from any thread that embeds, until the model is closed: the
 * embeddings of tokens, which are up to half of a small model, are then read when a text needs them
 * and not kept in memory (unless wisp_model_options.in_memory is set).
 *
 * `may_change` matters for lasting sources only. It says that someone may change the bytes while
 * the model is open. The library then reads all token embeddings once when it opens the model, and
 * keeps a checksum of each, 8 bytes for a token. A token whose embedding has changed since then
 * makes wisp_embed fail with WISP_ERROR_IO. */
typedef struct wisp_source {
    uint64_t size; /* in bytes */
    const void *data;
    int (*read)(void *context, uint64_t offset, void *buffer, size_t length);
    void (*close)(void *context); /* called once: when the model is closed or could not be opened,
                                     or after opening it with `in_memory`. May be NULL */
    void *context;                /* passed to `read` and `close` */
    const char *name;             /* the name of the source in errors. May be NULL */
    bool lasting;
    bool may_change;
    bool keeps; /* with `lasting` and `available`: `read` also has the bytes that were handed to
                   wisp_session_provide, from then on. Token embeddings are then read when a
                   text needs them and not kept in memory. Native only */
    uint64_t available; /* the library uses only bytes before this one: the beginning of a file that
                           is there so far, for wisp_source_hot_bytes and models opened with
                           `hot_only`. 0: all */
} wisp_source;

/* ---- models --------------------------------------------------------------------------------- */

typedef struct wisp_model wisp_model;

typedef enum wisp_compute {
    WISP_COMPUTE_AUTO = 0, /* INT8 where the file's weights are quantised, else F32 */
    WISP_COMPUTE_F32 = 1,  /* f32 weights and activations */
    WISP_COMPUTE_INT8 = 2  /* int8 weights and activations in blocks of 128 or 64, i32 sums */
} wisp_compute;

/* A predictor decides which neurons of the feed-forward layers are computed for a token. All
 * predictors but DENSE compute in int8: with them WISP_COMPUTE_AUTO becomes INT8. */
typedef enum wisp_predictor {
    /* In f32, and of a model that generates, DENSE. In int8 the fastest for the kernel set: LOWRANK
     * of a calibrated model, else EXACT with ReLU, else DENSE. */
    WISP_PREDICTOR_AUTO = 0,
    /* All neurons. */
    WISP_PREDICTOR_DENSE = 1,
    /* All neurons in the layer's first matrix; in its second matrix those whose activation is not
     * 0. */
    WISP_PREDICTOR_EXACT = 2,
    /* The neurons that a small linear layer in the model's file chooses for the token. Needs a
     * model made by wisp_calibrate. */
    WISP_PREDICTOR_LOWRANK = 3,
    /* The neurons that such a layer chooses once for a whole text, from the mean of its tokens.
     * Needs a model calibrated with `sentence`. AUTO never becomes SENTENCE, because LOWRANK is
     * more accurate where both compute the same share of the neurons. */
    WISP_PREDICTOR_SENTENCE = 4
} wisp_predictor;

/* The types in which a session that generates keeps the keys and values of a text's tokens. Fewer
 * bytes let a longer text fit and are read faster. docs/decisions.md has the errors that were
 * measured. */
typedef enum wisp_cache_type {
    WISP_CACHE_F32 = 0,
    WISP_CACHE_F16 = 1, /* 16-bit floats: half the bytes */
    WISP_CACHE_INT8 = 2 /* bytes with an f32 scale for 32 values of a head: 28 % of the bytes */
} wisp_cache_type;

/* Return the name of a value: wisp_compute_name(WISP_COMPUTE_F32) is "f32". Return NULL past the
 * last value. */
WISP_API const char *wisp_compute_name(size_t compute);
WISP_API const char *wisp_predictor_name(size_t predictor);
WISP_API const char *wisp_cache_type_name(size_t cache_type);

/* Set a value by its name. Return false, and change nothing, where no value has this name or it is
 * NULL. */
WISP_API bool wisp_compute_find(const char *name, wisp_compute *compute);
WISP_API bool wisp_predictor_find(const char *name, wisp_predictor *predictor);
WISP_API bool wisp_cache_type_find(const char *name, wisp_cache_type *cache_type);

/* Limits of memory: wisp_model_options.memory limits wisp_model_info.resident_bytes of a model that
 * is opened with `hot_only`. How depends on where its bytes come from:
 *
 * - From a path. Cold neurons that are used seldom are given up, 64 at a time, but never those that
 *   a batch is computing or waits for, which may exceed the limit. Where the other parts exceed it,
 *   matrices, predictors and positions stay in the file as far as they have to, also while the
 *   model is opened, and are read for each batch, a layer at a time; sessions and threads whose
 *   batches are at other layers have those of one layer each.
 * - From a source that `keeps` what it is provided with: as from a path, but the caller also calls
 *   wisp_model_limit_memory, with the same limit, before a session is opened.
 * - From another source whose `available` is set, and from every source in WebAssembly. Cold tokens
 *   are given up, too, and the limit is never exceeded, so it has to be enough for a batch. The
 *   model serves one session, whose threads share each batch.
 * - From other sources the option is WISP_ERROR_ARGUMENT; wisp_model_limit_memory limits these
 *   models when they are open.
 *
 * A model with a limit does not keep the spellings of tokens. Opening fails with
 * WISP_ERROR_ARGUMENT, which names the least limit, where this one is lower. The native library
 * also refuses a limit without `hot_only` (WISP_ERROR_ARGUMENT), and of a source of the third kind
 * whose file has no cold neurons (WISP_ERROR_UNSUPPORTED). */
typedef struct wisp_model_options {
    wisp_compute compute;
    const char *kernels; /* a name from wisp_kernels_name. NULL: the fastest kernel set */
    wisp_predictor predictor;
    bool in_memory;  /* copy the token embeddings too, so that nothing is read after opening */
    bool hot_only;   /* open without the cold neurons: see "models without their cold neurons" */
    uint64_t memory; /* with `hot_only`: the most bytes that the model may hold, as "limits of
                        memory" above says. 0: no limit */
    bool portable; /* compute embeddings that have the same bits on every machine, with every kernel
                      set, and in WebAssembly in every engine, so that an index made on one of them
                      is searched on another. They are close to other int8 embeddings, not equal.
                      AUTO becomes WISP_COMPUTE_INT8 and WISP_PREDICTOR_DENSE; others, and models
                      that generate, are WISP_ERROR_UNSUPPORTED, with the field "portable" */
    const char *header_sha256; /* the SHA-256 that the file's header has to have, in 64 hexadecimal
                                  digits of lower case (wisp_file_verify). As the header has the
                                  digests of all other bytes, they are those of one known file: all
                                  that are there are compared when the model is opened, in about 3 s
                                  for 1 GB, and others when they are provided. WISP_ERROR_FORMAT
                                  where the header is another, WISP_ERROR_UNSUPPORTED where it has
                                  no digests, WISP_ERROR_ARGUMENT where this is no such text. NULL:
                                  any */
} wisp_model_options;

/* Opens a GGUF file or a Hugging Face folder (config.json, model.safetensors, tokenizer.json or
 * vocab.txt and the sentence-transformers files). `options` may be NULL.
 *
 * Files are read, not mapped to memory, so that the process survives whatever becomes of them. The
 * file with the weights stays open until the model is closed: the embeddings of tokens are read
 * from it when texts need them. To replace a model on disk, write another file and rename it over
 * the old one; models that are open keep the old one. If a program truncates or overwrites the file
 * itself, wisp_embed fails with WISP_ERROR_IO for texts whose tokens have changed, and other texts
 * keep their embeddings. With `in_memory` the file is closed after opening, and nothing that
 * happens to it matters; the model then takes more memory (wisp_model_info.resident_bytes). Opening
 * fails with WISP_ERROR_IO where the file is modified meanwhile. */
WISP_API wisp_status wisp_model_open(const char *path, const wisp_model_options *options,
                                     wisp_model **model, wisp_error *error);

/* Opens a GGUF model from a source. Copies `source` and calls its `close` also on failure. */
WISP_API wisp_status wisp_model_open_source(const wisp_source *source,
                                            const wisp_model_options *options, wisp_model **model,
                                            wisp_error *error);

/* Sets *bytes to the length of the beginning of a GGUF file that a model opened with `hot_only` is
 * made of: all bytes before the first cold row, of a token (token_embd.cold) or of a neuron (the
 * first tensor blk.L.ffn_neurons.cold). That is the whole file where it has no cold rows. The
 * source's `size` is that of the whole file; only header, metadata and the list of tensors are
 * used, and `close` is not called. Fails with WISP_ERROR_IO where these do not fit the bytes that
 * are `available`, and as opening the model does where they are malformed. */
WISP_API wisp_status wisp_source_hot_bytes(const wisp_source *source, uint64_t *bytes,
                                           wisp_error *error);

/* Sets the limit that wisp_model_options.memory sets, for a model that wisp_model_open_source
 * opened with `hot_only`, before a session is opened. The model was in memory as it was opened,
 * unless its source `keeps` what is provided and that option was set. Fails as that option does.
 * Only in the native library. */
WISP_API wisp_status wisp_model_limit_memory(wisp_model *model, uint64_t bytes, wisp_error *error);

/* Closes a model. Its sessions must have been closed before. */
WISP_API void wisp_model_close(wisp_model *model);

typedef struct wisp_model_info {
    const char *name;         /* the file's general.name, or "" */
    const char *architecture; /* the file's general.architecture */
    const char *compute;      /* "f32" or "int8", never "auto" */
    const char *kernels;      /* the kernel set in use; its portable form has another name */
    const char *predictor;    /* "dense", "exact", "lowrank" or "sentence", never "auto" */
    float sparsity;           /* the share of neurons that lowrank or sentence skips unless
                                 wisp_session_set_sparsity sets another; 0 with dense and exact */
    const char *pooling;      /* "mean" or "cls"; "" where the model makes no embeddings */
    uint32_t hidden_size;
    uint32_t intermediate_size;
    uint32_t layers;
    uint32_t heads;
    uint32_t vocabulary_size;
    uint32_t max_tokens;     /* longer texts are truncated to this many, special tokens included */
    uint64_t parameters;     /* weights in the file */
    uint64_t resident_bytes; /* memory that the model holds */
} wisp_model_info;

WISP_API void wisp_model_get_info(const wisp_model *model, wisp_model_info *info);

/* A kind of weights, and the bytes of a model's dense layers that are of it. */
typedef struct wisp_weights {
    const char *kind; /* "f32", "f16", "bf16", "int8" in blocks of 128, "narrow", which is int8 in
                         blocks of 64, or as in the file: "q4_0", "q4_1", "q5_0", "q5_1", "q2_k",
                         "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4", "tq1_0",
                         "tq2_0", "bitnet_t158", "q1_0", "q2_0", "pq2_0", "i2_s" */
    uint64_t bytes;   /* with scales and biases */
} wisp_weights;

/* Gives entry `index` of the kinds of weights that the model's dense layers became when it was
 * opened. Returns false past the last. Token embeddings and neurons of sparse layers are not dense
 * layers. */
WISP_API bool wisp_model_get_weights(const wisp_model *model, size_t index, wisp_weights *weights);

/* Returns the number of values of an embedding: the hidden_size, or fewer where the file cuts
 * embeddings (wisp.dimensions). */
WISP_API size_t wisp_model_dimensions(const wisp_model *model);

/* Gives the key and the value, as text, of entry `index` of the file's metadata. An array is given
 * as its type and length, "i32[12]". At most `capacity` bytes are written to `value`, the
 * terminator included; longer text is cut. Returns false past the last entry. */
WISP_API bool wisp_model_metadata(const wisp_model *model, size_t index, const char **key,
                                  char *value, size_t capacity);

/* A setting that changes embeddings and that the file of a model does not give, with the value that
 * is used instead. GGUF files that wisp did not write lack some: of a BERT with ReLU, llama.cpp's
 * converter does not say so, and wisp computes GELU. */
typedef struct wisp_assumption {
    const char *key;   /* of the metadata, which would give the setting: "wisp.hidden_act" */
    const char *value; /* in words: "gelu" */
} wisp_assumption;

/* Gives assumption `index` of the model. Returns false past the last. */
WISP_API bool wisp_model_get_assumption(const wisp_model *model, size_t index,
                                        wisp_assumption *assumption);

/* Returns the text of the model's prompt `name` ("query", "passage", ...), or NULL where the model
 * has no such prompt. With NULL as the name it returns the default prompt, which wisp_embed uses
 * unless its options give another; that is "" where the model has none. */
WISP_API const char *wisp_model_prompt(const wisp_model *model, const char *name);

/* ---- sessions ------------------------------------------------------------------------------- */

typedef struct wisp_session wisp_session;

typedef struct wisp_session_options {
    uint32_t threads; /* 0 means 1, at most 1024. Results do not depend on the number of threads */
    bool trace;       /* keep the times of all stages for wisp_session_write_trace */
    bool recall;      /* count `compared`, `needed` and `found` of wisp_layer_stats. Sparse layers
                         then compute all activations once more, and the times include that */
    wisp_cache_type cache_type; /* of models that generate */
    bool skip_absent; /* of models opened with `hot_only`: do not wait for absent neurons, but
                         compute without them, as if the predictor had not chosen them. A call
                         waits for the embeddings of its tokens all the same */
} wisp_session_options;

/* Opens a session. `options` may be NULL. The model must stay open as long as the session.
 *
 * After fork() both processes may use the models and sessions that were open, each on its own, and
 * close them. No other thread may have been in a call with the session when the process forked. The
 * session's threads are not in the child; its first call there starts new ones. */
WISP_API wisp_status wisp_session_open(const wisp_model *model, const wisp_session_options *options,
                                       wisp_session **session, wisp_error *error);

WISP_API void wisp_session_close(wisp_session *session);

/* Makes the running call of the session that embeds, generates or scores text return
 * WISP_ERROR_CANCELLED soon, or the next such call where none is running. May be called from any
 * thread and from a signal handler. */
WISP_API void wisp_session_cancel(wisp_session *session);

/* Returns the name of a stage of embedding or generating, which is an index of
 * wisp_stats.stage_seconds, and NULL past the last. The stages are "tokenize"; "look_up" (of the
 * tokens' embeddings); "qkv"; "attention"; "attention_output"; "ffn_up", "activation" and
 * "ffn_down" of dense layers; "ffn_sparse" of sparse ones; "norm"; "pool"; "logits"; and "wait" (at
 * barriers, for the other threads that share a batch, and between WISP_NEED_RANGES and
 * wisp_embed_continue for cold rows). */
WISP_API const char *wisp_stage_name(size_t stage);

enum { WISP_STAGES = 13 };

/* Totals since the session was opened. Seconds are sums over threads. */
typedef struct wisp_stats {
    uint64_t texts;  /* that were embedded */
    uint64_t tokens; /* that were embedded; of a model that generates, that were computed */
    uint64_t truncated_texts;
    double stage_seconds[WISP_STAGES];
    uint64_t workspace_bytes; /* working memory that the session holds now, with the keys and
                                 values of the texts that it keeps */
} wisp_stats;

WISP_API void wisp_session_get_stats(const wisp_session *session, wisp_stats *stats);

/* Writes the times of all stages so far, and of loading the model, as Chrome trace JSON for
 * chrome://tracing or Perfetto. The session must have been opened with `trace` and must not be
 * embedding. Only in the native library. */
WISP_API wisp_status wisp_session_write_trace(const wisp_session *session, const char *path,
                                              wisp_error *error);

/* Sets the share of neurons that lowrank or sentence skips, from 0 to below 1. It is an average
 * over the layers and the texts of the calibration, so other texts skip somewhat more or less.
 * Where the file has no thresholds for a share, the nearest share that it has some for applies.
 * Must not be called while the session embeds. WISP_ERROR_ARGUMENT where the model runs another
 * predictor. WISP_ERROR_IO where the memory of the model is limited and the thresholds cannot be
 * read from the file, or have changed there. After an error the session skips what it did before.
 */
WISP_API wisp_status wisp_session_set_sparsity(wisp_session *session, float sparsity,
                                               wisp_error *error);

/* Totals of one feed-forward layer since the session was opened, summed over threads.
 *
 * The last three are counted with the session's option `recall` and a predictor other than dense,
 * else 0. Precision is found / compared and recall is found / needed. */
typedef struct wisp_layer_stats {
    uint64_t tokens;
    uint64_t neurons;      /* tokens times the neurons of the layer */
    uint64_t computed;     /* neurons whose activation was computed */
    uint64_t contributing; /* neurons that were added to the output, in groups of four */
    double seconds;        /* spent in the layer, dense or sparse */
    uint64_t compared;     /* neurons that were computed while recall was counted */
    uint64_t needed;       /* with ReLU neurons whose activation is not 0; else the fifth of the
                              neurons that contributes most */
    uint64_t found;        /* neurons that were needed and computed */
} wisp_layer_stats;

/* Gives the totals of layer `layer`, counted from 0. Returns false past the last. */
WISP_API bool wisp_session_get_layer_stats(const wisp_session *session, uint32_t layer,
                                           wisp_layer_stats *stats);

/* ---- text to numbers ------------------------------------------------------------------------ */

/* UTF-8 text, not terminated. Malformed UTF-8 is decoded as by Python's errors="replace": each
 * maximal ill-formed sequence becomes one U+FFFD. */
typedef struct wisp_text {
    const char *bytes;
    size_t length;
} wisp_text;

static inline wisp_text wisp_text_of(const char *string) {
    wisp_text text = {string, strlen(string)};
    return text;
}

/* Converts a text to the token ids that the model computes with: special tokens are included, and
 * the ids are truncated to max_tokens where the model makes embeddings. Writes at most `capacity`
 * ids and sets *count to the number of ids that the text has. */
WISP_API wisp_status wisp_tokenize(const wisp_model *model, wisp_text text, int32_t *ids,
                                   size_t capacity, size_t *count, wisp_error *error);

/* Sets *count to the number of ids that a text has before it is truncated, special tokens included.
 * Takes memory in proportion to the text only where the model generates. */
WISP_API wisp_status wisp_count_tokens(const wisp_model *model, wisp_text text, size_t *count,
                                       wisp_error *error);

/* Sets *text to the bytes that token `id` of a model that generates stands for, which may be a part
 * of a character. Control tokens stand for none. The bytes live as long as the model. Returns false
 * where the model generates no text or `id` is no token. */
WISP_API bool wisp_token_text(const wisp_model *model, int32_t id, wisp_text *text);

/* Sets *spelling to how the vocabulary of any model spells token `id`: "<|im_end|>", "##ing", and a
 * space before a word as U+2581 or U+0120. Its bytes live as long as the model. Returns false where
 * `id` is no token, or the memory of the model is limited. */
WISP_API bool wisp_token_spelling(const wisp_model *model, int32_t id, wisp_text *spelling);

/* The state of a text that is decoded in several calls. It starts as zeros, but for the
 * options. */
typedef struct wisp_decoder {
    bool special; /* option: control tokens become their spelling, else nothing */
    bool more;    /* option: further tokens follow, so that an unfinished character is kept */
    bool begun;   /* text was decoded. SentencePiece begins a text with a space that it does not
                     have; set this to keep the space, as where tokens continue a text */
    uint8_t held; /* of `bytes`, an unfinished character */
    char bytes[4];
} wisp_decoder;

/* Converts n token ids to text in whole characters: parts of characters that do not make one
 * become U+FFFD. For a model that generates, the ids of a text (wisp_tokenize) become that text
 * again, composed (NFC) where the vocabulary is made so. For a model that embeds, words are put
 * together with spaces between, and what wisp_tokenize dropped (case, accents) stays away.
 *
 * Sets *length to the length of the text in bytes, and writes it to text [capacity] where it fits;
 * where it does not, the decoder is as before, and the call can be repeated. `decoder` may be NULL.
 * WISP_ERROR_ARGUMENT where an id is no token; WISP_ERROR_UNSUPPORTED where a control token has to
 * become its spelling, and the memory of the model is limited. */
WISP_API wisp_status wisp_detokenize(const wisp_model *model, const int32_t *ids, size_t n,
                                     wisp_decoder *decoder, char *text, size_t capacity,
                                     size_t *length, wisp_error *error);

typedef struct wisp_embed_options {
    const char *prompt; /* is put before every text. NULL: the model's default prompt; "": none */
    size_t dimensions;  /* keep this many leading values of each embedding and normalise it again
                           (Matryoshka). 0: keep wisp_model_dimensions of them */
    uint64_t *skipped;  /* [n]: receives, for each text, how many neurons were left out because they
                           were absent (the session's option `skip_absent`), summed over its tokens
                           and the layers. May be NULL */
} wisp_embed_options;

/* Embeds `n` texts. Writes the embeddings to rows [n, dimensions], normalised where the model asks
 * for it. The bits of a row depend on its text, the model, the compute mode, the predictor, the
 * sparsity and the kernel set. They do not depend on the other texts, their order or the number of
 * threads. `options` may be NULL. */
WISP_API wisp_status wisp_embed(wisp_session *session, const wisp_text *texts, size_t n,
                                const wisp_embed_options *options, float *rows, wisp_error *error);

/* ---- models without their cold neurons ------------------------------------------------------ */

/* A model whose file stores neurons as rows (wisp_calibrate) can be opened with the option
 * `hot_only`, without its cold neurons: those that calibration found to be needed seldom. Of its
 * source only the bytes before the first of them are used then (wisp_source_hot_bytes), and the
 * others need not be there: `available` says so, without which `read` is also asked for up to
 * 65,536 bytes behind the list of tensors. The predictor is lowrank (AUTO becomes LOWRANK) or
 * sentence, but any where tokens alone are cold (see below). Where the file has digests of its
 * chunks (docs/formats.md), the hot bytes are compared with them: WISP_ERROR_FORMAT names a chunk
 * that differs. Models that are opened as a whole are not compared. Opening fails with
 * WISP_ERROR_UNSUPPORTED for another predictor, a model that generates, and a file of a version of
 * wisp that wrote no row scales.
 *
 * In a file that has hot tokens (wisp_convert_options.hot_tokens; with `plain` no neurons are cold)
 * the embeddings of all other tokens are absent, too. A lasting source that has all bytes, and is
 * not copied with `in_memory`, needs none provided: they are read when a text needs them, and are
 * not compared with digests. Embeddings that were provided stay in memory whatever `memory` says,
 * unless the source `keeps` them or cold tokens are given up (limits of memory, above). A call
 * waits for embeddings also with `skip_absent`.
 *
 * The library does not fetch the other bytes. A call of wisp_embed whose texts need absent rows
 * stops and returns WISP_NEED_RANGES; the caller brings bytes, and the call goes on where it
 * stopped:
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
 *     wisp_embed_give_up(session); // does nothing where the call has ended
 *
 * Nothing is computed twice: a batch stops before its tokens are looked up, for all of their rows
 * at once (with limited `memory` for as many as fit), and when the predictor of a layer has chosen
 * neurons, and goes on with these. The embeddings have the bits of the model opened as a whole with
 * the same predictor, in whatever order ranges come. Texts, rows, prompt and `skipped` must stay as
 * they are until the call ends. Rows are complete when it returns WISP_OK.
 *
 * All sessions of a model share the rows that any of them was provided with. */

/* Bytes [offset, offset + length) of a file. */
typedef struct wisp_range {
    uint64_t offset, length;
} wisp_range;

/* Points *ranges to the ranges of the file that the session's waiting call needs, in rising order,
 * and sets *count to their number. Ranges are joined, up to 1 MiB, where at most `gap` bytes that
 * are not needed lie between: they are read along. Of a file with digests of its chunks
 * (docs/formats.md) they are whole chunks, and one begins within the range before it where a row
 * that lies in two chunks has no room in that. Neurons that were provided meanwhile, also
 * through another session, are not among them, so there may be none left. The ranges live until the
 * next call with the session. There are none where no call waits. */
WISP_API wisp_status wisp_session_needs(wisp_session *session, uint64_t gap,
                                        const wisp_range **ranges, size_t *count,
                                        wisp_error *error);

/* Does what wisp_session_needs does for the token embeddings that a text needs, whether or not a
 * call waits, so that they can be provided before the text is embedded. It adds no prompt, not even
 * the model's own: a text that is embedded behind a prompt has to begin with it here. Where cold
 * tokens are given up (limits of memory), rows that no call waits for are taken only while there is
 * room. The neurons that a text needs are known only when it is computed. */
WISP_API wisp_status wisp_session_text_needs(wisp_session *session, wisp_text text, uint64_t gap,
                                             const wisp_range **ranges, size_t *count,
                                             wisp_error *error);

/* Hands `length` bytes of the file, from `offset` on, to the model of a session that was opened
 * with `hot_only`; the bytes are copied. Every cold neuron or token whose row lies wholly within
 * them becomes present; other bytes are ignored, also those of a part of a row. May be called at
 * any time, from several threads with a session each. Fails with WISP_ERROR_FORMAT where a weight
 * is not finite.
 *
 * Where the file has digests of its chunks, every whole cold chunk is compared with its digest, and
 * rows are taken of these chunks alone: a range of wisp_session_needs has to come in one call.
 * Where a chunk differs no row is taken, and WISP_ERROR_FORMAT names the chunk's number and bytes.
 */
WISP_API wisp_status wisp_session_provide(wisp_session *session, uint64_t offset, const void *bytes,
                                          size_t length, wisp_error *error);

/* Continues the call of wisp_embed that waits. Returns WISP_NEED_RANGES again where neurons of this
 * layer or a later one are absent, and otherwise what wisp_embed returns. WISP_ERROR_ARGUMENT where
 * no call waits. */
WISP_API wisp_status wisp_embed_continue(wisp_session *session, wisp_error *error);

/* Gives up the call of wisp_embed that waits, if there is one. Its rows are incomplete. A new call
 * of wisp_embed, a failure and wisp_session_close do so too. */
WISP_API void wisp_embed_give_up(wisp_session *session);

/* Does what wisp_embed does, and reads the cold neurons that are needed from the file that the
 * model was opened from (wisp_model_open). Fails with WISP_ERROR_IO, and names the bytes, where the
 * file has become shorter or has been written to since it was opened. Only in the native library.
 */
WISP_API wisp_status wisp_embed_from_file(wisp_session *session, const wisp_text *texts, size_t n,
                                          const wisp_embed_options *options, float *rows,
                                          wisp_error *error);

/* Neurons of a model that was opened with `hot_only`, since then. Bytes are those in memory, if not
 * said otherwise. */
typedef struct wisp_cold_stats {
    uint64_t neurons, hot_neurons; /* of all layers */
    uint64_t hot_bytes;            /* of hot neurons, which are always in memory */
    uint64_t cold_bytes;           /* that all cold neurons would take */
    uint64_t warm_bytes;          /* of groups of 64 cold neurons of which one is present or more */
    uint64_t most_warm_bytes;     /* the most that these were at a time */
    uint64_t budget;              /* of warm_bytes; UINT64_MAX: none */
    uint64_t hits, misses;        /* cold neurons that a batch needed in a layer and that were
                                     present, or absent; each counts once for a batch */
    uint64_t evictions;           /* of groups */
    uint64_t ranges, range_bytes; /* that were provided; bytes of the file */
    uint64_t rows;                /* neurons that became present */
    uint64_t prefetched;          /* of them those that no call waited for, which came in one range
                                     with others or were provided unasked */
    uint64_t prefetched_used;     /* of these, those that a later batch needed */
    uint64_t prefetched_wasted;   /* and those that were evicted before any batch needed them */
    uint64_t tokens;              /* cold tokens whose embeddings were provided and are in memory */
    uint64_t least_memory;        /* the bytes that have to be in memory, which is the least limit
                                     of wisp_model_options.memory and wisp_model_limit_memory */
} wisp_cold_stats;

/* Returns false, and zeros, where the model was not opened with `hot_only`. */
WISP_API bool wisp_model_get_cold_stats(const wisp_model *model, wisp_cold_stats *stats);

/* A layer of a model that was opened with `hot_only`, for those who draw its neurons. The neuron at
 * place i >= hot is the bytes [cold_offset + (i - hot) * row_bytes, + row_bytes) of the file. */
typedef struct wisp_layer_neurons {
    uint64_t neurons, hot;           /* those at places below `hot` are always in memory */
    uint64_t cold_offset, row_bytes; /* 0 where the layer has no cold neurons */
} wisp_layer_neurons;

/* Writes a mask of the layer's neurons that are in memory to `present`, and of those that the batch
 * which began last has needed so far to `needed` (of several sessions: of their batches, mixed).
 * The neuron at place i is bit i % 64 of word i / 64; each mask has (intermediate_size + 63) / 64
 * words. With `skip_absent`, `needed` has the neurons that were left out, too. Returns false, and
 * writes nothing, where the model was not opened with `hot_only` or has no such layer. */
WISP_API bool wisp_model_get_neurons(const wisp_model *model, size_t layer,
                                     wisp_layer_neurons *about, uint64_t *present,
                                     uint64_t *needed);

/* Returns the dot product of two rows of n values, which is their cosine similarity where both are
 * normalised. */
WISP_API float wisp_dot(const float *a, const float *b, size_t n);

/* ---- generating text ------------------------------------------------------------------------ */

/* A number that belongs to a token. */
typedef struct wisp_token_value {
    int32_t id;
    float value;
} wisp_token_value;

/* A grammar that texts have to match. It does not change, and threads and sessions may share it. */
typedef struct wisp_grammar wisp_grammar;

/* Compiles a grammar in GBNF, llama.cpp's notation (docs/formats.md). Fails with WISP_ERROR_FORMAT,
 * naming line and column, where the text is none, and where a rule can begin with itself (left
 * recursion). Rules within rules are followed 1024 deep. */
WISP_API wisp_status wisp_grammar_open(wisp_text gbnf, wisp_grammar **grammar, wisp_error *error);

/* Makes the grammar of JSON texts that are valid under a JSON Schema. Fails with
 * WISP_ERROR_UNSUPPORTED, naming the place in the schema, for keywords that are not in
 * docs/formats.md. */
WISP_API wisp_status wisp_grammar_open_schema(wisp_text schema, wisp_grammar **grammar,
                                              wisp_error *error);

/* Closes a grammar; NULL is allowed. No text may be generated with it any more. */
WISP_API void wisp_grammar_close(wisp_grammar *grammar);

/* The options by which the next token is chosen. Zeros choose the most likely one. The steps are,
 * in this order: bias, repetition_penalty, presence_penalty and frequency_penalty, temperature,
 * top_k, top_p, min_p, typical_p, and a draw among the tokens that are left. That is the order of
 * Hugging Face transformers. With `temperature_last` it is llama.cpp's default order: bias,
 * penalties, top_k, typical_p, top_p, min_p, temperature. */
typedef struct wisp_sampling {
    float temperature; /* divides the logits. 0: the most likely token is taken */
    uint32_t top_k;    /* keep the k most likely tokens. 0: all */
    float top_p;       /* keep the fewest tokens whose probabilities reach this sum. 0: all */
    float min_p;       /* keep tokens at least this times as likely as the most likely one */
    float typical_p;   /* keep the fewest tokens whose probabilities reach this sum, from those on
                          whose information is nearest to the expected information. 0: all */
    bool temperature_last;
    float repetition_penalty; /* divides positive logits of tokens in the text, multiplies negative
                                 ones. 0: 1 */
    float presence_penalty;   /* is subtracted from the logits of tokens in the text */
    float frequency_penalty;  /* is subtracted as often as the token stands in the text */
    uint32_t penalty_window;  /* the penalties count only so many last tokens of prompt and text.
                                 0: all */
    const wisp_token_value *bias; /* [biases]: is added to the token's logit. -INFINITY: never */
    size_t biases;
    uint64_t seed; /* of the random numbers: the same seed gives the same text */
} wisp_sampling;

/* Why a text ended. */
typedef enum wisp_end {
    WISP_END_TOKEN = 0,   /* the model ended it, or one of the tokens `stop_id` did */
    WISP_END_STOP = 1,    /* a stop text was generated */
    WISP_END_LENGTH = 2,  /* max_tokens were generated */
    WISP_END_CONTEXT = 3, /* the model's context is full */
    WISP_END_CALLER = 4,  /* the option `piece` returned false */
    WISP_END_GRAMMAR = 5  /* the text is complete, and the grammar lets nothing follow */
} wisp_end;

/* Returns "token", "stop", "length", "context", "caller" or "grammar", and NULL past the last. */
WISP_API const char *wisp_end_name(size_t end);

/* A generated token and the text that can be handed out with it. The texts of all pieces, joined,
 * are the generated text.
 *
 * A token's text is held back where it ends within a character or may begin a stop text, and comes
 * with a later token: so a piece's text may be empty, and may hold the text of several tokens.
 * wisp_token_text gives the bytes of the token itself. A stop text and what follows it is in no
 * piece; the tokens that it is made of are. Where the text ends by a token (WISP_END_TOKEN), which
 * is in no piece, and text is still held back, a last piece without a token hands that out. */
typedef struct wisp_piece {
    wisp_text text; /* whole characters; only at the end of a text perhaps a part of one */
    int32_t id;     /* the token; -1: none */
    float logprob;  /* the natural logarithm of the token's probability, which is that of
                       softmax(logits) before any step of sampling. 0 without `logprobs` */
    const wisp_token_value *likely; /* [likely_count]: the most likely tokens there and the
                                       logarithms of their probabilities, the likeliest first */
    size_t likely_count;            /* the option `logprobs`; 0 where id is -1 */
} wisp_piece;

typedef struct wisp_generation {
    wisp_end end;
    size_t prompt_tokens;  /* without those that were dropped before the first token */
    size_t reused_tokens;  /* tokens of the prompt that the session had computed before */
    size_t tokens;         /* generated, without the one that ended the text */
    double prompt_seconds; /* until the prompt's last logits: nearly the time to the first token */
    double seconds;        /* from then on */
    size_t dropped_tokens; /* of prompt and text, that left the context (context_shift) */
    uint64_t read_bytes;   /* in `seconds`: the weights of a dense model, and the keys and values of
                              the text, once for each pass that computed a token of it */
} wisp_generation;

typedef struct wisp_generate_options {
    uint32_t max_tokens; /* 0: as many as the context has room for, which context_shift makes
                            endless */
    wisp_sampling sampling;
    const char *const *stop; /* [stops]: texts that end the text, and are not part of it */
    size_t stops;
    const int32_t *stop_id; /* [stop_ids]: tokens that end the text, as the model's own do */
    size_t stop_ids;
    /* The text matches this grammar, or begins a text that does where it ends by WISP_END_LENGTH,
     * _CONTEXT, _STOP or _CALLER. The model ends it only where it is complete. May be NULL. */
    const wisp_grammar *grammar;
    uint32_t logprobs; /* compute the logarithms of the probabilities of each token and of so many
                          most likely ones. 0: none; at most the vocabulary's size counts */
    /* Receives each token when it has been generated, and text. The piece lives until the function
     * returns. Returning false ends the text. May be NULL. */
    bool (*piece)(void *context, const wisp_piece *piece);
    /* Receives the result when the text has ended without a failure. May be NULL. */
    void (*ended)(void *context, const wisp_generation *result);
    void *context; /* passed to `piece` and `ended` */
    /* Makes room where the context is full: the first keep_tokens tokens stay, and the oldest half
     * of the others is dropped. The text goes on as after a prompt of the tokens that are left,
     * which are computed anew; penalties and grammar still know the others. A prompt that is longer
     * than the context is shortened as if it had grown token by token. Without it such a prompt is
     * an error, and a text that fills the context ends (WISP_END_CONTEXT). */
    bool context_shift;
    uint32_t keep_tokens; /* with context_shift: besides a token that begins every text of the
                             model, which always stays; at most the whole prompt */
} wisp_generate_options;

/* Continues a prompt. A session remembers its last text: a prompt that begins with the same tokens
 * is computed from where the two differ. `options` and `result` may be NULL. Fails with
 * WISP_ERROR_UNSUPPORTED where the model generates no text, and with WISP_ERROR_ARGUMENT where the
 * prompt has more tokens than the model's context and may not slide, where keep_tokens leave less
 * than two tokens of the context to others, or where bias and grammar leave no token. Of a call
 * that fails after text was handed out, that text is good. */
WISP_API wisp_status wisp_generate(wisp_session *session, wisp_text prompt,
                                   const wisp_generate_options *options, wisp_generation *result,
                                   wisp_error *error);

/* One of several texts to generate. */
typedef struct wisp_request {
    wisp_text prompt;
    const int32_t *ids; /* [n_ids]: the prompt as token ids, which `prompt` is then not. May be
                           NULL */
    size_t n_ids;
    const wisp_generate_options *options; /* NULL: the defaults */
} wisp_request;

/* Continues n prompts, up to `at_once` of them at a time (0: 8): the next one joins when a text has
 * ended. Each of these needs memory of its own for keys and values. A token costs less than alone,
 * because the weights are read once for all texts. Each text has the bits that it has alone. Tokens
 * that prompts begin with in common are computed once, and those that the session's last calls
 * computed are not computed again. Pieces of different texts come in turn, on the calling thread.
 *
 * Writes results [n], which may be NULL. Fails as wisp_generate does. Where a request is bad, the
 * message says which, and no text is generated. */
WISP_API wisp_status wisp_generate_batch(wisp_session *session, const wisp_request *requests,
                                         size_t n, size_t at_once, wisp_generation *results,
                                         wisp_error *error);

typedef enum wisp_role {
    WISP_ROLE_SYSTEM = 0, /* how the model is to behave: only the first message */
    WISP_ROLE_USER = 1,
    WISP_ROLE_ASSISTANT = 2 /* the model */
} wisp_role;

/* Work as wisp_compute_name and wisp_compute_find. The names are "system", "user" and "assistant".
 */
WISP_API const char *wisp_role_name(size_t role);
WISP_API bool wisp_role_find(const char *name, wisp_role *role);

typedef struct wisp_message {
    wisp_role role;
    wisp_text content;
} wisp_message;

/* A conversation that the model is to continue with a message of the assistant. A chat format says
 * how the messages become a prompt: which control tokens mark where a message begins and ends. */
typedef struct wisp_conversation {
    const wisp_message *messages; /* [n]: the last is the user's */
    size_t n;
    const char *format; /* a name of wisp_chat_format_name. NULL: wisp_model_chat_format */
    bool no_thinking;   /* of qwen3: the model is to answer without thinking first */
} wisp_conversation;

/* Returns the name of a built-in chat format, and NULL past the last: "llama2", "llama3",
 * "llama3.1", "chatml", "qwen2", "qwen2.5", "qwen3", "lfm2", "gemma", "mistral-v1",
 * "mistral-v3", "phi3" and "plain", in which messages are just text. docs/formats.md shows each. */
WISP_API const char *wisp_chat_format_name(size_t index);

/* Sets *name to the chat format that the model was trained with. The model's file has a template of
 * it, which is a program. It is not run: the format is recognised by the marks in it. Fails with
 * WISP_ERROR_NOT_FOUND where the file has no template, and with WISP_ERROR_UNSUPPORTED where none
 * of the built-in formats is recognised or the model generates no text. */
WISP_API wisp_status wisp_model_chat_format(const wisp_model *model, const char **name,
                                            wisp_error *error);

/* Generates the reply to a conversation, which ends where the format's mark of the end is
 * generated (WISP_END_TOKEN). Otherwise it works as wisp_generate does: a session computes only
 * what a longer conversation adds to the last one. What messages contain is text: it cannot make
 * control tokens. Fails as wisp_generate and wisp_model_chat_format do, with WISP_ERROR_ARGUMENT
 * where the format does not exist or does not allow such messages (the field names the message),
 * and with WISP_ERROR_UNSUPPORTED where the vocabulary lacks a token of the format. */
WISP_API wisp_status wisp_chat(wisp_session *session, const wisp_conversation *conversation,
                               const wisp_generate_options *options, wisp_generation *result,
                               wisp_error *error);

/* Converts a conversation to the token ids that wisp_chat generates from. Writes ids as
 * wisp_tokenize does. */
WISP_API wisp_status wisp_chat_tokenize(const wisp_model *model,
                                        const wisp_conversation *conversation, int32_t *ids,
                                        size_t capacity, size_t *count, wisp_error *error);

/* A text that beam search found. */
typedef struct wisp_hypothesis {
    wisp_text text;
    const int32_t *ids; /* [tokens] */
    size_t tokens;      /* without the one that ended the text */
    double logprob;     /* the sum of its tokens' log-probabilities, with the one that ended it */
    double score;       /* logprob / (number of these tokens) ^ length_penalty */
    wisp_end end;       /* WISP_END_TOKEN, _LENGTH or _CONTEXT */
} wisp_hypothesis;

typedef struct wisp_beam_options {
    uint32_t beams;         /* texts that are followed at a time, at most 64. 0: 4 */
    uint32_t max_tokens;    /* 0: as many as the context has room for */
    float length_penalty;   /* 0 ranks texts by their probability, 1 by its mean for a token */
    const int32_t *stop_id; /* [stop_ids]: tokens that end a text, as the model's own do */
    size_t stop_ids;
    /* Receives `beams` texts, the best first, when the search has ended; fewer only where the
     * vocabulary has too few tokens. A text lives until the function returns. */
    void (*hypothesis)(void *context, const wisp_hypothesis *hypothesis);
    void *context;
} wisp_beam_options;

/* Searches for the likeliest continuations of a prompt. `options` has a function `hypothesis`. It
 * finds what Hugging Face transformers finds with num_beams and early_stopping=False, which gives
 * up when the best running text is no better than the worst of `beams` ended ones. Fails as
 * wisp_generate does. */
WISP_API wisp_status wisp_beam_search(wisp_session *session, wisp_text prompt,
                                      const wisp_beam_options *options, wisp_error *error);

/* Computes the logits [n, vocabulary_size] that follow each of n token ids, the first of which
 * begins a text. Fails as wisp_generate does, and where an id is no token. */
WISP_API wisp_status wisp_logits(wisp_session *session, const int32_t *ids, size_t n, float *logits,
                                 wisp_error *error);

/* Computes the logits [vocabulary_size] that follow the last of n token ids, n > 0. Tokens that the
 * session's last text begins with are not computed again. */
WISP_API wisp_status wisp_next_logits(wisp_session *session, const int32_t *ids, size_t n,
                                      float *logits, wisp_error *error);

/* Computes the log-probabilities [n - first] of the token ids from `first` on, each given all
 * before it: natural logarithms. `first` is at least 1, because nothing predicts the first token,
 * and below n. Tokens before `first` that the session's last text begins with are not computed
 * again. */
WISP_API wisp_status wisp_score(wisp_session *session, const int32_t *ids, size_t n, size_t first,
                                float *logprobs, wisp_error *error);

/* Save what the session has computed of its last texts, and load it, also in another process or on
 * another machine: a text that continues one of them then has the same bits as if the session had
 * never been closed. The model must be the one that it was saved with, and run with the same
 * compute mode, and the session must have the same cache_type; other threads are good. Logits are
 * those of the kernel set that computes them. docs/formats.md describes the bytes.
 *
 * Saving writes a file as wisp_convert does: it appears whole or not at all. Loading fails with
 * WISP_ERROR_FORMAT where the bytes are damaged, with WISP_ERROR_UNSUPPORTED where another version
 * wrote them, and with WISP_ERROR_ARGUMENT where they belong to another model or session. Only in
 * the native library. */
WISP_API wisp_status wisp_session_save(wisp_session *session, const char *path, wisp_error *error);
WISP_API wisp_status wisp_session_load(wisp_session *session, const char *path, wisp_error *error);

/* Do the same with bytes in memory. Saving sets *size, and writes nothing where that exceeds
 * `capacity`. `bytes` may be NULL where the capacity is 0. */
WISP_API wisp_status wisp_session_save_bytes(wisp_session *session, void *bytes, size_t capacity,
                                             size_t *size, wisp_error *error);
WISP_API wisp_status wisp_session_load_bytes(wisp_session *session, const void *bytes, size_t size,
                                             wisp_error *error);

/* ---- indexes -------------------------------------------------------------------------------- */

/* An index holds vectors with ids, and finds those whose dot product with a query is largest: the
 * exact ones, by computing all products. It needs no model. One thread at a time may use it. These
 * functions are only in the native library; docs/formats.md describes the file, which the
 * JavaScript package reads and writes, too. */
typedef struct wisp_index wisp_index;

typedef enum wisp_index_kind {
    WISP_INDEX_INT8 = 0, /* a byte for each value, and a scale for each vector */
    WISP_INDEX_F32 = 1   /* four times as large */
} wisp_index_kind;

/* wisp_index_kind_name(WISP_INDEX_INT8) is "int8"; NULL past the last. */
WISP_API const char *wisp_index_kind_name(size_t kind);

/* Sets *kind by its name. Returns false, and changes nothing, where none has it or it is NULL. */
WISP_API bool wisp_index_kind_find(const char *name, wisp_index_kind *kind);

/* Makes an empty index for vectors of `dimensions` values, at most 65536. With a session, which
 * may be NULL, the index keeps the name of its model and the embedding of a sentence, so that
 * wisp_index_check_model can tell other models; `dimensions` may then be 0, for those of the model,
 * and must not be more. */
WISP_API wisp_status wisp_index_create(wisp_session *session, size_t dimensions,
                                       wisp_index_kind kind, wisp_index **index, wisp_error *error);

/* Open the index in a file, which is read once, or in bytes, which are copied. Fail with
 * WISP_ERROR_FORMAT where they are malformed or damaged. */
WISP_API wisp_status wisp_index_open(const char *path, wisp_index **index, wisp_error *error);
WISP_API wisp_status wisp_index_open_bytes(const void *bytes, size_t size, wisp_index **index,
                                           wisp_error *error);

/* Frees the index without saving it. */
WISP_API void wisp_index_close(wisp_index *index);

/* Save the index. The file is written under another name first, and replaces an older one when it
 * is complete and synced. The second function sets *size, and writes the bytes where they fit into
 * `capacity`; `bytes` may be NULL where that is 0. */
WISP_API wisp_status wisp_index_save(wisp_index *index, const char *path, wisp_error *error);
WISP_API wisp_status wisp_index_save_bytes(wisp_index *index, void *bytes, size_t capacity,
                                           size_t *size, wisp_error *error);

/* Fails with WISP_ERROR_ARGUMENT where the index has vectors of another model: where the session
 * embeds the sentence that wisp_index_create embedded in another direction (a cosine below 0.9).
 * Other files, quantisations and compute modes of one model are the same model. Succeeds where the
 * index was made without a session. */
WISP_API wisp_status wisp_index_check_model(const wisp_index *index, wisp_session *session,
                                            wisp_error *error);

/* Adds n vectors, rows [n, dimensions] of finite values. An id is any UTF-8 text but the empty one.
 * A vector whose id the index has replaces the old one, and of equal ids in one call the last
 * counts. `metadata` has a JSON text for each vector; empty texts are none, and it may be NULL. */
WISP_API wisp_status wisp_index_add(wisp_index *index, const wisp_text *ids,
                                    const wisp_text *metadata, const float *rows, size_t n,
                                    wisp_error *error);

/* Removes the vectors of n ids, and sets *removed (may be NULL) to their number. Ids that the index
 * does not have are no error. Rows keep their numbers until wisp_index_compact. */
WISP_API wisp_status wisp_index_remove(wisp_index *index, const wisp_text *ids, size_t n,
                                       size_t *removed, wisp_error *error);

/* Frees the memory of removed rows. Rows keep their order and get new numbers. */
WISP_API wisp_status wisp_index_compact(wisp_index *index, wisp_error *error);

typedef struct wisp_match {
    uint64_t row; /* see wisp_index_get */
    float score;  /* the dot product, which is the cosine where both vectors are normalised; of
                     products beyond floats the largest or least float */
} wisp_match;

/* Finds the k vectors with the largest dot products for each of n queries [n, dimensions] of finite
 * values. Writes them to matches [n, k], best first; of equal scores the first row is first. Sets
 * *found to the matches that each query has: k, or fewer where the index has fewer vectors. Results
 * do not depend on the number of threads, and in an int8 index not on the machine either: queries
 * are quantised to 13 bits or more (fewer above 4096 dimensions), and sums are exact. */
WISP_API wisp_status wisp_index_search(wisp_index *index, const float *queries, size_t n, size_t k,
                                       wisp_match *matches, size_t *found, wisp_error *error);

/* Lets searches use so many threads, at most 1024. An index begins with one. */
WISP_API wisp_status wisp_index_set_threads(wisp_index *index, uint32_t threads, wisp_error *error);

typedef struct wisp_index_info {
    const char *model; /* the name of the model, or "" */
    wisp_index_kind kind;
    size_t dimensions;
    uint64_t count;          /* vectors */
    uint64_t rows;           /* vectors, and rows that were removed */
    uint64_t resident_bytes; /* memory that the index holds */
} wisp_index_info;

WISP_API void wisp_index_get_info(const wisp_index *index, wisp_index_info *info);

/* Gives the id and the metadata (may be NULL) of a row, from 0. They live until the next call that
 * changes the index. Returns false where there is no such row, or it was removed. */
WISP_API bool wisp_index_get(const wisp_index *index, uint64_t row, wisp_text *id,
                             wisp_text *metadata);

/* Writes the vector of a row to values [dimensions]. Returns false as wisp_index_get does. */
WISP_API bool wisp_index_get_vector(const wisp_index *index, uint64_t row, float *values);

/* Sets *row to that of an id. Returns false where the index does not have it. */
WISP_API bool wisp_index_find(const wisp_index *index, wisp_text id, uint64_t *row);

/* ---- inspection ----------------------------------------------------------------------------- */

/* A wisp_file shows the contents of a model's file without loading the model: metadata and tensors
 * as they are stored, whatever the architecture. It does not change while it is open, and threads
 * may share it. Only in the native library. */
typedef struct wisp_file wisp_file;

/* Opens a GGUF file or a Hugging Face folder and checks that it is well-formed. */
WISP_API wisp_status wisp_file_open(const char *path, wisp_file **file, wisp_error *error);

WISP_API void wisp_file_close(wisp_file *file);

/* A file on disk that holds tensors. A GGUF file has one part; a folder has a part for each of its
 * safetensors files. */
typedef struct wisp_file_part {
    const char *path;
    uint64_t size; /* in bytes */
} wisp_file_part;

typedef struct wisp_metadata {
    const char *key;
    const char *type; /* of the value, or of the elements of an array: "u32", "bool", "string"... */
    bool is_array;
    uint64_t elements; /* of an array; 1 for other values */
    const char *text;  /* the value: "12", "0.5", "true", a string; of an array "i32[12]" */
} wisp_metadata;

typedef struct wisp_tensor {
    const char *name;
    const char *type; /* GGML's name: "F32", "Q8_0"... */
    uint32_t dimensions;
    uint64_t shape[4]; /* [dimensions]; values of the last dimension are adjacent */
    uint64_t bytes;
    uint64_t offset; /* in the part, in bytes */
    uint32_t part;   /* the index of the part */
} wisp_tensor;

/* Give entry `index` of the file. Return false past the last. */
WISP_API bool wisp_file_get_part(const wisp_file *file, size_t index, wisp_file_part *part);
WISP_API bool wisp_file_get_metadata(const wisp_file *file, size_t index, wisp_metadata *metadata);
WISP_API bool wisp_file_get_tensor(const wisp_file *file, size_t index, wisp_tensor *tensor);

/* As wisp_model_get_assumption. */
WISP_API bool wisp_file_get_assumption(const wisp_file *file, size_t index,
                                       wisp_assumption *assumption);

/* The result of wisp_file_verify: the number of chunks that are right, the bytes of a chunk, and
 * bytes and SHA-256 of the header, which has the digests of all chunks. */
typedef struct wisp_verified {
    uint64_t chunks, chunk_bytes;
    uint64_t header_bytes;
    unsigned char header_sha256[32];
} wisp_verified;

/* Reads a GGUF file and compares each of its chunks with the digest that the header has of it
 * (docs/formats.md). Fails with WISP_ERROR_NOT_FOUND where the file has no digests, and with
 * WISP_ERROR_FORMAT where these are malformed or a chunk differs, whose number and bytes the
 * message names. */
WISP_API wisp_status wisp_file_verify(const wisp_file *file, wisp_verified *verified,
                                      wisp_error *error);

/* Copies bytes [offset, offset + length) of part `index` to `buffer`. WISP_ERROR_ARGUMENT where
 * they are not all in the part. This function and those that read tensors and frequencies fail with
 * WISP_ERROR_IO where the file was modified after it was opened. */
WISP_API wisp_status wisp_file_read_part(const wisp_file *file, size_t index, uint64_t offset,
                                         void *buffer, size_t length, wisp_error *error);

/* Reads all of a tensor as f32, in the order of its shape. `values` must have room for it.
 * WISP_ERROR_UNSUPPORTED where wisp does not read the type, WISP_ERROR_FORMAT where a value is not
 * finite. */
WISP_API wisp_status wisp_file_read_tensor(const wisp_file *file, size_t index, float *values,
                                           wisp_error *error);

enum { WISP_HISTOGRAM_BINS = 32 };

/* The distribution of a tensor's values. The bins have one width and go from -largest to largest;
 * both ends belong to the outer bins. Where all values are 0, the bin above the middle has them. */
typedef struct wisp_histogram {
    double mean, deviation, least, most, largest; /* largest: in magnitude */
    uint64_t values, zeros;
    uint64_t bins[WISP_HISTOGRAM_BINS];
} wisp_histogram;

/* Counts the values of a tensor, of which about 1 MB is in memory at a time. Fails as
 * wisp_file_read_tensor does. */
WISP_API wisp_status wisp_file_get_histogram(const wisp_file *file, size_t index,
                                             wisp_histogram *histogram, wisp_error *error);

/* Gives the number of layers of a calibrated model, and of the neurons of a layer.
 * WISP_ERROR_NOT_FOUND where the model is not calibrated. */
WISP_API wisp_status wisp_file_get_neurons(const wisp_file *file, size_t *layers, size_t *neurons,
                                           wisp_error *error);

/* Reads how often each neuron of layer `layer` of a calibrated model was needed: frequencies
 * [neurons] are shares of the calibration's tokens. Neurons are in the order of the file, which
 * begins with those that are needed most often. */
WISP_API wisp_status wisp_file_read_frequencies(const wisp_file *file, size_t layer,
                                                float *frequencies, wisp_error *error);

/* ---- conversion ----------------------------------------------------------------------------- */

typedef struct wisp_convert_options {
    const char *type;           /* of weights: "f32", "f16", "q8_0" or "q4_0". NULL: keep. Matrices
                                   whose rows are no multiple of its block become f16 */
    const char *embedding_type; /* of the token embeddings, likewise. NULL: the same as `type` */
    const char *name;           /* becomes general.name. NULL: keep */
    bool plain;                 /* remove all that wisp_calibrate added, neurons as rows included,
                                   but with hot_tokens the order of the tokens */
    bool neurons;               /* store the weights of each feed-forward neuron side by side, as
                                   wisp_calibrate does. WISP_ERROR_UNSUPPORTED where the types of
                                   a layer do not allow it (docs/formats.md). false: keep */
    float hot;           /* choose the hot neurons of a calibrated model anew: in each layer the
                            fewest to which this share of all needed activations belongs. The
                            neurons of all layers become rows. 0: keep */
    uint64_t hot_bytes;  /* choose those of all layers that are needed most often and whose rows in
                            the file fill at most so many bytes. 0: keep */
    float sparsity;      /* the default sparsity of a calibrated model. 0: keep */
    uint64_t hot_tokens; /* put the embeddings of so many tokens, which calibration saw most often,
                            at the beginning of the file, and the others behind all that is hot. 0:
                            keep */
    /* Called often, with the number of tensors that are done. Returning false cancels. May be
     * NULL. */
    bool (*progress)(void *context, size_t done, size_t total);
    void *progress_context;
} wisp_convert_options;

/* Writes the model at `input`, a GGUF file or a Hugging Face folder, as a GGUF file. The output
 * appears whole or not at all: it is written under a temporary name beside `output`, synced and
 * renamed. Whether `output` can be written is found out first: WISP_ERROR_IO where it cannot, as in
 * a folder that does not exist. `options` may be NULL. In the native library, and in the package's
 * module that converts. */
WISP_API wisp_status wisp_convert(const char *input, const char *output,
                                  const wisp_convert_options *options, wisp_error *error);

/* ---- quantising ----------------------------------------------------------------------------- */

/* A tensor that wisp_quantize has written or measured. */
typedef struct wisp_quantized_tensor {
    const char *name;
    const char *type; /* what its elements are now; NULL where `fits` is false */
    bool fits;        /* false only where nothing is written: its rows are no whole blocks of the
                         type, and no fallback is named */
    bool fallback;    /* `type` is the fallback */
    bool quantised;   /* false: it kept its type or became floats; mse is 0 then, cosine 1 */
    uint64_t elements, bytes;
    double mse;    /* the mean of the squared differences to what it was */
    double cosine; /* of what it is to what it was; 1 where both are 0 */
    /* These four describe a tensor that was quantised to BITNET_T158; they are 0 for others. */
    uint64_t blocks, clamped; /* its blocks; those whose scale became epsilon, because a half cannot
                                 hold it */
    double scale_mean, scale_deviation; /* of its blocks' scales */
    double sparsity;                    /* the share of its weights that are 0 */
    /* Only of wisp_quantize_for_texts, which leaves mse 0 and cosine 1: the squared error of the
     * layer's output on the texts, relative to the output's variance. Matrices that have the same
     * inputs have one error together. */
    double plain_error;  /* by rounding each weight to the nearest value */
    double output_error; /* as it is */
    /* Only with a target: what this tensor's layer was expected to add to 1 - the mean cosine, or
     * to the divergence. Matrices that have the same inputs add it together. */
    double expected_loss;
} wisp_quantized_tensor;

/* The result of wisp_quantize_for_texts with a target, on texts that are held out: the file was
 * not fitted to them. */
typedef struct wisp_quantize_outcome {
    uint64_t bytes;                   /* of the file */
    size_t held_out;                  /* texts */
    size_t attempts;                  /* at quantising the model */
    double mean_cosine, least_cosine; /* to the original's embeddings; 0 where the model generates
                                         text */
    double divergence; /* of the probabilities of the next token from the original's, in nats; 0
                          where the model embeds */
} wisp_quantize_outcome;

/* The options of BITNET_T158. Values out of range are WISP_ERROR_ARGUMENT. */
typedef struct wisp_ternary_options {
    uint32_t block_size;   /* 256 is the only size of the format */
    float epsilon;         /* added to the mean magnitude of a block, which is its scale; above 0 */
    float clip_threshold;  /* weights over their scale are cut to at most this; above 0, up to 2 */
    float target_sparsity; /* at least this share of the weights of a block become 0; 0 to 1 */
} wisp_ternary_options;

#define WISP_TERNARY_DEFAULTS {.block_size = 256, .epsilon = 1e-8f, .clip_threshold = 1}

typedef struct wisp_quantize_options {
    const char *embedding_type; /* of the token embedding. NULL: as the other matrices */
    const char *output_type;    /* of output.weight, the last layer of a model that generates text.
                                   NULL: as the other matrices */
    const char *fallback;       /* the type of matrices whose rows are no whole blocks of the type
                                   wanted. NULL: such a matrix is an error that names it */
    uint64_t sample;            /* where nothing is written: measure about this many elements of
                                   each tensor, in whole rows. 0: all */
    const char *policy; /* which matrices take which type: the name of a policy that comes with
                           wisp (wisp_policy_name) or of a file (docs/formats.md). NULL:
                           "default" where `type` is bitnet_t158, and else `type` for all */
    const wisp_ternary_options *ternary; /* NULL: WISP_TERNARY_DEFAULTS */
    bool any_architecture; /* a Hugging Face folder of an architecture that wisp does not know is
                              read, too: its tensors keep their names, and config.json stands in the
                              metadata. Such a model cannot be opened */
    bool pad_neurons;      /* add neurons of zeros to feed-forward layers, so that their number is a
                              multiple of 32 and rows of W_down are whole blocks */
    /* Called after each tensor, whose strings last until it returns. May be NULL. */
    void (*tensor)(void *context, const wisp_quantized_tensor *tensor);
    /* Called often, with the number of tensors that are done. Returning false cancels. May be
     * NULL. */
    bool (*progress)(void *context, size_t done, size_t total);
    void *context;
    /* Only for wisp_quantize_for_texts: */
    const char *ffn_type;      /* of the feed-forward matrices. NULL: as the other matrices */
    const char *position_type; /* of the position embeddings. NULL: they become floats */
    size_t tokens;    /* of the texts, to use about so many. 0: 32768. Each holds 2 hidden_size
                         floats in memory, or 4 where the model generates text */
    uint64_t seed;    /* chooses the texts, where they have more tokens */
    uint32_t threads; /* 0 means 1, at most 1024. The file does not depend on it */
    /* A target. Types may then be lists of names with commas between them, from which one is chosen
     * for each matrix; position embeddings may stay floats, too. Not both: */
    uint64_t target_bytes; /* the file has at most so many bytes; 0: any number */
    double target_cosine;  /* the mean cosine of embeddings to the original's is at least this on
                              texts that are held out, in the smallest file that is found; 0: any */
    wisp_quantize_outcome *outcome; /* set with a target. May be NULL */
} wisp_quantize_options;

/* Writes the model at `input`, a GGUF file or a Hugging Face folder, with its matrices as `type`:
 * "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "q6_k" to "q2_k", "iq4_xs", "iq4_nl",
 * "mxfp4", "tq2_0", "tq1_0", "bitnet_t158". The bits are those of ggml's reference quantiser
 * without importances, and of PT-BitNet's document for the last. Norms, biases, positions and token
 * types become floats; what wisp_calibrate added stays; neurons that are stored as rows become
 * plain matrices. Where `output` is NULL nothing is written, and the cost of each tensor is
 * measured. The output appears as that of wisp_convert does; about 1 MB of a tensor is in memory at
 * a time. `options` may be NULL. Fails with WISP_ERROR_UNSUPPORTED where a matrix does not fit its
 * type, or holds a value that is too large for it. Only in the native library. */
WISP_API wisp_status wisp_quantize(const char *input, const char *output, const char *type,
                                   const wisp_quantize_options *options, wisp_error *error);

/* Writes what wisp_quantize does with codes and scales that are chosen so that the layers' outputs
 * on the n texts change little, rather than the weights; biases, where the model has them, make up
 * for mean errors. The types are "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl", "mxfp4",
 * "tq2_0" and "bitnet_t158"; with the last two, which have three values, token embeddings and
 * output.weight keep their type unless one is named. Of output.weight each weight is rounded, with
 * errors that count by the square of the input. `progress` counts batches of texts, once for each
 * matrix. `fallback`, `policy`, `ternary` and `sample` are not used. The same texts, options and
 * kernel set give the same file. Holds two copies of the model as floats, the texts' hidden states
 * (see `tokens`; twice that for models that generate text, of which a text has at most 512 tokens)
 * and, for a matrix with k inputs and n outputs, about 32 k^2 + 40 n k bytes.
 *
 * With a target, one text in five is held out. What the model loses where one matrix after the
 * other is rounded, and the error of each matrix with each type, foretell the losses by which types
 * are chosen. Fails with WISP_ERROR_ARGUMENT where the target is not reached, and says what is.
 * Only in the native library. */
WISP_API wisp_status wisp_quantize_for_texts(const char *input, const char *output,
                                             const char *type, const wisp_text *texts, size_t n,
                                             const wisp_quantize_options *options,
                                             wisp_error *error);

/* Returns the name of the type at `index` among those that wisp_quantize writes, from the largest
 * to the smallest and then bitnet_t158, or NULL past the last. */
WISP_API const char *wisp_quantize_type(size_t index);

/* Returns the name of a policy that comes with wisp, or NULL past the last. */
WISP_API const char *wisp_policy_name(size_t index);

/* Returns the text of the policy of a name, or NULL where none that comes with wisp has it. */
WISP_API const char *wisp_policy_text(const char *name);

/* ---- calibration ---------------------------------------------------------------------------- */

/* The quality of a predictor in one layer, measured on texts that it was not fitted to. A token
 * needs a neuron whose contribution is not 0 (with ReLU) or among the largest fifth (without). */
typedef struct wisp_calibrated_quality {
    double share;     /* of the neurons, that is computed */
    double needed;    /* the share of the neurons that is needed */
    double recall;    /* the share of the needed neurons that is computed */
    double precision; /* the share of the computed neurons that is needed */
    double error;     /* the mean squared error of the layer's output, relative to its variance */
} wisp_calibrated_quality;

/* The result of calibrating one layer. */
typedef struct wisp_calibrated_layer {
    uint32_t rank;  /* of its predictors */
    float sparsity; /* the share of neurons to skip, on average over layers */
    wisp_calibrated_quality lowrank;
    wisp_calibrated_quality sentence; /* all 0 without the option `sentence` */
    const float *frequency;           /* [neurons]: the share of tokens that need the neuron */
    const float *magnitude;           /* [neurons]: the mean magnitude of its contribution */
    size_t neurons;
    size_t hot; /* the number of neurons to which nine tenths of all needed activations belong. They
                   are the first neurons of the file, and its hot ones unless options say others */
} wisp_calibrated_layer;

typedef struct wisp_calibrate_options {
    uint32_t rank;  /* of the predictors: above 32 a multiple of it, but for predictors of type f32.
                       0: a third of hidden_size, at most 256 */
    float sparsity; /* the model's default share of neurons to skip. 0: 0.84 with ReLU, else 0.7 */
    const char *predictor_type; /* of the predictors' matrices in the file: "f32", "q8_0" or "q4_0".
                                   NULL: q8_0, or f32 where a row is not whole blocks of q8_0 */
    bool sentence;              /* also fit predictors that choose once for a whole text */
    bool one_sparsity;   /* the file gets thresholds of `sparsity` alone, which is smaller: sessions
                            cannot set another */
    float hot;           /* these three as in wisp_convert_options: what is hot in the file. */
    uint64_t hot_bytes;  /* Where both are 0: nine tenths of needed activations, and neurons */
    uint64_t hot_tokens; /* become rows only in layers whose types allow it */
    size_t tokens;       /* the most tokens to fit to. 0: 32768. Each layer holds as many rows of
                            hidden_size floats in memory */
    uint64_t seed;       /* the same seed, texts and kernel set give the same file */
    uint32_t threads;    /* 0 means 1, at most 1024. The file does not depend on it */
    void *context;       /* passed to the functions below, each of which may be NULL */
    /* Called on the calling thread when a stage begins, with `done` 0, and when `done` of its
     * `total` steps are done. The stages are "texts", "layers", "sentences" and "compensation". All
     * but the first count layers. */
    void (*progress)(void *context, const char *stage, size_t done, size_t total);
    /* Called often and on any thread. Returning true makes wisp_calibrate return
     * WISP_ERROR_CANCELLED. */
    bool (*cancelled)(void *context);
    /* Called for each layer in order. `found` and its arrays live until it returns. */
    void (*layer)(void *context, uint32_t layer, const wisp_calibrated_layer *found);
} wisp_calibrate_options;

/* Makes a model sparse. Runs the model at `input` (a GGUF file or a Hugging Face folder) on `n`
 * texts, which should be like those it will embed, fits predictors of the neurons that a token
 * needs, and writes the model with the predictors to `output`. Every eighth text is not used for
 * fitting but for measuring. All weights keep their bits. The weights of each neuron are stored
 * side by side; wisp_convert with `plain` restores the original. Whether `output` can be written is
 * found out first, as by wisp_convert. `options` may be NULL. Fails with WISP_ERROR_IO where the
 * input changes meanwhile. Only in the native library. */
WISP_API wisp_status wisp_calibrate(const char *input, const char *output, const wisp_text *texts,
                                    size_t n, const wisp_calibrate_options *options,
                                    wisp_error *error);

/* ---- this build ----------------------------------------------------------------------------- */

/* Returns version, target and compiler: "wisp 0.1.0 (x86_64, gcc 12.2.0)". */
WISP_API const char *wisp_build(void);

/* Returns the name of a kernel set that runs on this CPU, the fastest first, and NULL past the
 * last.
 */
WISP_API const char *wisp_kernels_name(size_t index);

/* Returns the features of this CPU that kernel sets can use: "avx2 fma avx512 vnni", or "". */
WISP_API const char *wisp_cpu_features(void);

#ifdef __cplusplus
}
#endif
#endif
