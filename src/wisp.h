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
 * Words: a model is open, immutable, and shared by any number of threads and sessions; a session
 * is used by one thread at a time and owns its working memory and worker threads; a source is
 * where a model's bytes come from.
 *
 * Errors: every call that can fail returns a wisp_status and, when the caller passes a wisp_error,
 * fills it. The library never exits, aborts or prints. After an error nothing has changed but
 * output buffers, and the model and session remain usable.
 *
 * Ownership: what an _open function returns is released with the matching _close, which accepts
 * NULL. Strings and pointers that a getter returns live as long as the object asked.
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
    WISP_ERROR_ARGUMENT = 1,    /* the caller passed something invalid */
    WISP_ERROR_MEMORY = 2,      /* an allocation failed */
    WISP_ERROR_IO = 3,          /* reading or writing failed */
    WISP_ERROR_NOT_FOUND = 4,   /* a file, tensor, key or prompt that is needed is absent */
    WISP_ERROR_FORMAT = 5,      /* a file is malformed */
    WISP_ERROR_UNSUPPORTED = 6, /* well-formed, but nothing this build can run */
    WISP_ERROR_CANCELLED = 7    /* wisp_session_cancel was called */
} wisp_status;

/* What went wrong, owned by the caller. `message` is a whole sentence that already names the
 * file and the field; all three strings are always terminated, and empty where they do not apply.
 */
typedef struct wisp_error {
    wisp_status status;
    char file[160];
    char field[96];
    char message[512];
} wisp_error;

/* "ok", "argument", "memory", "io", "not_found", "format", "unsupported", "cancelled". */
WISP_API const char *wisp_status_name(wisp_status status);

/* ---- sources -------------------------------------------------------------------------------- */

/* Where the bytes of a GGUF model come from. `read` copies bytes [offset, offset + length) into
 * `buffer` and returns 0, or anything else on failure; the library never asks beyond `size`. It is
 * called while wisp_model_open_source runs, by the calling thread. With `lasting` it is also called
 * as long as the model is open, by any thread that embeds: tokens' embeddings, which may be half of
 * a small model, are then read as texts need them and not held in memory. When `data` is set, the
 * `size` bytes there are used in place, `read` is not called, and they must outlive the model.
 * `name` (may be NULL) is what errors call the source. `close` (may be NULL) is called once, with
 * `context`, when the model is closed or could not be opened. */
typedef struct wisp_source {
    uint64_t size;
    const void *data;
    int (*read)(void *context, uint64_t offset, void *buffer, size_t length);
    void (*close)(void *context);
    void *context;
    const char *name;
    bool lasting;
} wisp_source;

/* ---- models --------------------------------------------------------------------------------- */

typedef struct wisp_model wisp_model;

typedef enum wisp_compute {
    WISP_COMPUTE_AUTO = 0, /* int8 where the file's weights are quantised, else f32 */
    WISP_COMPUTE_F32 = 1,  /* f32 weights and activations */
    WISP_COMPUTE_INT8 = 2  /* int8 weights and activations in blocks of 128, i32 sums */
} wisp_compute;

/* Which neurons of the feed-forward layers are computed for a token. */
typedef enum wisp_predictor {
    WISP_PREDICTOR_AUTO = 0,    /* in int8, what is faster with the kernel set at hand: lowrank of a
                                   calibrated model, else with ReLU exact, else dense */
    WISP_PREDICTOR_DENSE = 1,   /* all */
    WISP_PREDICTOR_EXACT = 2,   /* the first half of all, the second of those that are not 0 */
    WISP_PREDICTOR_LOWRANK = 3, /* those that the model's predictor chooses: see wisp calibrate */
    WISP_PREDICTOR_SENTENCE = 4 /* the same ones for all tokens of a text, from their mean. AUTO
                                   never takes it: at the same share it loses more than lowrank
                                   does. Needs a model made by wisp calibrate --sentence */
} wisp_predictor;

/* The name of each value above: wisp_compute_name(WISP_COMPUTE_F32) is "f32". NULL past the last.
 */
WISP_API const char *wisp_compute_name(size_t compute);
WISP_API const char *wisp_predictor_name(size_t predictor);

/* Finds the value of a name. Returns false, and leaves the value as it is, where there is none. */
WISP_API bool wisp_compute_find(const char *name, wisp_compute *compute);
WISP_API bool wisp_predictor_find(const char *name, wisp_predictor *predictor);

typedef struct wisp_model_options {
    wisp_compute compute; /* AUTO becomes int8 with all predictors but dense, which need it */
    const char *kernels; /* a name from wisp_kernels_name, or NULL for the fastest that runs here */
    wisp_predictor predictor;
} wisp_model_options;

/* Opens a GGUF file or a Hugging Face folder (config.json, model.safetensors, tokenizer.json or
 * vocab.txt and the sentence-transformers files). `options` may be NULL. */
WISP_API wisp_status wisp_model_open(const char *path, const wisp_model_options *options,
                                     wisp_model **model, wisp_error *error);

/* Opens a GGUF model from any source. Takes over `source`: its close is called in every case. */
WISP_API wisp_status wisp_model_open_source(const wisp_source *source,
                                            const wisp_model_options *options, wisp_model **model,
                                            wisp_error *error);

/* Sessions of the model must be closed first. */
WISP_API void wisp_model_close(wisp_model *model);

typedef struct wisp_model_info {
    const char *name;         /* general.name, or "" */
    const char *architecture; /* "bert" or "nomic-bert" */
    const char *compute;      /* "f32" or "int8": what AUTO became */
    const char *kernels;      /* the kernel set in use */
    const char *predictor;    /* "dense", "exact", "lowrank", "sentence": what AUTO became */
    float sparsity;           /* the share of neurons that lowrank or sentence leaves out unless a
                                 session is told otherwise; 0 with the other predictors */
    const char *pooling;      /* "mean" or "cls" */
    uint32_t hidden_size;
    uint32_t intermediate_size;
    uint32_t layers;
    uint32_t heads;
    uint32_t vocabulary_size;
    uint32_t max_tokens;     /* longer texts are truncated to this many, special ones included */
    uint64_t parameters;     /* weights in the file */
    uint64_t resident_bytes; /* memory the model holds, mapped file pages not counted */
} wisp_model_info;

WISP_API void wisp_model_get_info(const wisp_model *model, wisp_model_info *info);

/* Length of one embedding: the hidden size. */
WISP_API size_t wisp_model_dimensions(const wisp_model *model);

/* The file's metadata as text: key and value of entry `index` (arrays are given as their type and
 * length, long strings whole). Returns false past the last entry. The value is written to `value`,
 * cut to `capacity` bytes with its terminator. */
WISP_API bool wisp_model_metadata(const wisp_model *model, size_t index, const char **key,
                                  char *value, size_t capacity);

/* The text of the model's prompt `name` ("query", "passage", ...), or NULL. With NULL as name, the
 * default prompt, which wisp_embed uses unless told otherwise; "" where there is none. */
WISP_API const char *wisp_model_prompt(const wisp_model *model, const char *name);

/* ---- sessions ------------------------------------------------------------------------------- */

typedef struct wisp_session wisp_session;

typedef struct wisp_session_options {
    uint32_t threads; /* 0 means 1; results do not depend on it */
    bool trace;       /* remember when each stage began and ended, for wisp_session_write_trace */
    bool recall;      /* count what wisp_layer_stats has of recall: all activations of sparse layers
                         are then computed a second time, and the times include that */
} wisp_session_options;

/* `options` may be NULL. The model must stay open as long as the session. */
WISP_API wisp_status wisp_session_open(const wisp_model *model, const wisp_session_options *options,
                                       wisp_session **session, wisp_error *error);

WISP_API void wisp_session_close(wisp_session *session);

/* Makes the embed call that is running in the session, or else its next one, return
 * WISP_ERROR_CANCELLED soon. May be called from any thread and from a signal handler. */
WISP_API void wisp_session_cancel(wisp_session *session);

/* What embedding is made of, by the index of wisp_stats.stage_seconds: "tokenize", "look_up" (of
 * tokens), "qkv", "attention", "attention_output", "ffn_up", "activation", "ffn_down",
 * "ffn_sparse" (instead of those three), "norm", "pool", "wait" (of threads that share a batch, for
 * one another); NULL past the last. */
WISP_API const char *wisp_stage_name(size_t stage);

enum { WISP_STAGES = 12 };

/* Totals since the session was opened. Seconds are summed over threads. */
typedef struct wisp_stats {
    uint64_t texts;
    uint64_t tokens;
    uint64_t truncated_texts;
    double stage_seconds[WISP_STAGES];
    uint64_t workspace_bytes; /* working memory held now */
} wisp_stats;

WISP_API void wisp_session_get_stats(const wisp_session *session, wisp_stats *stats);

/* Writes what the session has done so far, the model's loading included, as Chrome trace JSON for
 * chrome://tracing or Perfetto. The session must have been opened with options.trace; not while it
 * embeds. Only in the native library. */
WISP_API wisp_status wisp_session_write_trace(const wisp_session *session, const char *path,
                                              wisp_error *error);

/* Sets about which share of the neurons lowrank or sentence leaves out, averaged over layers and
 * the texts the model was calibrated on, from 0 to below 1; what the file has no thresholds for
 * becomes the nearest it has. Call it between embed calls. WISP_ERROR_ARGUMENT where the session's
 * model runs another predictor. */
WISP_API wisp_status wisp_session_set_sparsity(wisp_session *session, float sparsity,
                                               wisp_error *error);

/* What one layer did since the session was opened, summed over threads. */
typedef struct wisp_layer_stats {
    uint64_t tokens;
    uint64_t neurons;      /* tokens times the layer's neurons */
    uint64_t computed;     /* of these, neurons whose activation was computed */
    uint64_t contributing; /* of those, neurons that went into the sum, in groups of four */
    double seconds;        /* in the feed-forward layer, dense or sparse */
    /* With options.recall and a predictor other than dense, else 0. Precision is found / compared,
     * recall found / needed, by the definitions of wisp_calibrated_layer. */
    uint64_t compared; /* neurons computed while recall was counted */
    uint64_t needed;   /* in groups of four: not 0 with ReLU, among the largest fifth else */
    uint64_t found;    /* of the needed, those that were computed */
} wisp_layer_stats;

/* Layer `layer` from 0; false past the last. */
WISP_API bool wisp_session_get_layer_stats(const wisp_session *session, uint32_t layer,
                                           wisp_layer_stats *stats);

/* ---- text to numbers ------------------------------------------------------------------------ */

/* UTF-8 bytes, not terminated. Malformed UTF-8 is read as Python's errors="replace" reads it: each
 * maximal ill-formed part counts as one U+FFFD. */
typedef struct wisp_text {
    const char *bytes;
    size_t length;
} wisp_text;

static inline wisp_text wisp_text_of(const char *string) {
    wisp_text text = {string, strlen(string)};
    return text;
}

/* Token ids of `text` as the model sees them, special tokens included, truncated to max_tokens.
 * Writes at most `capacity` ids and sets *count to how many there are. */
WISP_API wisp_status wisp_tokenize(const wisp_model *model, wisp_text text, int32_t *ids,
                                   size_t capacity, size_t *count, wisp_error *error);

typedef struct wisp_embed_options {
    const char *prompt; /* put before every text; NULL: the model's default prompt; "": none */
    size_t dimensions;  /* 0: all; else the first so many, normalised again (Matryoshka) */
} wisp_embed_options;

/* Embeds `n` texts into rows [n, dimensions] of floats, normalised where the model says so.
 * A row's bits depend on its text, the model, the compute mode and the kernel set alone: not on
 * the other texts, their order, or the number of threads. `options` may be NULL. */
WISP_API wisp_status wisp_embed(wisp_session *session, const wisp_text *texts, size_t n,
                                const wisp_embed_options *options, float *rows, wisp_error *error);

/* Dot product of two rows: the cosine similarity of normalised embeddings. */
WISP_API float wisp_dot(const float *a, const float *b, size_t n);

/* ---- inspection ----------------------------------------------------------------------------- */

/* The contents of a model's file, without loading it as a model: metadata and tensors are listed as
 * they are stored, whatever the architecture. A wisp_file does not change while it is open and may
 * be shared by threads. Only in the native library. */
typedef struct wisp_file wisp_file;

/* Opens a GGUF file or a Hugging Face folder and checks that it is well-formed. */
WISP_API wisp_status wisp_file_open(const char *path, wisp_file **file, wisp_error *error);

WISP_API void wisp_file_close(wisp_file *file);

/* A file on disk that holds tensors. A GGUF file has one part; a folder has one for each of its
 * safetensors files. */
typedef struct wisp_file_part {
    const char *path;
    const void *data; /* all of the file, mapped to memory */
    uint64_t size;    /* in bytes */
} wisp_file_part;

typedef struct wisp_metadata {
    const char *key;
    const char
        *type; /* "u32", "f32", "bool", "string" and so on; for an array that of its elements */
    bool is_array;
    uint64_t elements; /* in an array; else 1 */
    const char *text;  /* the value: "12", "0.5", "true", a whole string; an array as "i32[12]" */
} wisp_metadata;

typedef struct wisp_tensor {
    const char *name;
    const char *type; /* "F32", "Q8_0" and so on, as GGML calls it */
    uint32_t dimensions;
    uint64_t shape[4]; /* the last of the dimensions is the one whose values lie side by side */
    uint64_t bytes;
    uint64_t offset; /* in its part */
    uint32_t part;
} wisp_tensor;

/* Entry `index` of the file. These return false past the last. */
WISP_API bool wisp_file_get_part(const wisp_file *file, size_t index, wisp_file_part *part);
WISP_API bool wisp_file_get_metadata(const wisp_file *file, size_t index, wisp_metadata *metadata);
WISP_API bool wisp_file_get_tensor(const wisp_file *file, size_t index, wisp_tensor *tensor);

/* Reads a whole tensor as f32 in the order of its shape; `values` has room for all of them.
 * WISP_ERROR_UNSUPPORTED where the type is not one that wisp computes with, WISP_ERROR_FORMAT where
 * a value is not finite. */
WISP_API wisp_status wisp_file_read_tensor(const wisp_file *file, size_t index, float *values,
                                           wisp_error *error);

/* The sizes of a calibrated model's feed-forward layers. WISP_ERROR_NOT_FOUND where the model is
 * not calibrated. */
WISP_API wisp_status wisp_file_get_neurons(const wisp_file *file, size_t *layers, size_t *neurons,
                                           wisp_error *error);

/* Reads the shares [neurons] of calibration tokens that needed each neuron of a layer of a
 * calibrated model, in the order in which the file has the neurons: often needed ones first. */
WISP_API wisp_status wisp_file_read_frequencies(const wisp_file *file, size_t layer,
                                                float *frequencies, wisp_error *error);

/* ---- conversion ----------------------------------------------------------------------------- */

typedef struct wisp_convert_options {
    const char *type;           /* weights as "f32", "f16", "q8_0", "q4_0"; NULL: as they are */
    const char *embedding_type; /* the token embedding, where it should differ; NULL: as `type` */
    const char *name;           /* general.name; NULL: keep */
    bool plain;                 /* take away what wisp_calibrate added, and neurons as rows */
    bool neurons;               /* each feed-forward neuron's weights side by side, as
                                   wisp_calibrate writes them; false: as they are. An error where
                                   the layers' types do not allow it (docs/formats.md) */
    float sparsity;             /* of a calibrated model, unless told otherwise; 0: keep */
    /* Called after each tensor; returning false cancels. May be NULL. */
    bool (*progress)(void *context, size_t done, size_t total);
    void *progress_context;
} wisp_convert_options;

/* Writes any readable model as GGUF. The output appears whole or not at all: it is written beside
 * `output` under a temporary name, synced, then renamed. */
WISP_API wisp_status wisp_convert(const char *input, const char *output,
                                  const wisp_convert_options *options, wisp_error *error);

/* ---- calibration ---------------------------------------------------------------------------- */

/* What a predictor does to one layer, on texts that it was not fitted to. A token needs a neuron
 * whose contribution is not 0 with ReLU, else among the largest fifth of the layer's. */
typedef struct wisp_calibrated_quality {
    double share;     /* of neurons computed */
    double needed;    /* of neurons needed */
    double recall;    /* of needed neurons, the share that is computed */
    double precision; /* of computed neurons, the share that is needed */
    double error;     /* of the layer's output, squared, relative to its variance */
} wisp_calibrated_quality;

/* What calibration found in one layer. */
typedef struct wisp_calibrated_layer {
    uint32_t rank;  /* of its predictors */
    float sparsity; /* the share of neurons to leave out, on average over layers */
    wisp_calibrated_quality lowrank;
    wisp_calibrated_quality sentence; /* all 0 where that was not asked for */
    const float *frequency;           /* [neurons]: the share of tokens that need a neuron */
    const float *magnitude;           /* [neurons]: the mean size of its contribution */
    size_t neurons;
    size_t hot; /* how many of the file's neurons, from the first on, nine tenths of all needed
                   activations belong to */
} wisp_calibrated_layer;

typedef struct wisp_calibrate_options {
    uint32_t rank;  /* of the predictors; 0: a third of hidden_size, at most 256 */
    float sparsity; /* the share of neurons to leave out unless told otherwise; 0: 0.84 with ReLU,
                       else 0.7 */
    const char *predictor_type; /* of P and Q in the file: f32, q8_0 or q4_0; NULL: q8_0, or f32
                                   where rows are no whole blocks of that */
    bool shared_p; /* one P for all layers: a smaller file, and a worse choice of the same rank */
    bool sentence; /* besides, predictors that choose once for a whole text */
    size_t tokens; /* how many to fit to, at most; 0: 32768. Each layer holds that many rows. */
    uint64_t seed; /* the same seed, texts and kernel set give the same file */
    uint32_t threads; /* 0 means 1; the file does not depend on it */
    void *context;    /* handed to the functions below, which may all be NULL */
    /* Called on the calling thread: `done` of `total` "texts", "layers" or, of layers again,
     * "sharing" (of P), "sentences" (their predictors) and "compensation". */
    void (*progress)(void *context, const char *stage, size_t done, size_t total);
    /* Called often and on any thread; true ends the work with WISP_ERROR_CANCELLED. */
    bool (*cancelled)(void *context);
    /* Called for each layer in order; what it is given lives as long as the call. */
    void (*layer)(void *context, uint32_t layer, const wisp_calibrated_layer *found);
} wisp_calibrate_options;

/* Makes a model sparse: runs it on `n` texts like those it is to embed, fits a predictor of which
 * neurons matter to each token, and writes the model at `input` (anything wisp_model_open reads) to
 * `output` with all that is needed to skip the rest. Every eighth text is not fitted to, but
 * measured on. The weights keep their bits, and each neuron's stand side by side; wisp_convert with
 * `plain` gives the model back as it was. Native only. */
WISP_API wisp_status wisp_calibrate(const char *input, const char *output, const wisp_text *texts,
                                    size_t n, const wisp_calibrate_options *options,
                                    wisp_error *error);

/* ---- this build ----------------------------------------------------------------------------- */

/* Version, compiler and target, for people: "wisp 0.1.0 (x86_64, gcc 12.2.0)". */
WISP_API const char *wisp_build(void);

/* Names of the kernel sets that run on this CPU, fastest first; NULL past the last. */
WISP_API const char *wisp_kernels_name(size_t index);

/* The CPU features found that a kernel set can use: "avx2 fma avx512 vnni", or "". */
WISP_API const char *wisp_cpu_features(void);

#ifdef __cplusplus
}
#endif
#endif
