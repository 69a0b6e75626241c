/* SPDX-License-Identifier: Apache-2.0
 * Part of wisp.h: the contents of a model's file and weights, and the measurements of a session.
 */
#ifndef WISP_STATISTICS_H
#define WISP_STATISTICS_H

#ifndef WISP_H
#error "include wisp.h, which includes this header"
#endif

/* A kind of weights, and how many bytes of a model's dense layers have it. */
typedef struct wisp_weights {
    const char *kind; /* "f32", "f16", "bf16", "int8" in blocks of 128, "narrow", which is int8 in
                         blocks of 64, or as in the file: "q4_0", "q4_1", "q5_0", "q5_1", "q2_k",
                         "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4", "tq1_0",
                         "tq2_0", "bitnet_t158", "q1_0", "q2_0", "pq2_0", "i2_s" */
    uint64_t bytes;   /* with scales and biases */
} wisp_weights;

/* Gets entry `index` of the list of kinds of weights of the model's dense layers in memory. Returns
 * false after the last. Token embeddings and neurons of sparse layers are not dense layers. */
WISP_API bool wisp_model_get_weights(const wisp_model *model, size_t index, wisp_weights *weights);

/* The experts of a model. The last three are totals of all sessions since the model was opened, and
 * 0 if all experts are in memory. */
typedef struct wisp_expert_stats {
    uint32_t layers;         /* layers with experts */
    uint32_t experts, used;  /* the experts of a layer, and how many of them a token uses */
    uint64_t bytes;          /* memory that all experts together would take */
    uint64_t resident_bytes; /* memory that the present ones take */
    uint64_t held;           /* how often an expert was needed by one or more tokens */
    uint64_t read;           /* how often it was absent and had to be read */
    uint64_t read_bytes;     /* bytes of the file that were read */
} wisp_expert_stats;

/* Gets the statistics of the model's experts. Returns false if it has none. */
WISP_API bool wisp_model_get_expert_stats(const wisp_model *model, wisp_expert_stats *stats);

/* The neurons of a model that chooses them by gates, while its memory is limited: totals of all
 * sessions since the model was opened, without those of prompts. */
typedef struct wisp_neuron_stats {
    uint64_t needed;     /* how often a token computed a neuron */
    uint64_t read;       /* how often it was absent and had to be read */
    uint64_t read_bytes; /* bytes of the file that were read */
} wisp_neuron_stats;

/* Gets these statistics. Returns false if all neurons are in memory. */
WISP_API bool wisp_model_get_neuron_stats(const wisp_model *model, wisp_neuron_stats *stats);

/* Gets the key and the value, as text, of entry `index` of the file's metadata. The value of an
 * array is its type and length, "i32[12]". Writes at most `capacity` bytes to `value`, including
 * the terminating 0; longer text is truncated. Returns false after the last entry. */
WISP_API bool wisp_model_metadata(const wisp_model *model, size_t index, const char **key,
                                  char *value, size_t capacity);

/* A setting that affects embeddings and is missing in the model's file, with the value that is
 * used. This happens in GGUF files that wisp did not write: llama.cpp's converter does not record
 * that a BERT has ReLU, and wisp computes GELU. */
typedef struct wisp_assumption {
    const char *key;   /* the missing key of the metadata: "wisp.hidden_act" */
    const char *value; /* "gelu" */
} wisp_assumption;

/* Gets assumption `index` of the model. Returns false after the last. */
WISP_API bool wisp_model_get_assumption(const wisp_model *model, size_t index,
                                        wisp_assumption *assumption);

/* Returns the name of a stage of embedding or generating, or NULL after the last. Stages are
 * indexes of wisp_stats.stage_seconds: "tokenize"; "look_up" (of token embeddings); "qkv";
 * "attention"; "attention_output"; "ffn_up", "activation" and "ffn_down" (dense layers);
 * "ffn_sparse" (sparse layers); "norm"; "pool"; "logits"; and "wait" (for the other threads that
 * share a batch, and for cold rows from WISP_NEED_RANGES to wisp_embed_continue). */
WISP_API const char *wisp_stage_name(size_t stage);

enum { WISP_STAGES = 13 };

/* Totals since the session was opened. Seconds are sums over threads. */
typedef struct wisp_stats {
    uint64_t texts;  /* embedded */
    uint64_t tokens; /* embedded; with a model that generates: computed */
    uint64_t truncated_texts;
    double stage_seconds[WISP_STAGES];
    uint64_t workspace_bytes; /* working memory of the session at present, including its key-value
                                 caches */
} wisp_stats;

WISP_API void wisp_session_get_stats(const wisp_session *session, wisp_stats *stats);

/* Writes the times of all stages so far, and of loading the model, as Chrome trace JSON for
 * chrome://tracing or Perfetto. The session must have been opened with `trace` and must not be
 * embedding. Native only. */
WISP_API wisp_status wisp_session_write_trace(const wisp_session *session, const char *path,
                                              wisp_error *error);

/* Totals of one layer since the session was opened, summed over threads.
 *
 * `compared`, `needed` and `found` are counted only with the session option `recall` and a
 * predictor other than dense. Precision is found / compared and recall is found / needed. */
typedef struct wisp_layer_stats {
    uint64_t tokens;
    uint64_t neurons;      /* tokens times the neurons of the layer */
    uint64_t computed;     /* neurons whose activation was computed */
    uint64_t contributing; /* neurons that were added to the output, in groups of four */
    double seconds;        /* spent in the layer, dense or sparse */
    uint64_t compared;     /* neurons computed while recall was counted */
    uint64_t needed; /* with ReLU: neurons with an activation other than 0; otherwise the fifth of
                        the neurons that contributes most */
    uint64_t found;  /* neurons that were needed and computed */
    /* Attention of models that generate, counted for each key-value head: keys that tokens could
     * see, those of them that the policy looked at, and the bytes of keys and values that were
     * read, which neighbouring tokens of a prompt share. */
    uint64_t keys_visible, keys_seen, kv_bytes;
} wisp_layer_stats;

enum { WISP_ATTENTION_CELLS = 32 };

/* Where the tokens of a text have looked in a layer, for one of its key-value heads: a square for
 * so many positions of tokens that look (rows) and of tokens that are looked at. */
typedef struct wisp_attention_map {
    uint32_t positions; /* of a cell, each way */
    uint32_t cells;     /* rows and columns that the texts so far have reached */
    /* The share of the keys of each cell that was looked at; -1 if there was none to see. */
    float seen[WISP_ATTENTION_CELLS][WISP_ATTENTION_CELLS];
} wisp_attention_map;

/* Makes a session of a model that generates count what wisp_session_get_attention_map tells, from
 * now on. Takes 16 KiB of memory for each key-value head and thread. Native only. */
WISP_API wisp_status wisp_session_watch_attention(wisp_session *session, wisp_error *error);

/* Gets what a key-value head has looked at. Returns false if the session does not count it, or
 * there is no such layer or head. */
WISP_API bool wisp_session_get_attention_map(const wisp_session *session, uint32_t layer,
                                             uint32_t kv_head, wisp_attention_map *map);

/* Gets the totals of layer `layer`, counted from 0. Returns false after the last. */
WISP_API bool wisp_session_get_layer_stats(const wisp_session *session, uint32_t layer,
                                           wisp_layer_stats *stats);

#endif
