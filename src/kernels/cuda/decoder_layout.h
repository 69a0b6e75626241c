/* SPDX-License-Identifier: Apache-2.0
 * How weights and rows of decoders are laid out in the memory of the device. */
#ifndef WISP_KERNELS_CUDA_DECODER_LAYOUT_H
#define WISP_KERNELS_CUDA_DECODER_LAYOUT_H

#include "device/library.h"
#include "kernels/cuda/ptx.h"

enum {
    VALUES = 32,       /* of a block of weights or of a row, which have a scale */
    STAGE_VALUES = 64, /* of rows that many rows are multiplied by at a time */
    PAGE = 256,        /* positions in a page of keys and values */
    SPLIT = 64,        /* keys that a block of threads attends to */
    PROMPT_ROWS = 128, /* of a prompt, that a block of threads attends with */
    /* Scores of neurons are counted in bins, of those of one exponent and 4 bits behind it. */
    SCORE_SHIFT = 19,
    SCORE_BINS = 1 << (31 - SCORE_SHIFT)
};

/* Weights of one format, row by row: Q8_0 is bytes and, apart from them, scales; Q4_0 likewise,
 * with two numbers in a byte. Of 32 numbers of Q4_0, byte 4 t + i has number 8 t + i in its low
 * half and 8 t + 4 + i in its high one, which is how lane t of 4 wants them. */
struct decoder_matrix {
    unsigned char *values; /* NULL: never set */
    uint16_t *scale;       /* [rows, columns / 32]: halves; NULL of DEVICE_F16 */
    size_t rows, columns;
    device_format format;
};

/* Rows as products read them: int8 with a scale for each 32 values, or halves. */
struct decoder_rows {
    int8_t *q;
    float *scale;
    uint16_t *halves; /* NULL: int8 */
    bool staged;      /* halves are in the order of place_in_stage */
};

/* Where numbers `at` and at + 1 of staged rows are, beside each other. Of 64, those of 16 t + 4 i
 * are where wgmma's step i has the first part of lane t, and the next two 8 halves behind. */
static __host__ __device__ inline size_t place_in_stage(size_t at) {
    const size_t i = at % STAGE_VALUES;
    return at - i + 16 * (i / 4 % 4) + 8 * (i / 2 % 2) + 2 * (i / 16);
}

/* W_down by neuron: numbers [neurons, outputs], and for each 32 neurons the scales [neurons / 32,
 * outputs]. */
struct neuron_columns {
    int8_t *values; /* NULL: not kept */
    uint16_t *scale;
};

/* Returns the bytes of 32 values. */
static __host__ __device__ constexpr int format_bytes(int format) {
    return format == DEVICE_F16 ? 64 : format == DEVICE_Q8_0 ? 32 : 16;
}

#endif
