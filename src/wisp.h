/* SPDX-License-Identifier: Apache-2.0
 *
 * wisp: a sparse transformer inference engine. This header opens models, embeds texts and generates
 * text. It includes the other headers of the API at its end, so `#include <wisp.h>` is all that a
 * program needs. Read them when you need what they declare:
 *
 *     wisp/chat.h        conversations, chat templates, tool calls
 *     wisp/statistics.h  what a model consists of; the times and counters of a session
 *     wisp/sequences.h   beam search, logits, scores; saving and loading a session
 *     wisp/sources.h     models that are not files, part of a model's bytes, limits of memory
 *     wisp/index.h       exact search among many vectors
 *     wisp/vectors.h     vectors of tokens; embeddings kept on disk
 *     wisp/classify.h    texts scored by how well they answer a query, and by labels
 *     wisp/images.h      embeddings of images
 *     wisp/tools.h       inspect, convert, quantise and calibrate model files
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
 * threads and sessions may share it. A wisp_session embeds or generates texts with a model. It owns
 * working memory and worker threads, and one thread at a time may use it. "Native only" means that
 * a function is not in the WebAssembly modules.
 *
 * Errors: every call that can fail returns a wisp_status. If the caller passes a wisp_error, a
 * failing call fills it. The library never exits, aborts or prints. A failed call changes nothing
 * but output buffers: model and session remain usable. A call that can fail returns
 * WISP_ERROR_ARGUMENT if an object, a path, a text or the address of a result is NULL. All other
 * calls need open objects, unless they say that NULL is allowed.
 *
 * Ownership: an object that an _open function returns is released by the matching _close function,
 * which accepts NULL. Strings and pointers that a getter returns live as long as the object they
 * were taken from.
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

#define WISP_VERSION "0.2.0"

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
 * All three strings end with a 0 byte and are empty if they do not apply. */
typedef struct wisp_error {
    wisp_status status;
    char file[160]; /* the file at fault */
    char field[96]; /* the tensor, key or option at fault */
    char message[512];
} wisp_error;

/* Initialises a wisp_error, in C and in C++. Optional: a failing call fills all of it. */
#define WISP_ERROR_NONE {WISP_OK, "", "", ""}

/* Returns "ok", "argument", "memory", "io", "not_found", "format", "unsupported", "cancelled" or
 * "need_ranges". */
WISP_API const char *wisp_status_name(wisp_status status);

/* ---- models --------------------------------------------------------------------------------- */

typedef struct wisp_model wisp_model;

typedef enum wisp_compute {
    WISP_COMPUTE_AUTO = 0, /* INT8 if the file's weights are quantised; else BF16 if the model
                              embeds and the kernel set is amx, which is several times as fast and
                              has cosines of 0.9999 to F32; else F32 */
    WISP_COMPUTE_F32 = 1,  /* f32 weights and activations */
    WISP_COMPUTE_INT8 = 2, /* int8 weights and activations in blocks of 128 or 64, i32 sums */
    WISP_COMPUTE_BF16 = 3  /* weights and activations of dense layers as bf16, f32 sums; only on
                              processors with instructions for it (wisp_cpu_features) */
} wisp_compute;

/* A predictor decides which neurons of the feed-forward layers are computed for a token. All
 * predictors but DENSE compute in int8: with them WISP_COMPUTE_AUTO becomes INT8. */
typedef enum wisp_predictor {
    /* DENSE in f32. In int8 the fastest one for the kernel set: for models that generate LOWRANK
     * or GATE if the model is calibrated, else DENSE; for others LOWRANK if the model is
     * calibrated, else EXACT if it has ReLU, else DENSE. */
    WISP_PREDICTOR_AUTO = 0,
    /* All neurons. */
    WISP_PREDICTOR_DENSE = 1,
    /* All neurons in the layer's first matrix, and in its second matrix those with an activation
     * other than 0. */
    WISP_PREDICTOR_EXACT = 2,
    /* The neurons that a small linear layer in the model's file chooses for the token. Requires a
     * model made by wisp_calibrate. Models that generate must have gated layers and use it as they
     * use GATE; of the neurons that are chosen, those whose gate is 0 are left out. */
    WISP_PREDICTOR_LOWRANK = 3,
    /* The neurons that such a layer chooses once for a whole text, from the mean of its tokens.
     * Requires a model calibrated with `sentence`. AUTO never becomes SENTENCE, because LOWRANK is
     * more accurate at the same share of neurons. */
    WISP_PREDICTOR_SENTENCE = 4,
    /* For models that generate, with gated feed-forward layers. Prompt tokens use all neurons. For
     * a token that is generated or scored, or whose logits are asked for, all gates are computed,
     * and then the rest of each neuron whose gate exceeds a threshold. wisp_calibrate writes the
     * thresholds into the model's file. Without them layers with gates of ReLU leave out the
     * neurons whose gates are 0. */
    WISP_PREDICTOR_GATE = 5,
    /* Like GATE, with a fixed number of neurons in each layer: those with the largest gates. Needs
     * no calibration, but is more accurate with it. */
    WISP_PREDICTOR_TOPK = 6
} wisp_predictor;

/* The types of the key-value cache of a session that generates. Smaller types are faster and allow
 * longer texts. docs/decisions.md lists the measured errors. */
typedef enum wisp_cache_type {
    WISP_CACHE_AUTO = 0, /* INT8 if the model computes in int8, which costs more than these do, else
                            F32; F16 on a device (wisp_session_get_cache_type) */
    WISP_CACHE_F16 = 1,  /* 16-bit floats: half the bytes of F32 */
    WISP_CACHE_INT8 = 2, /* bytes, with an f32 scale for 32 values of a key and for all values of a
                            head: 27 % of the bytes. Queries and shares are rounded to bytes too, so
                            that reading a long text and writing are faster */
    WISP_CACHE_F32 = 3
} wisp_cache_type;

/* Return the name of a value: wisp_compute_name(WISP_COMPUTE_F32) is "f32". Return NULL after the
 * last value. */
WISP_API const char *wisp_compute_name(size_t compute);
WISP_API const char *wisp_predictor_name(size_t predictor);
WISP_API const char *wisp_device_name(size_t device); /* of wisp_model_options.device */
WISP_API const char *wisp_cache_type_name(size_t cache_type);

/* Set a value by its name. Return false and change nothing if no value has this name or it is
 * NULL. */
WISP_API bool wisp_compute_find(const char *name, wisp_compute *compute);
WISP_API bool wisp_predictor_find(const char *name, wisp_predictor *predictor);
WISP_API bool wisp_cache_type_find(const char *name, wisp_cache_type *cache_type);

typedef struct wisp_model_options {
    wisp_compute compute;
    const char *kernels; /* a name from wisp_kernels_name. NULL: the fastest kernel set */
    wisp_predictor predictor;
    bool in_memory;  /* also copy the token embeddings, so that nothing is read later */
    bool hot_only;   /* open without the cold neurons (wisp/sources.h) */
    uint64_t memory; /* with `hot_only`, and for models that generate: the most bytes that the model
                        may hold (wisp/sources.h, "limits of memory"). 0: no limit */
    bool portable;   /* compute embeddings with the same bits on every machine, kernel set and
                        WebAssembly engine, so that an index made on one machine can be searched on
                        another. They are close to other int8 embeddings, but not equal. AUTO becomes
                        WISP_COMPUTE_INT8 and WISP_PREDICTOR_DENSE; other values, and models that
                        generate, are WISP_ERROR_UNSUPPORTED with the field "portable" */
    const char *header_sha256; /* the expected SHA-256 of the file's header, as 64 lower-case
                                  hexadecimal digits (wisp_file_verify). The header contains the
                                  digests of all other bytes, so it identifies the file. All bytes
                                  that are present are verified when the model is opened (about 3 s
                                  per GB), others when they are provided. WISP_ERROR_FORMAT if the
                                  header differs, WISP_ERROR_UNSUPPORTED if it has no digests,
                                  WISP_ERROR_ARGUMENT if these are not 64 digits. NULL: any */
    const char *device; /* the device that computes: NULL or "cpu"; "cuda", the first NVIDIA GPU,
                           with libwisp-cuda.so; or "auto", which is cuda if it can compute this
                           model, else cpu. cuda computes in f16 or int8, but the
                           outputs of an encoder's attention always in f16, so results are close to
                           those of the CPU, but not equal. WISP_ERROR_UNSUPPORTED with the field
                           "device" if library, driver or GPU is missing, and for architectures
                           other than bert, llama, qwen2 and qwen3, sparse layers, bf16, `portable`
                           and `hot_only` */
} wisp_model_options;

/* Opens a GGUF file or a Hugging Face folder (config.json, model.safetensors, tokenizer.json or
 * vocab.txt and the sentence-transformers files). `options` may be NULL.
 *
 * Files are read and not mapped into memory, so a file that is truncated or changed cannot crash
 * the process. The file with the weights stays open until the model is closed, because token
 * embeddings are read when texts need them. To replace a model on disk, write another file and
 * rename it over the old one; open models keep the old one. If a program truncates or overwrites
 * the file itself, wisp_embed fails with WISP_ERROR_IO for texts whose tokens have changed; other
 * texts keep their embeddings. With `in_memory` the file is closed after opening and may change;
 * the model then takes more memory (wisp_model_info.resident_bytes). Opening fails with
 * WISP_ERROR_IO if the file changes meanwhile. */
WISP_API wisp_status wisp_model_open(const char *path, const wisp_model_options *options,
                                     wisp_model **model, wisp_error *error);

/* Closes a model. Close its sessions first. */
WISP_API void wisp_model_close(wisp_model *model);

typedef struct wisp_model_info {
    const char *name;         /* the file's general.name, or "" */
    const char *architecture; /* the file's general.architecture */
    const char *compute;      /* "f32", "int8" or "bf16", never "auto" */
    const char *kernels;      /* the kernel set in use; its portable form has another name */
    const char *device;       /* "cpu" or "cuda", never "auto" */
    const char *predictor;    /* one of wisp_predictor_name, never "auto" */
    float sparsity;           /* the share of neurons that lowrank or sentence skips unless
                                 wisp_session_set_sparsity sets another; 0 with dense and exact */
    const char *pooling;      /* "mean", "cls" or "last"; "rank" if the model scores pairs of texts,
                                 or has one label; "labels" if it scores more than one (natively);
                                 "splade" if an embedding has a value for each word of the vocabulary,
                                 most of them 0; "tokens" if each token of a text has a vector
                                 (ColBERT); "" if it does none of these */
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

/* Returns the number of values in an embedding: hidden_size, fewer if the file says so
 * (wisp.dimensions), or vocabulary_size of a model with the pooling "splade". Of a model that
 * scores pairs or labels, returns the number of scores. */
WISP_API size_t wisp_model_dimensions(const wisp_model *model);

/* Returns the text of the model's prompt `name` ("query", "passage", ...), or NULL if the model has
 * no such prompt. If `name` is NULL, returns the default prompt, which wisp_embed uses unless its
 * options name another; it is "" if the model has none. */
WISP_API const char *wisp_model_prompt(const wisp_model *model, const char *name);

/* ---- sessions ------------------------------------------------------------------------------- */

typedef struct wisp_session wisp_session;

typedef struct wisp_session_options {
    uint32_t threads; /* 0 means 1, at most 1024. Results do not depend on the number of threads */
    bool trace;       /* record the times of all stages for wisp_session_write_trace */
    bool recall; /* count `compared`, `needed` and `found` of wisp_layer_stats. Sparse layers then
                    compute all activations a second time, which the times include */
    wisp_cache_type cache_type; /* for models that generate */
    /* For models that generate: which keys a token looks at. "full", "local,window=1024,sinks=64"
     * (the last and the first positions) or "strided,window=512,sinks=64,stride=8" (of the other
     * blocks of 64 positions, every stride-th, too); numbers are optional and count whole blocks.
     * "mass,mass=980": of each query and key-value head the heaviest blocks, which have 980
     * thousandths of the softmax, are looked at. With two policies and a slash between them, the
     * second is for calls that add one token: "full/local". Only there is
     * "quest,tokens=1024,window=128,sinks=64": blocks by a bound of their scores. Only for other
     * calls is "minference,budget=30,window=100,sinks=30": 30 hundredths of the blocks, as vertical
     * lines and slashes that the call's last tokens choose, or vertical=N,slash=N positions.
     * Natively "learned" and "auto" are what wisp_calibrate_attention has written into the model's
     * file: masks, and a choice of policies. NULL: "full". Others leave out what may matter:
     * docs/decisions.md, 80 and 82 */
    const char *attention;
    bool skip_absent; /* for models opened with `hot_only`: do not wait for absent neurons, but
                         compute without them, as if the predictor had not chosen them. A call still
                         waits for the embeddings of its tokens */
} wisp_session_options;

/* Opens a session. `options` may be NULL. The model must stay open as long as the session.
 *
 * After fork(), both processes may use and close the open models and sessions independently. No
 * other thread may be in a call with the session during fork(). The child has none of the session's
 * threads; its first call starts new ones. */
WISP_API wisp_status wisp_session_open(const wisp_model *model, const wisp_session_options *options,
                                       wisp_session **session, wisp_error *error);

WISP_API void wisp_session_close(wisp_session *session);

/* Returns how many threads this process can keep busy: as many as there are processors that it may
 * run on and, on Linux, that its control group (a container's limit) allows. Native only. */
WISP_API uint32_t wisp_usable_threads(void);

/* Cancels the call that is embedding, generating or scoring: it returns WISP_ERROR_CANCELLED soon.
 * If no such call is running, the next one is cancelled. May be called from any thread and from a
 * signal handler. */
WISP_API void wisp_session_cancel(wisp_session *session);

/* Sets the share of neurons that lowrank or sentence skips: at least 0 and less than 1. It is an
 * average over layers and calibration texts, so other texts skip somewhat more or less. If the file
 * has no thresholds for this share, the nearest share in the file is used. Do not call it while the
 * session embeds. Fails with WISP_ERROR_ARGUMENT if the model uses another predictor, and with
 * WISP_ERROR_IO if the model's memory is limited and the thresholds cannot be read from the file or
 * have changed; with WISP_ERROR_MEMORY. After an error the share is as before.
 */
WISP_API wisp_status wisp_session_set_sparsity(wisp_session *session, float sparsity,
                                               wisp_error *error);

/* ---- text to numbers ------------------------------------------------------------------------ */

/* UTF-8 text without a terminating 0. Malformed UTF-8 is decoded as by Python's errors="replace":
 * each maximal ill-formed sequence becomes one U+FFFD. */
typedef struct wisp_text {
    const char *bytes;
    size_t length;
} wisp_text;

static inline wisp_text wisp_text_of(const char *string) {
    wisp_text text = {string, strlen(string)};
    return text;
}

/* Converts a text to token ids, special tokens included. If the model embeds, the ids are truncated
 * to max_tokens. Writes at most `capacity` ids and sets *count to the number of ids of the text. */
WISP_API wisp_status wisp_tokenize(const wisp_model *model, wisp_text text, int32_t *ids,
                                   size_t capacity, size_t *count, wisp_error *error);

/* Sets *count to the number of ids of a text before truncation, special tokens included. If the
 * model generates, this takes memory in proportion to the text. */
WISP_API wisp_status wisp_count_tokens(const wisp_model *model, wisp_text text, size_t *count,
                                       wisp_error *error);

/* Does so for a text with a prompt before it, which may be NULL. Fails also with WISP_ERROR_MEMORY.
 */
WISP_API wisp_status wisp_count_prompted(const wisp_model *model, const char *prompt,
                                         wisp_text text, size_t *count, wisp_error *error);

/* Sets *text to the bytes of token `id`, which may be part of a character. Control tokens have no
 * bytes. The bytes live as long as the model. Returns false if the model does not generate text or
 * `id` is not a token. */
WISP_API bool wisp_token_text(const wisp_model *model, int32_t id, wisp_text *text);

/* Sets *spelling to the spelling of token `id` in the vocabulary, such as "<|im_end|>" or "##ing";
 * a space before a word is U+2581 or U+0120. The bytes live as long as the model. Returns false if
 * `id` is not a token or the model's memory is limited. */
WISP_API bool wisp_token_spelling(const wisp_model *model, int32_t id, wisp_text *spelling);

/* The state of a text that is decoded in several calls. Initially all zeros, except for the
 * options. */
typedef struct wisp_decoder {
    bool special; /* option: write the spelling of control tokens, else nothing */
    bool more;    /* option: more tokens follow, so keep an unfinished character */
    bool begun; /* text was decoded. SentencePiece adds a space at the beginning of a text; set this
                   to keep the space, for tokens that continue a text */
    uint8_t held; /* of `bytes`, an unfinished character */
    char bytes[4];
} wisp_decoder;

/* Converts n token ids to text in whole characters; incomplete characters become U+FFFD. For a
 * model that generates, the ids of a text (wisp_tokenize) become that text again, in NFC if the
 * vocabulary normalises. For a model that embeds, words are joined with spaces, and what
 * wisp_tokenize removed (case, accents) stays removed.
 *
 * Sets *length to the length of the text in bytes, and writes it to text [capacity] if it fits. If
 * it does not fit, the decoder does not change, so the call can be repeated. `decoder` may be NULL.
 * Fails with WISP_ERROR_ARGUMENT if an id is not a token, and with WISP_ERROR_UNSUPPORTED if a
 * control token has to be spelled and the model's memory is limited. */
WISP_API wisp_status wisp_detokenize(const wisp_model *model, const int32_t *ids, size_t n,
                                     wisp_decoder *decoder, char *text, size_t capacity,
                                     size_t *length, wisp_error *error);

typedef struct wisp_embed_options {
    const char *prompt; /* added before every text. NULL: the model's default prompt; "": none */
    size_t dimensions;  /* keep this many first values of each embedding and normalise it again
                           (Matryoshka). 0: wisp_model_dimensions */
    uint64_t *skipped;  /* [n]: receives, for each text, how many neurons were skipped because they
                           were absent (session option `skip_absent`), summed over its tokens and the
                           layers. May be NULL */
} wisp_embed_options;

/* Embeds `n` texts. Writes the embeddings to rows [n, dimensions], normalised if the model says so.
 * The bits of a row depend on its text, the model, the compute mode, the predictor, the sparsity
 * and the kernel set. They do not depend on the other texts, their order or the number of threads.
 * `options` may be NULL. */
WISP_API wisp_status wisp_embed(wisp_session *session, const wisp_text *texts, size_t n,
                                const wisp_embed_options *options, float *rows, wisp_error *error);

/* Returns the dot product of two rows of n values. For normalised rows that is their cosine
 * similarity. */
WISP_API float wisp_dot(const float *a, const float *b, size_t n);

/* ---- generating text ------------------------------------------------------------------------ */

/* A token with a number. */
typedef struct wisp_token_value {
    int32_t id;
    float value;
} wisp_token_value;

/* A grammar that constrains generated text. It does not change; threads and sessions may share
 * it. */
typedef struct wisp_grammar wisp_grammar;

/* Compiles a grammar in GBNF, llama.cpp's notation (docs/formats.md). Fails with WISP_ERROR_FORMAT,
 * naming line and column, if the text is not a grammar or has left recursion. Rules may be nested
 * 1024 deep. */
WISP_API wisp_status wisp_grammar_open(wisp_text gbnf, wisp_grammar **grammar, wisp_error *error);

/* Makes the grammar of JSON texts that are valid under a JSON Schema. Fails with
 * WISP_ERROR_UNSUPPORTED, naming the place in the schema, for keywords that are not in
 * docs/formats.md. */
WISP_API wisp_status wisp_grammar_open_schema(wisp_text schema, wisp_grammar **grammar,
                                              wisp_error *error);

/* Closes a grammar; NULL is allowed. No call may still be using it. */
WISP_API void wisp_grammar_close(wisp_grammar *grammar);

/* How the next token is chosen. With zeros it is the most likely one. The steps are, in the order
 * of Hugging Face transformers: bias, repetition_penalty, presence_penalty and frequency_penalty,
 * temperature, top_k, top_p, min_p, typical_p, and a random draw from the remaining tokens.
 * `temperature_last` selects llama.cpp's default order: bias, penalties, top_k, typical_p, top_p,
 * min_p, temperature. */
typedef struct wisp_sampling {
    float temperature; /* divides the logits. 0: take the most likely token */
    uint32_t top_k;    /* keep the k most likely tokens. 0: all */
    float top_p;       /* keep the fewest tokens whose probabilities reach this sum. 0: all */
    float min_p;       /* keep tokens at least this times as likely as the likeliest */
    float typical_p;   /* keep the fewest tokens whose probabilities reach this sum, beginning with
                          those whose information is nearest to the expected information. 0: all */
    bool temperature_last;
    float repetition_penalty; /* divides positive logits of tokens in the text, multiplies negative
                                 ones. 0: 1 */
    float presence_penalty;   /* subtracted from the logits of tokens in the text */
    float frequency_penalty;  /* subtracted once for each occurrence in the text */
    uint32_t penalty_window; /* penalties consider only this many last tokens of prompt and text. 0:
                                all */
    const wisp_token_value *bias; /* [biases]: added to the token's logit. -INFINITY: never */
    size_t biases;
    uint64_t seed; /* for random numbers: the same seed gives the same text */
} wisp_sampling;

/* Why a text ended. */
typedef enum wisp_end {
    WISP_END_TOKEN = 0,   /* the model ended it, or one of the tokens `stop_id` did */
    WISP_END_STOP = 1,    /* a stop text was generated */
    WISP_END_LENGTH = 2,  /* max_tokens were generated */
    WISP_END_CONTEXT = 3, /* the model's context is full */
    WISP_END_CALLER = 4,  /* the option `piece` returned false */
    WISP_END_GRAMMAR = 5  /* the text is complete, and the grammar allows no more */
} wisp_end;

/* Returns "token", "stop", "length", "context", "caller" or "grammar", and NULL after the last. */
WISP_API const char *wisp_end_name(size_t end);

/* A generated token, and the text that can be delivered with it. The texts of all pieces, joined,
 * are the generated text.
 *
 * If a token's text ends within a character or may begin a stop text, it is held back and comes
 * with a later token. So a piece's text may be empty, or hold the text of several tokens.
 * wisp_token_text returns the bytes of the token itself. No piece contains a stop text or what
 * follows it, but its tokens come as pieces. A token that ends the text (WISP_END_TOKEN) does not
 * come as a piece; text that is still held back then comes in a last piece without a token. */
typedef struct wisp_piece {
    wisp_text text; /* well-formed UTF-8: U+FFFD replaces incomplete characters */
    int32_t id;     /* the token; -1: none */
    float logprob;  /* the natural logarithm of the token's probability: softmax(logits) before any
                       step of sampling. 0 without `logprobs` */
    const wisp_token_value *likely; /* [likely_count]: the most likely tokens at this position and
                                       their log-probabilities, the likeliest first */
    size_t likely_count;            /* the option `logprobs`; 0 if id is -1 */
} wisp_piece;

typedef struct wisp_generation {
    wisp_end end;
    size_t prompt_tokens;  /* without those dropped before the first token */
    size_t reused_tokens;  /* prompt tokens that were not computed again */
    size_t tokens;         /* generated, without the one that ended the text */
    double prompt_seconds; /* until the prompt's last logits: about the time to the first token */
    double seconds;        /* from then on */
    size_t dropped_tokens; /* of prompt and text, dropped from the context (context_shift) */
    uint64_t read_bytes;   /* during `seconds`: for each pass that computed a token of the text, the
                              weights that are read and the text's keys and values; 0 if weights of
                              a model without experts rest in the file */
    uint64_t file_bytes;   /* during `seconds`: bytes of the model's file that its sessions read,
                              because memory is limited (wisp_model_options.memory) */
    size_t drafted, accepted; /* tokens that were guessed (drafts), and those that were right */
} wisp_generation;

typedef struct wisp_generate_options {
    uint32_t max_tokens; /* 0: until the context is full; with context_shift: no limit */
    wisp_sampling sampling;
    const char *const *stop; /* [stops]: texts that end generation; not part of the result */
    size_t stops;
    const int32_t *stop_id; /* [stop_ids]: tokens that end the text, like the model's own */
    size_t stop_ids;
    /* The text matches this grammar; if it ends by WISP_END_LENGTH, _CONTEXT, _STOP or _CALLER, it
     * is the beginning of a text that does. The model can end it only when it is complete. May be
     * NULL. */
    const wisp_grammar *grammar;
    /* Guess up to this many next tokens, at most 16, if the last tokens occur earlier in prompt or
     * text. One pass computes all guesses and keeps those that are right. Text and pieces are the
     * same as without guesses, also with a seed. Fewer are guessed while guesses are wrong. 0:
     * none. Not for models with short convolutions. */
    uint32_t drafts;
    uint32_t logprobs; /* compute the log-probabilities of each token and of this many most likely
                          ones, at most the vocabulary's size. 0: none */
    /* Called with each generated token and text. The piece lives until the function returns. Return
     * false to end the text. May be NULL. */
    bool (*piece)(void *context, const wisp_piece *piece);
    /* Called with the result when the text has ended without a failure. May be NULL. */
    void (*ended)(void *context, const wisp_generation *result);
    /* Called with the error if this text cannot be generated because of its own prompt or options;
     * the other texts of the batch are generated. If it is NULL, such an error fails the call. */
    void (*failed)(void *context, const wisp_error *error);
    void *context; /* passed to `piece`, `ended` and `failed` */
    /* When the context is full, keep the first keep_tokens tokens and drop the older half of the
     * others. Generation continues as after a prompt of the remaining tokens, which are computed
     * again; penalties and grammar still consider the dropped ones. A prompt longer than the
     * context is shortened as if it had grown token by token. Without this option such a prompt is
     * an error, and a text that fills the context ends (WISP_END_CONTEXT). */
    bool context_shift;
    uint32_t keep_tokens; /* with context_shift: at most the whole prompt. A token that begins every
                             text of the model always stays as well */
} wisp_generate_options;

/* Generates the continuation of a prompt. A session remembers its last text: a prompt that begins
 * with the same tokens is computed from the first difference. `options` and `result` may be NULL.
 * Fails with WISP_ERROR_UNSUPPORTED if the model does not generate text, and with
 * WISP_ERROR_ARGUMENT if the prompt is longer than the model's context and context_shift is off, if
 * keep_tokens leave fewer than two tokens of the context for others, or if bias and grammar exclude
 * all tokens. If a call fails after it delivered text, that text is valid. */
WISP_API wisp_status wisp_generate(wisp_session *session, wisp_text prompt,
                                   const wisp_generate_options *options, wisp_generation *result,
                                   wisp_error *error);

/* One of several texts to generate. */
typedef struct wisp_request {
    wisp_text prompt;
    const int32_t *ids; /* [n_ids]: the prompt as token ids, instead of `prompt`. May be NULL */
    size_t n_ids;
    const wisp_generate_options *options; /* NULL: the defaults */
} wisp_request;

/* Continues n prompts, up to `at_once` at a time (0: 8); when a text ends, the next one starts.
 * Each text in progress has its own key-value cache. A token costs less than alone, because weights
 * are read once for all texts, and each text has the same bits as alone. A common beginning of
 * prompts is computed once, and what the session's last calls computed is not computed again.
 * Pieces of different texts come in turn, on the calling thread.
 *
 * Writes results [n], which may be NULL. Fails as wisp_generate does. An invalid request with the
 * option `failed` fails alone, and its result is all zeros. Otherwise the call fails, the message
 * names the request, and no text is generated. */
WISP_API wisp_status wisp_generate_batch(wisp_session *session, const wisp_request *requests,
                                         size_t n, size_t at_once, wisp_generation *results,
                                         wisp_error *error);

/* ---- this build ----------------------------------------------------------------------------- */

/* Returns version, target and compiler: "wisp 0.2.0 (x86_64, gcc 12.2.0)". */
WISP_API const char *wisp_build(void);

/* Returns the name of a kernel set that this CPU can run, the fastest first, or NULL after the
 * last.
 */
WISP_API const char *wisp_kernels_name(size_t index);

/* Returns the features of this CPU that kernel sets can use: "avx2 fma avx512 vnni", or "". */
WISP_API const char *wisp_cpu_features(void);

enum { WISP_DEVICE_BYTES = 256 };

/* Writes the name of a GPU that computes for the device "cuda", such as "NVIDIA H200, compute
 * capability 9.0". Returns false after the last, and if the device's library is not there. */
WISP_API bool wisp_cuda_device(uint32_t index, char name[WISP_DEVICE_BYTES]);

#include "wisp/chat.h"
#include "wisp/classify.h"
#include "wisp/images.h"
#include "wisp/index.h"
#include "wisp/sequences.h"
#include "wisp/sources.h"
#include "wisp/statistics.h"
#include "wisp/tools.h"
#include "wisp/vectors.h"

#ifdef __cplusplus
}
#endif
#endif
