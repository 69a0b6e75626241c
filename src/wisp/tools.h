/* SPDX-License-Identifier: Apache-2.0
 * Part of wisp.h: functions on model files: inspect, convert, quantise and calibrate. They are not
 * needed to run a model.
 */
#ifndef WISP_TOOLS_H
#define WISP_TOOLS_H

#ifndef WISP_H
#error "include wisp.h, which includes this header"
#endif

/* ---- inspection ----------------------------------------------------------------------------- */

/* A wisp_file reads the contents of a model file without loading the model: metadata and tensors as
 * stored, for any architecture. It does not change while it is open, and threads may share it.
 * Native only. */
typedef struct wisp_file wisp_file;

/* Opens a GGUF file or a Hugging Face folder, and checks that it is well-formed. */
WISP_API wisp_status wisp_file_open(const char *path, wisp_file **file, wisp_error *error);

WISP_API void wisp_file_close(wisp_file *file);

/* A file on disk that contains tensors: the GGUF file, or one of the folder's safetensors files. */
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
    uint64_t offset; /* in the part's file, in bytes */
    uint32_t part;   /* the index of the part */
} wisp_tensor;

/* Get entry `index` of the file. Return false after the last. */
WISP_API bool wisp_file_get_part(const wisp_file *file, size_t index, wisp_file_part *part);
WISP_API bool wisp_file_get_metadata(const wisp_file *file, size_t index, wisp_metadata *metadata);
WISP_API bool wisp_file_get_tensor(const wisp_file *file, size_t index, wisp_tensor *tensor);

/* Like wisp_model_get_assumption. */
WISP_API bool wisp_file_get_assumption(const wisp_file *file, size_t index,
                                       wisp_assumption *assumption);

/* The result of wisp_file_verify: the number of verified chunks, the bytes of a chunk, and size and
 * SHA-256 of the header, which contains the digests of all chunks. */
typedef struct wisp_verified {
    uint64_t chunks, chunk_bytes;
    uint64_t header_bytes;
    unsigned char header_sha256[32];
} wisp_verified;

/* Reads a GGUF file and compares each chunk with its digest in the header (docs/formats.md). Fails
 * with WISP_ERROR_NOT_FOUND if the file has no digests, and with WISP_ERROR_FORMAT if these are
 * malformed or a chunk differs; the message names the chunk's number and bytes. */
WISP_API wisp_status wisp_file_verify(const wisp_file *file, wisp_verified *verified,
                                      wisp_error *error);

/* Copies bytes [offset, offset + length) of part `index` to `buffer`. Fails with
 * WISP_ERROR_ARGUMENT if they are not within the part. This function, and those that read tensors
 * and frequencies, fail with WISP_ERROR_IO if the file was modified after it was opened. */
WISP_API wisp_status wisp_file_read_part(const wisp_file *file, size_t index, uint64_t offset,
                                         void *buffer, size_t length, wisp_error *error);

/* Reads a whole tensor as f32, in the order of its shape, to `values`, which must have enough room.
 * Fails with WISP_ERROR_UNSUPPORTED if wisp cannot read the type, and with WISP_ERROR_FORMAT if a
 * value is not finite. */
WISP_API wisp_status wisp_file_read_tensor(const wisp_file *file, size_t index, float *values,
                                           wisp_error *error);

enum { WISP_HISTOGRAM_BINS = 32 };

/* The distribution of a tensor's values. The bins have equal widths and cover -largest to largest,
 * both ends included. If all values are 0, they are in the bin above the middle. */
typedef struct wisp_histogram {
    double mean, deviation, least, most, largest; /* largest: in magnitude */
    uint64_t values, zeros;
    uint64_t bins[WISP_HISTOGRAM_BINS];
} wisp_histogram;

/* Computes the histogram of a tensor, with about 1 MB of it in memory at a time. Fails as
 * wisp_file_read_tensor does. */
WISP_API wisp_status wisp_file_get_histogram(const wisp_file *file, size_t index,
                                             wisp_histogram *histogram, wisp_error *error);

/* Gets the number of layers of a calibrated model, and the number of neurons in a layer. Fails with
 * WISP_ERROR_NOT_FOUND if the model is not calibrated. */
WISP_API wisp_status wisp_file_get_neurons(const wisp_file *file, size_t *layers, size_t *neurons,
                                           wisp_error *error);

/* Reads how often each neuron of layer `layer` of a calibrated model was needed: frequencies
 * [neurons], as shares of the calibration's tokens. Neurons are in the order of the file, most
 * often needed first. */
WISP_API wisp_status wisp_file_read_frequencies(const wisp_file *file, size_t layer,
                                                float *frequencies, wisp_error *error);

/* ---- conversion ----------------------------------------------------------------------------- */

typedef struct wisp_convert_options {
    const char *type; /* of weights: "f32", "f16", "q8_0" or "q4_0". NULL: keep. Matrices whose rows
                         are not whole blocks of it become f16 */
    const char *embedding_type; /* of the token embeddings. NULL: the same as `type` */
    const char *name;           /* becomes general.name. NULL: keep */
    const char *adapter; /* of a folder with adapters of several tasks (jina-embeddings-v3): the
                            task whose adapter is merged into the weights and whose prompt becomes
                            the default. NULL: none */
    bool plain;   /* remove everything that wisp_calibrate added, including neurons as rows; with
                     hot_tokens keep the order of tokens */
    bool neurons; /* store the weights of each feed-forward neuron together, as wisp_calibrate does.
                     WISP_ERROR_UNSUPPORTED if a layer's types do not allow it (docs/formats.md).
                     false: keep */
    float hot; /* choose the hot neurons of a calibrated model again: in each layer the fewest that
                  account for this share of all needed activations. Neurons of all layers become
                  rows. 0: keep */
    uint64_t hot_bytes;  /* instead choose the most often needed neurons of all layers whose rows
                            take at most so many bytes in the file. 0: keep */
    float sparsity;      /* the default sparsity of a calibrated model. 0: keep */
    uint64_t hot_tokens; /* store the embeddings of so many tokens, the most frequent in
                            calibration, at the beginning of the file, and the others after
                            everything that is hot. 0: keep */
    /* Called often, with the number of finished tensors. Return false to cancel. May be NULL. */
    bool (*progress)(void *context, size_t done, size_t total);
    void *progress_context;
} wisp_convert_options;

/* Writes the model at `input`, a GGUF file or a Hugging Face folder, as a GGUF file. The output
 * appears complete or not at all: it is written under a temporary name beside `output`, synced and
 * renamed. If `output` cannot be written, for example because its folder does not exist, the call
 * fails with WISP_ERROR_IO before it does any work. `options` may be NULL. Only in the native
 * library and the WebAssembly module for conversion. */
WISP_API wisp_status wisp_convert(const char *input, const char *output,
                                  const wisp_convert_options *options, wisp_error *error);

/* ---- quantising ----------------------------------------------------------------------------- */

/* A tensor that wisp_quantize has written or measured. */
typedef struct wisp_quantized_tensor {
    const char *name;
    const char *type; /* of its elements now; NULL if `fits` is false */
    bool fits; /* false, only if nothing is written: its rows are not whole blocks of the type, and
                  there is no fallback */
    bool fallback;  /* `type` is the fallback */
    bool quantised; /* false: it kept its type or became floats; then mse is 0 and cosine 1 */
    uint64_t elements, bytes;
    double mse;    /* the mean squared difference to the original */
    double cosine; /* to the original; 1 if both are 0 */
    /* For a tensor that was quantised to BITNET_T158, else 0: */
    uint64_t blocks,
        clamped; /* its blocks; those whose scale became epsilon, because it does not fit a half */
    double scale_mean, scale_deviation; /* of its blocks' scales */
    double sparsity;                    /* the share of weights that are 0 */
    /* Only from wisp_quantize_for_texts, which leaves mse 0 and cosine 1: the squared error of the
     * layer's output on the texts, relative to the output's variance. Matrices with the same inputs
     * have a joint error. */
    double plain_error;  /* if each weight were rounded to the nearest value */
    double output_error; /* as written */
    /* Only with a target: what this tensor's layer was predicted to add to 1 - the mean cosine, or
     * to the divergence. Matrices with the same inputs have a joint value. */
    double expected_loss;
} wisp_quantized_tensor;

/* The result of wisp_quantize_for_texts with a target, measured on held-out texts, which were not
 * used for fitting. */
typedef struct wisp_quantize_outcome {
    uint64_t bytes;                   /* of the file */
    size_t held_out;                  /* number of texts */
    size_t attempts;                  /* at quantising the model */
    double mean_cosine, least_cosine; /* to the original's embeddings; 0 if the model generates */
    double divergence; /* of the next token's probabilities from the original's, in nats; 0 if the
                          model embeds */
} wisp_quantize_outcome;

/* Options of BITNET_T158. Values out of range are WISP_ERROR_ARGUMENT. */
typedef struct wisp_ternary_options {
    uint32_t block_size;  /* the format allows only 256 */
    float epsilon;        /* added to a block's scale, which is its mean magnitude; above 0 */
    float clip_threshold; /* weights divided by their scale are clipped to this; above 0, up to 2 */
    float target_sparsity; /* at least this share of a block's weights becomes 0; 0 to 1 */
} wisp_ternary_options;

#define WISP_TERNARY_DEFAULTS {.block_size = 256, .epsilon = 1e-8f, .clip_threshold = 1}

typedef struct wisp_quantize_options {
    const char *embedding_type; /* of the token embedding. NULL: like the other matrices */
    const char *output_type;    /* of output.weight, the last layer of a model that generates. NULL:
                                   like the other matrices */
    const char *fallback; /* for matrices whose rows are not whole blocks of the type. NULL: such a
                             matrix is an error that names it */
    uint64_t sample; /* if nothing is written: measure about this many elements of each tensor, in
                        whole rows. 0: all */
    const char *policy; /* which matrices take which type: the name of a built-in policy
                           (wisp_policy_name) or of a file (docs/formats.md). NULL: "default" if
                           `type` is bitnet_t158, otherwise `type` for all */
    const wisp_ternary_options *ternary; /* NULL: WISP_TERNARY_DEFAULTS */
    bool any_architecture; /* also read Hugging Face folders of unknown architectures: tensors keep
                              their names, and the metadata contains config.json. Such a model
                              cannot be opened */
    bool pad_neurons; /* add zero neurons to feed-forward layers, so that their number is a multiple
                         of 32 and rows of W_down are whole blocks */
    /* Called after each tensor, whose strings live until the function returns. May be NULL. */
    void (*tensor)(void *context, const wisp_quantized_tensor *tensor);
    /* Called often, with the number of finished tensors. Return false to cancel. May be NULL. */
    bool (*progress)(void *context, size_t done, size_t total);
    void *context;
    /* Only for wisp_quantize_for_texts: */
    const char *ffn_type;      /* of the feed-forward matrices. NULL: like the other matrices */
    const char *position_type; /* of the position embeddings. NULL: they become floats */
    size_t tokens;    /* use about this many tokens of the texts. 0: 32768. Each takes 2 hidden_size
                         floats of memory, 4 if the model generates */
    uint64_t seed;    /* for choosing the texts, if they have more tokens */
    uint32_t threads; /* 0 means 1, at most 1024. The file does not depend on it */
    /* A target, at most one of the two. Types may then be comma-separated lists, from which one
     * type is chosen for each matrix; position embeddings may also stay floats. */
    uint64_t target_bytes; /* the most bytes of the file; 0: no limit */
    double target_cosine;  /* the least mean cosine to the original's embeddings on held-out texts;
                              finds a file as small as possible. 0: none */
    wisp_quantize_outcome *outcome; /* set with a target. May be NULL */
} wisp_quantize_options;

/* Writes the model at `input`, a GGUF file or a Hugging Face folder, with its matrices as `type`:
 * "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "q6_k" to "q2_k", "iq4_xs", "iq4_nl",
 * "mxfp4", "tq2_0", "tq1_0", "bitnet_t158". The bits are those of ggml's reference quantiser
 * without importances; for bitnet_t158, those of PT-BitNet's specification. Norms, biases,
 * positions and token types become floats. Tensors of wisp_calibrate stay, but neurons that are
 * stored as rows become plain matrices. If `output` is NULL, nothing is written, and the loss of
 * each tensor is measured. The output appears complete or not at all, as with wisp_convert. About 1
 * MB of a tensor is in memory at a time. `options` may be NULL. Fails with WISP_ERROR_UNSUPPORTED
 * if a matrix does not fit its type, or contains a value that is too large for it. Native only. */
WISP_API wisp_status wisp_quantize(const char *input, const char *output, const char *type,
                                   const wisp_quantize_options *options, wisp_error *error);

/* Like wisp_quantize, but chooses codes and scales so that the layers' outputs on the n texts
 * change little, rather than the weights. Biases, if the model has them, compensate mean errors.
 * The types are "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl", "mxfp4", "tq2_0" and
 * "bitnet_t158"; with the last two, which are ternary, token embeddings and output.weight keep
 * their type unless one is named. Weights of output.weight are rounded one by one, with errors
 * weighted by the square of the input. `progress` counts batches of texts, once for each matrix.
 * `fallback`, `policy`, `ternary` and `sample` are ignored. The same texts, options and kernel set
 * give the same file. Memory: two copies of the model as floats, the texts' hidden states (see
 * `tokens`; twice that for models that generate, whose texts have at most 512 tokens) and, for a
 * matrix with k inputs and n outputs, about 32 k^2 + 40 n k bytes.
 *
 * With a target, one text in five is held out. The loss of the model with one matrix rounded at a
 * time, and the error of each matrix with each type, predict the losses by which types are chosen.
 * Fails with WISP_ERROR_ARGUMENT if the target cannot be reached; the message says what can be
 * reached. Native only. */
WISP_API wisp_status wisp_quantize_for_texts(const char *input, const char *output,
                                             const char *type, const wisp_text *texts, size_t n,
                                             const wisp_quantize_options *options,
                                             wisp_error *error);

/* Returns the name of a type that wisp_quantize writes, from the largest to the smallest and then
 * bitnet_t158, or NULL after the last. */
WISP_API const char *wisp_quantize_type(size_t index);

/* Returns the name of a built-in policy, or NULL after the last. */
WISP_API const char *wisp_policy_name(size_t index);

/* Returns the text of a built-in policy, or NULL if none has this name. */
WISP_API const char *wisp_policy_text(const char *name);

/* ---- calibration ---------------------------------------------------------------------------- */

/* The quality of a predictor in one layer, measured on held-out texts. A token needs a neuron if
 * its contribution is not 0 (with ReLU) or among the largest fifth (otherwise). */
typedef struct wisp_calibrated_quality {
    double share;     /* of neurons that are computed */
    double needed;    /* the share of neurons that are needed */
    double recall;    /* the share of needed neurons that are computed */
    double precision; /* the share of computed neurons that are needed */
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
    size_t hot; /* the number of neurons that account for nine tenths of all needed activations.
                   They are first in the file, and hot unless options choose others */
} wisp_calibrated_layer;

enum { WISP_GATE_THRESHOLDS = 7 };

/* The quality of the predictor `gate` in one layer at one level, measured on held-out texts if
 * there are some. A token needs the neurons that have the largest fifth of its contributions. */
typedef struct wisp_calibrated_gate {
    float share;   /* the share of the layer's neurons that the level is for */
    float least;   /* the layer computes neurons whose score is at least this */
    double active; /* the share of the layer's neurons that is computed */
    double recall; /* the share of the needed neurons that is computed */
    double loss;   /* the share that is lost of the sum of squares of contributions */
} wisp_calibrated_gate;

/* The result of calibrating one layer of a model that generates. */
typedef struct wisp_calibrated_gates {
    const wisp_calibrated_gate *level; /* [levels] */
    size_t levels;
    float threshold[WISP_GATE_THRESHOLDS]; /* of |f(gate)|: 0.001 to 1 */
    double above[WISP_GATE_THRESHOLDS];    /* the share of neurons that exceed each of them */
} wisp_calibrated_gates;

typedef struct wisp_calibrate_options {
    uint32_t rank;  /* of the predictors: above 32 a multiple of 32, except for type f32. 0: a third
                       of hidden_size, at most 256; of a model that generates no predictors */
    float sparsity; /* the model's default share of neurons to skip. 0: 0.84 with ReLU, else 0.7 */
    const char *predictor_type; /* of the predictors' matrices in the file: "f32", "q8_0" or "q4_0".
                                   NULL: q8_0, or f32 if a row is not whole blocks of q8_0 */
    bool sentence;              /* also fit predictors that choose once for a whole text */
    bool one_sparsity;  /* store thresholds only for `sparsity`: a smaller file, but sessions cannot
                           set another sparsity */
    float hot;          /* these three as in wisp_convert_options: what is hot in the file. */
    uint64_t hot_bytes; /* If both are 0: nine tenths of needed activations, and neurons */
    uint64_t hot_tokens; /* become rows only in layers whose types allow it */
    size_t tokens;    /* fit to at most so many tokens. 0: 32768. Each layer keeps as many rows of
                         hidden_size floats in memory */
    uint64_t seed;    /* the same seed, texts and kernel set give the same file */
    uint32_t threads; /* 0 means 1, at most 1024. The file does not depend on it */
    void *context;    /* passed to the functions below, each of which may be NULL */
    /* Called on the calling thread when a stage begins, with `done` 0, and after each of its
     * `total` steps. The stages are "texts", "layers", "sentences" and "compensation". All but the
     * first count layers. */
    void (*progress)(void *context, const char *stage, size_t done, size_t total);
    /* Called often and on any thread. Return true to cancel. */
    bool (*cancelled)(void *context);
    /* Called for each layer in order. `found` and its arrays live until the function returns. */
    void (*layer)(void *context, uint32_t layer, const wisp_calibrated_layer *found);
    /* Called for models that generate, `layer` only with a rank. */
    void (*gates)(void *context, uint32_t layer, const wisp_calibrated_gates *found);
} wisp_calibrate_options;

/* Makes a model sparse. Runs the model at `input` (a GGUF file or a Hugging Face folder) on `n`
 * texts, which should resemble those it will embed, fits predictors of the neurons that a token
 * needs, and writes the model with the predictors to `output`. Every eighth text is held out for
 * measuring. All weights keep their bits. The weights of each neuron are stored together;
 * wisp_convert with `plain` restores the original. The output appears complete or not at all, and
 * is checked first, as with wisp_convert. `options` may be NULL. Fails with WISP_ERROR_IO if the
 * input changes meanwhile. Native only.
 *
 * For a model that generates, whose layers must be gated and without biases, it writes the
 * thresholds of the predictor gate and, with a rank, predictors; the model stays plain. The options
 * sentence, one_sparsity, hot, hot_bytes and hot_tokens are refused, and sparsity 0 means 0.5. */
WISP_API wisp_status wisp_calibrate(const char *input, const char *output, const wisp_text *texts,
                                    size_t n, const wisp_calibrate_options *options,
                                    wisp_error *error);

/* ---- attention ------------------------------------------------------------------------------ */

/* Policies of attention that were tried on texts. */
typedef struct wisp_tried_attention {
    const char *policies; /* as in wisp_session_options */
    bool one_by_one;      /* tokens were added one at a time, else in calls that read texts */
    double perplexity;
    double loss;     /* by how much it exceeds that of full attention, as a share of it */
    double seen;     /* the share of the keys that was looked at */
    double read;     /* bytes of keys and values that were read, as a share of full attention's */
    bool searched;   /* it loses no more than `loss`, so that hidden sentences were looked for */
    uint32_t hidden; /* sentences that full attention finds, with a probability above 1/e */
    uint32_t found;  /* of these; those after the first that is lost are not looked for */
    bool passes;     /* it loses no more than `loss`, and finds all */
} wisp_tried_attention;

/* The steps that a key-value head of a layer attends to with the policy `learned`. */
typedef struct wisp_learned_attention {
    uint32_t layer, kv_head; /* of the layers that have keys and values */
    const char *kind;        /* "full", "local", "lines" or "blocks" */
    double kept;             /* the share of the keys, */
    double error;            /* and what its output then lacks, as a share of it */
} wisp_learned_attention;

typedef struct wisp_calibrate_attention_options {
    wisp_cache_type cache_type;
    uint32_t window;  /* tokens of the texts that are read, at least 256. 0: 4096, or as many as the
                         model's context and the texts allow */
    uint32_t windows; /* texts to learn from, and as many to measure on. 0: 2 */
    uint32_t needles; /* sentences to hide, at different depths. 0: 6 */
    float loss;       /* of perplexity that `auto` may cost. 0: 0.01 */
    float bound; /* what the output of a head may lack with the policy `learned`, as a share of it.
                    0: 0.1. Below 0: nothing, so that all heads are full */
    uint32_t threads; /* 0 means 1, at most 1024. The file does not depend on it */
    void *context;    /* passed to the functions below, each of which may be NULL */
    /* Called on the calling thread, as those of wisp_calibrate_options. The stages are "weights",
     * "masks" and "policies". */
    void (*progress)(void *context, const char *stage, size_t done, size_t total);
    bool (*cancelled)(void *context);
    /* Called for each head in order, and for all policies that are tried. What they are given lives
     * until they return. */
    void (*learned)(void *context, const wisp_learned_attention *found);
    void (*tried)(void *context, const wisp_tried_attention *found);
} wisp_calibrate_attention_options;

/* Finds what attention of a model that generates may leave out, for texts like these, which follow
 * each other, and writes the model with it to `output`; weights and other calibrations stay. Two
 * things are found. The first is a mask for each layer and key-value head, for the policy
 * `learned`: the one with the fewest keys, of a window, of lines (steps at some distances, and some
 * steps), of blocks and of all keys, with which the head's output stays within `bound`, on average
 * over the tokens of each text, and at the ends of texts that ask for a sentence hidden in them.
 * The second is the choice of policies that `auto` stands for: the one that reads least of those
 * whose perplexity on the texts loses no more than `loss` and which find each hidden sentence that
 * full attention finds. For a model of less than 1e9 parameters these are `full` and `mass` alone,
 * since in so small ones all estimates have lost sentences (docs/decisions.md, 82).
 *
 * The texts must have twice `windows` windows; those that are measured on are not learned from.
 * `options` may be NULL. Output and errors are as of wisp_calibrate; wisp_convert with `plain`
 * removes what was written. Native only. */
WISP_API wisp_status wisp_calibrate_attention(const char *input, const char *output,
                                              const wisp_text *texts, size_t n,
                                              const wisp_calibrate_attention_options *options,
                                              wisp_error *error);

#endif
