/* SPDX-License-Identifier: Apache-2.0
 * What a device library offers: a shared library, such as libwisp-cuda.so, that computes whole
 * encoders on a device. wisp opens it by name and needs none of it otherwise. Everything passes
 * through the one table that the library's only function, wisp_device_library, returns. C and CUDA
 * C++ include this file. */
#ifndef WISP_DEVICE_LIBRARY_H
#define WISP_DEVICE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts changes to this file, so that wisp refuses a library of another version. */
enum { DEVICE_VERSION = 1, DEVICE_MESSAGE_BYTES = 256 };

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
    /* Of each layer: */
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
};

/* The function by which a library is found, under this name. */
typedef const struct device_library *device_library_function(void);
#define DEVICE_LIBRARY_FUNCTION "wisp_device_library"

#ifdef __cplusplus
}
#endif

#endif
