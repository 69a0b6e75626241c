/* SPDX-License-Identifier: Apache-2.0
 * The interface of a device library: a shared library, such as libwisp-cuda.so, that computes whole
 * encoders and decoders on a device. wisp opens it by name and does not link it.
 * Everything passes through the one table that the library's only function, wisp_device_library,
 * returns. C and CUDA C++ include this file. */
#ifndef WISP_DEVICE_LIBRARY_H
#define WISP_DEVICE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts changes to this file, so that wisp refuses a library of another version. */
enum { DEVICE_VERSION = 3, DEVICE_MESSAGE_BYTES = 256 };

typedef enum device_status {
    DEVICE_OK,
    DEVICE_ABSENT,      /* this machine has no such device, or no driver for it */
    DEVICE_UNSUPPORTED, /* the device or its kernels cannot compute this model */
    DEVICE_NO_MEMORY,   /* of the device or, rarely, of the host */
    DEVICE_LOST         /* a call of the driver failed, or the device was taken away */
} device_status;

enum device_activation { DEVICE_GELU, DEVICE_RELU, DEVICE_GELU_TANH };

/* An encoder whose layers are attention, add and norm, feed forward, add and norm. */
struct device_shape {
    uint32_t hidden_size, intermediate_size, layers, heads, vocabulary_size, positions;
    float norm_epsilon;
    enum device_activation activation;
    bool int8;            /* most products multiply in int8, else all in f16 */
    bool first;           /* pool the first token's hidden state rather than the mean */
    uint32_t pass_tokens; /* tokens that one pass computes at most, unless one text has more; 0: the
                             library's choice */
};

/* Matrices are [outputs, inputs], row by row, vectors one row. */
enum device_tensor {
    DEVICE_TOKENS,    /* [vocabulary_size, hidden_size] */
    DEVICE_POSITIONS, /* [positions, hidden_size], with the embedding of token type 0 added */
    DEVICE_EMBEDDING_NORM,
    DEVICE_EMBEDDING_NORM_BIAS,
    /* For each layer: */
    DEVICE_QKV, /* [3 hidden_size, hidden_size]: queries, keys, values */
    DEVICE_QKV_BIAS,
    DEVICE_OUTPUT,
    DEVICE_OUTPUT_BIAS,
    DEVICE_ATTENTION_NORM,
    DEVICE_ATTENTION_NORM_BIAS,
    DEVICE_UP, /* [intermediate_size, hidden_size] */
    DEVICE_UP_BIAS,
    DEVICE_DOWN, /* [hidden_size, intermediate_size] */
    DEVICE_DOWN_BIAS,
    DEVICE_OUTPUT_NORM,
    DEVICE_OUTPUT_NORM_BIAS,
    DEVICE_TENSORS
};

/* Texts one after the other, without padding, as in models/pass.h. */
struct device_batch {
    size_t texts;
    const int32_t *ids;    /* [tokens] */
    const size_t *starts;  /* [texts + 1] */
    const size_t *skipped; /* [texts]: leading tokens that pooling leaves out; may be NULL */
    size_t dimensions;     /* values of a row that are wanted */
    size_t normalize; /* divide by the length of the first so many values of a row; 0: do not */
    float *rows;      /* [texts, dimensions]; a row that is not finite becomes NaN */
};

struct device_encoder;

/* ---- decoders ------------------------------------------------------------------------------- */

enum device_gate { DEVICE_GATE_SILU, DEVICE_GATE_RELU, DEVICE_GATE_RELU_SQUARED };

/* A decoder of Llama's family: RMS norms before blocks, rotary positions, keys and values that
 * groups of heads share, gated feed-forward layers. */
struct device_decoder_shape {
    uint32_t hidden_size, intermediate_size, layers, heads, kv_heads, head_size, vocabulary_size;
    uint32_t positions;   /* of the longest text */
    uint32_t rotary_size; /* values of a head that are rotated: the first ones */
    bool neighbours;      /* pairs are values 2 i and 2 i + 1, not i and i + rotary_size / 2 */
    bool qkv_bias, qk_norm;
    bool halves; /* matrices are halves and products f16; else they are quantised, and int8 */
    bool sparse; /* steps may leave out neurons: W_down is kept a second time, by neuron */
    enum device_gate gate;
    float norm_epsilon, attention_scale;
};

/* Matrices are [outputs, inputs], row by row, vectors one row. */
enum device_decoder_tensor {
    DECODER_TOKENS, /* [vocabulary_size, hidden_size] */
    DECODER_LOGITS, /* [vocabulary_size, hidden_size]; those of DECODER_TOKENS if it is never put */
    DECODER_OUTPUT_NORM,
    DECODER_ROTATIONS, /* [positions, head_size]: a position's cosines, then its sines */
    /* For each layer: */
    DECODER_ATTENTION_NORM,
    DECODER_Q, /* [heads head_size, hidden_size] */
    DECODER_K, /* [kv_heads head_size, hidden_size] */
    DECODER_V,
    DECODER_Q_BIAS,
    DECODER_K_BIAS,
    DECODER_V_BIAS,
    DECODER_Q_NORM, /* [head_size] */
    DECODER_K_NORM,
    DECODER_OUTPUT, /* [hidden_size, heads head_size] */
    DECODER_FFN_NORM,
    DECODER_GATE, /* [intermediate_size, hidden_size] */
    DECODER_UP,
    DECODER_DOWN,           /* [hidden_size, intermediate_size] */
    DECODER_NEURON_WEIGHTS, /* [intermediate_size], of a sparse decoder: see device_step.least */
    DECODER_TENSORS
};

/* How the rows that are put are stored: as in GGUF files. Vectors are floats. Matrices are halves
 * in a decoder of halves; in others Q8_0 or Q4_0, all rows of a matrix alike. */
enum device_format { DEVICE_F32, DEVICE_F16, DEVICE_Q8_0, DEVICE_Q4_0 };

struct device_decoder;
struct device_context;  /* a session's: working memory, and a queue of work */
struct device_sequence; /* the keys and values of a text, in a context */

/* Tokens that are added to texts, as models/pass.h has them. */
struct device_step {
    size_t texts;
    const int32_t *ids;                       /* [tokens] */
    const size_t *starts;                     /* [texts + 1] */
    struct device_sequence *const *sequences; /* [texts], different ones, with room */
    const size_t *lengths;                    /* [texts]: tokens before these */
    bool all_logits;                          /* of every token; else of the last of each text */
    /* Of a sparse decoder: which neurons of a layer are computed for a token, by their scores,
     * |f(gate)| times the neuron's weight (1 if there are no weights). With `least`, those whose
     * score is above 0 and at least least[layer]; else, unless `neurons` is 0, so many that have
     * the largest scores, and all that equal the last of these in exponent and 4 bits behind it. */
    const float *least; /* [layers]; NULL: none */
    uint32_t neurons;
    uint32_t *computed; /* [layers]: if neurons were left out, those computed, of all tokens */
};

/* Any number of threads may call functions of different contexts at the same time. */
struct device_decoder_library {
    /* Makes a decoder without weights. The caller closes it, also after an error in `put`. */
    device_status (*open)(const struct device_decoder_shape *shape, struct device_decoder **decoder,
                          char message[DEVICE_MESSAGE_BYTES]);
    /* Sets rows [first, first + rows) of a tensor. */
    device_status (*put)(struct device_decoder *decoder, enum device_decoder_tensor tensor,
                         uint32_t layer, enum device_format format, size_t first, size_t rows,
                         const void *stored, char message[DEVICE_MESSAGE_BYTES]);
    /* Returns the memory that the decoder holds on the device, without contexts. */
    uint64_t (*bytes)(const struct device_decoder *decoder);
    void (*close)(struct device_decoder *decoder);

    device_status (*context_open)(const struct device_decoder *decoder,
                                  struct device_context **context,
                                  char message[DEVICE_MESSAGE_BYTES]);
    uint64_t (*context_bytes)(const struct device_context *context);
    void (*context_close)(struct device_context *context); /* closes its sequences, too */

    device_status (*sequence_open)(struct device_context *context,
                                   struct device_sequence **sequence,
                                   char message[DEVICE_MESSAGE_BYTES]);
    /* Makes room for so many tokens. What the sequence has stays. */
    device_status (*sequence_reserve)(struct device_sequence *sequence, size_t tokens,
                                      char message[DEVICE_MESSAGE_BYTES]);
    /* Copies the keys and values of tokens [first, end), for which `to` has room. Both begin with
     * the same `first` tokens. */
    device_status (*sequence_copy)(struct device_sequence *to, const struct device_sequence *from,
                                   size_t first, size_t end, char message[DEVICE_MESSAGE_BYTES]);
    void (*sequence_close)(struct device_sequence *sequence);

    /* Adds tokens to texts. Points *logits to [texts or tokens, vocabulary_size], in memory of the
     * context until its next step; NULL: they are not copied to the host. The bits of a row depend
     * on only the text before it; if neurons are left out, also on whether the step has one
     * token. */
    device_status (*step)(struct device_context *context, const struct device_step *step,
                          const float **logits, char message[DEVICE_MESSAGE_BYTES]);
};

/* ---- the library ---------------------------------------------------------------------------- */

struct device_library {
    uint32_t version; /* DEVICE_VERSION */
    const char *name;
    /* Writes the name of device `index`, terminated. DEVICE_ABSENT past the last one. */
    device_status (*describe)(unsigned index, char name[DEVICE_MESSAGE_BYTES],
                              char message[DEVICE_MESSAGE_BYTES]);
    /* Makes an encoder without weights. The caller closes it, also after an error in `put`. */
    device_status (*open)(const struct device_shape *shape, struct device_encoder **encoder,
                          char message[DEVICE_MESSAGE_BYTES]);
    /* Sets rows [first, first + rows) of a tensor; `layer` is 0 if there is only one. */
    device_status (*put)(struct device_encoder *encoder, enum device_tensor tensor, uint32_t layer,
                         size_t first, size_t rows, const float *values,
                         char message[DEVICE_MESSAGE_BYTES]);
    /* Embeds a batch of any size. Any number of threads may call it at the same time. */
    device_status (*embed)(struct device_encoder *encoder, const struct device_batch *batch,
                           char message[DEVICE_MESSAGE_BYTES]);
    /* Returns the memory that the encoder holds on the device. */
    uint64_t (*bytes)(const struct device_encoder *encoder);
    void (*close)(struct device_encoder *encoder);
    struct device_decoder_library decoder;
};

/* The function by which a library is found, under this name. */
typedef const struct device_library *device_library_function(void);
#define DEVICE_LIBRARY_FUNCTION "wisp_device_library"

#ifdef __cplusplus
}
#endif

#endif
