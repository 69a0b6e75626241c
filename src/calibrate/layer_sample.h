/* SPDX-License-Identifier: Apache-2.0
 * One feed-forward layer as calibration sees it: its weights, what went into it on real text, and
 * what it makes of that in f32. */
#ifndef WISP_CALIBRATE_LAYER_SAMPLE_H
#define WISP_CALIBRATE_LAYER_SAMPLE_H

#include "base/status.h"
#include "kernels/activation.h"
#include "kernels/kernels.h"

/* A layer's weights and what went into it. */
struct layer_sample {
    const struct kernels *kernels;
    size_t hidden, wide;
    enum activation activation;
    float *up, *up_bias, *down, *down_bias; /* [wide, hidden], [wide], [hidden, wide], [hidden] */
    float *gate;                            /* [wide, hidden], where the activation is gated */
    float *x;                               /* [tokens, hidden] */
    size_t tokens;
    float *held_out; /* [held_out_tokens, hidden]: not fitted to */
    size_t held_out_tokens;
    /* The means of the texts that these tokens are of, and which is each token's; NULL: unknown. */
    float *means;                     /* [texts, hidden] */
    uint32_t *texts, *held_out_texts; /* [tokens], [held_out_tokens] */
    /* What predictors see of x and held_out, row by row; NULL: these themselves. */
    float *seen, *held_out_seen;
    bool (*stopped)(void *context); /* asked now and then, on any thread; may be NULL */
    void *context;
};

static inline const float *layer_seen(const struct layer_sample *sample) {
    return sample->seen ? sample->seen : sample->x;
}

static inline const float *layer_held_out_seen(const struct layer_sample *sample) {
    return sample->held_out_seen ? sample->held_out_seen : sample->held_out;
}

/* The sample as predictors see it that choose for whole texts: of each token the mean over its
 * text. All else is borrowed. Released with layer_forget_texts, also after an error. */
wisp_status layer_see_texts(const struct layer_sample *sample, struct layer_sample *seeing,
                            wisp_error *error);

void layer_forget_texts(struct layer_sample *seeing);

/* a [n, wide] = activation(x W_up^T + b), gated by x W_gate^T where there is a gate. */
wisp_status layer_activations(const struct layer_sample *sample, const float *x, size_t n, float *a,
                              wisp_error *error);

/* The same of the neurons from `first` on: a [n, neurons]. */
wisp_status layer_some_activations(const struct layer_sample *sample, size_t first, size_t neurons,
                                   const float *x, size_t n, float *a, wisp_error *error);

/* y [n, hidden] = a W_down^T, without the bias. */
wisp_status layer_outputs(const struct layer_sample *sample, const float *a, size_t n, float *y,
                          wisp_error *error);

/* Renumbers the neurons: number i is what was order[i]. After an error the weights are of no use.
 */
wisp_status layer_reorder(struct layer_sample *sample, const int32_t *order, wisp_error *error);

#endif
