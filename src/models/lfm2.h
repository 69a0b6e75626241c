/* SPDX-License-Identifier: Apache-2.0
 * LFM2: a decoder in which most layers have a short convolution over the last tokens instead of
 * attention; the others have grouped-query attention whose heads are normalised. RMS norms are
 * before blocks, feed-forward layers are gated SiLU, nothing has a bias. Sources: Liquid AI, LFM2
 * Technical Report (2025); names of keys and tensors as in llama.cpp's files. */
#ifndef WISP_MODELS_LFM2_H
#define WISP_MODELS_LFM2_H

#include "models/decoder_attention.h"

struct lfm2_layer {
    float *operator_norm, *feed_forward_norm; /* [hidden_size]: weights of the RMS norms */
    struct decoder_attention attention;       /* empty in layers with a convolution */
    struct linear in;  /* [3 hidden_size, hidden_size]: gives b, c and x (lfm2.c) */
    struct linear out; /* [hidden_size, hidden_size] */
    float *taps;       /* [conv_taps, hidden_size]: the last is that of the token itself */
};

struct lfm2_weights {
    struct decoder_weights common;
    struct lfm2_layer layer[]; /* [layers] */
};

extern const struct architecture architecture_lfm2, architecture_lfm2moe;

#endif
