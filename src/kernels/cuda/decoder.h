/* SPDX-License-Identifier: Apache-2.0
 * A decoder on the device: its weights, the contexts in which steps run, and the keys and values of
 * texts. */
#ifndef WISP_KERNELS_CUDA_DECODER_H
#define WISP_KERNELS_CUDA_DECODER_H

#include <vector>

#include "kernels/cuda/decoder_layout.h"
#include "kernels/cuda/runtime.h"

struct decoder_layer {
    float *attention_norm, *ffn_norm, *q_norm, *k_norm; /* the last two are NULL without qk_norm */
    float *q_bias, *k_bias, *v_bias;                    /* NULL without qkv_bias */
    decoder_matrix q, k, v, output, gate, up, down;
    neuron_columns down_neurons; /* in a sparse decoder */
    float *neuron_weights;       /* [intermediate_size]: of scores; NULL: all are 1 */
};

struct device_decoder {
    device_decoder_shape shape;
    uint64_t weight_bytes;
    bool overlaps;   /* kernels may start before the one before has ended */
    bool warpgroups; /* many rows are multiplied by wgmma */
    unsigned multiprocessors;
    decoder_matrix tokens, logits; /* logits has no values if tokens serve for it */
    float *output_norm, *rotations;
    decoder_layer *layers;
};

struct device_sequence {
    device_context *context;
    std::vector<uint16_t *> pages;
};

/* The working memory of steps: for `rows` tokens of `texts` texts with `page_slots` pages, and
 * `logit_rows` rows of logits. */
struct step_memory {
    size_t rows, texts, page_slots, logit_rows, split_rows;
    uint64_t bytes;
    /* What a step is told, on the host and on the device: ids, positions, texts and rows of logits,
     * `rows` of each, tiles of prompts and limits of layers, as floats; and the pages [texts,
     * page_slots]. */
    int32_t *staged_index, *index;
    uint16_t **staged_pages, **pages;
    float *h;           /* [rows, hidden_size] */
    decoder_rows x;     /* [rows, the widest input of a product] */
    uint16_t *staged;   /* likewise, as multiply_many reads them */
    float *qkv;         /* [rows, (heads + 2 kv_heads) head_size] */
    float *gate_up;     /* [rows, 2 intermediate_size] */
    float *part;        /* [split_rows, heads, head_size]: of merge_splits */
    float2 *state;      /* [split_rows, heads] */
    float *logits;      /* [logit_rows, vocabulary_size] */
    float *kept_logits; /* a copy of `logits` in memory of the host */
    /* Of a sparse decoder (decoder_sparse.h): */
    float *slices;                      /* [gather_slices, hidden_size] */
    int32_t *bins;                      /* [SCORE_BINS] */
    uint32_t *computed, *kept_computed; /* [layers], on the device and on the host */
    /* Where tiles and limits are in the index, and its end. A text has a tile for each PROMPT_ROWS
     * of its rows. */
    size_t tiles_at() const {
        return 4 * rows;
    }
    size_t limits_at() const {
        return tiles_at() + 2 * (texts + rows / PROMPT_ROWS);
    }
    size_t index_size(uint32_t layers) const {
        return limits_at() + layers;
    }
};

/* The kernels of steps that add a token to each of so many texts, with room for so many splits. The
 * first such step runs them one by one, which loads them; the second makes the graph. */
struct step_graph {
    size_t texts, splits, neurons;
    bool limited;
    cudaGraphExec_t exec; /* NULL: not yet */
};

struct device_context {
    const device_decoder *decoder;
    cudaStream_t stream;
    std::vector<step_graph> graphs;
    std::vector<device_sequence *> sequences;
    uint64_t page_bytes; /* of all pages */
    step_memory memory;
};

/* A step in the memory of its context. */
struct step_plan {
    size_t rows, texts, logit_rows, tiles;
    size_t splits;  /* that the longest text has at most */
    size_t neurons; /* that are computed of each layer at least; 0: all, or by limits */
    bool limited;   /* layers have limits of scores */
    bool leaves_out() const {
        return limited || neurons > 0;
    }
};

/* Begins all kernels of a step on the context's stream. (decoder_step.cu) */
device_status decoder_run(device_context *context, const step_plan *plan,
                          char message[DEVICE_MESSAGE_BYTES]);

/* Drops the graphs of a context, whose memory moves. (decoder_step.cu) */
void graphs_release(device_context *context);

/* Copies rows [first, first + rows) of W_down by neuron. (decoder_step.cu) */
device_status decoder_copy_columns(const decoder_layer *layer, size_t first, size_t rows,
                                   char message[DEVICE_MESSAGE_BYTES]);

/* Returns the slices in which a step of one row sums neurons. (decoder_step.cu) */
size_t gather_slices(const device_decoder_shape *shape);

/* Fails if there are no kernels for the shape. (decoder_step.cu) */
device_status decoder_check(const device_decoder_shape *shape, char message[DEVICE_MESSAGE_BYTES]);

/* decoder_weights.cu */
device_status decoder_open(const device_decoder_shape *shape, device_decoder **decoder,
                           char message[DEVICE_MESSAGE_BYTES]);
device_status decoder_put(device_decoder *decoder, device_decoder_tensor tensor, uint32_t layer,
                          device_format format, size_t first, size_t rows, const void *stored,
                          char message[DEVICE_MESSAGE_BYTES]);
uint64_t decoder_bytes(const device_decoder *decoder);
void decoder_close(device_decoder *decoder);

/* decoder_context.cu */
device_status context_open(const device_decoder *decoder, device_context **context,
                           char message[DEVICE_MESSAGE_BYTES]);
uint64_t context_bytes(const device_context *context);
void context_close(device_context *context);
device_status sequence_open(device_context *context, device_sequence **sequence,
                            char message[DEVICE_MESSAGE_BYTES]);
device_status sequence_reserve(device_sequence *sequence, size_t tokens,
                               char message[DEVICE_MESSAGE_BYTES]);
device_status sequence_copy(device_sequence *to, const device_sequence *from, size_t first,
                            size_t end, char message[DEVICE_MESSAGE_BYTES]);
void sequence_close(device_sequence *sequence);
device_status context_step(device_context *context, const device_step *step, const float **logits,
                           char message[DEVICE_MESSAGE_BYTES]);

#endif
