/* SPDX-License-Identifier: Apache-2.0
 * One feed-forward layer as calibration works on it: its weights, what went into it on real text,
 * and what is known of its neurons. All of it is f32. */
#ifndef WISP_CALIBRATE_LAYER_H
#define WISP_CALIBRATE_LAYER_H

#include "base/arena.h"
#include "kernels/activation.h"
#include "kernels/kernels.h"

struct layer {
    struct arena *arena; /* holds what is found */
    const struct kernels *kernels;
    size_t hidden_size, intermediate_size;
    enum activation activation;

    /* Weights. The neurons are as in the model until layer_study_neurons puts hot ones first. */
    float *gate;         /* [intermediate_size, hidden_size]; NULL unless the activation is gated */
    float *up, *up_bias; /* [intermediate_size, hidden_size], [intermediate_size] */
    float *down, *down_bias; /* [hidden_size, intermediate_size], [hidden_size] */

    /* Inputs of some tokens, to fit to, and of others, to measure on. */
    size_t tokens, held_out_tokens;
    float *x, *held_out; /* [tokens, hidden_size], [held_out_tokens, hidden_size] */
    /* The inputs that the predictor reads for these tokens: x and held_out themselves, or for a
     * predictor that chooses once for a whole text the mean over the token's text. */
    const float *predictor_x, *predictor_held_out;
    float *text_means;                    /* [texts, hidden_size]; NULL if nobody asked for them */
    uint32_t *text_of, *held_out_text_of; /* [tokens], [held_out_tokens]: rows of text_means */

    bool in_order; /* the neurons stay as in the model */

    /* Set by layer_study_neurons. What is listed by place follows the new order. */
    int32_t *order;   /* [intermediate_size]: the neuron at place i is the model's order[i] */
    size_t hot;       /* how many places, from the first on, hold hot neurons */
    float *center;    /* [intermediate_size] by place: what a skipped activation is taken to be */
    float *length;    /* [intermediate_size] by place: of the neuron's column of W_down */
    float *factors;   /* [hidden_size]: x is multiplied by these before it is quantised */
    float *frequency; /* [intermediate_size] by the model's number: how often it is needed, 0..1 */
    float *magnitude; /* [intermediate_size] by the model's number: its mean contribution */

    bool (*cancelled)(void *context); /* asked now and then, on any thread; may be NULL */
    void *context;
};

/* Makes the layer for a predictor of whole texts, which reads the mean of a token's text in place
 * of the token's input. `scratch` holds these rows; everything else is borrowed from `layer`. */
wisp_status layer_with_text_means(const struct layer *layer, struct arena *scratch,
                                  struct layer *with_means, wisp_error *error);

/* Computes the activations of `neurons` neurons from number `first` on: a [n, neurons] for x [n,
 * hidden_size] is activation(x W_up^T + b), or activation(x W_gate^T) (x W_up^T + b) if the layer
 * is gated. */
wisp_status layer_activations(const struct layer *layer, size_t first, size_t neurons,
                              const float *x, size_t n, float *a, wisp_error *error);

/* Computes the sizes [n, neurons] of what these neurons contribute to the layer's output:
 * |activation - center| times the length of the neuron's column of W_down. */
wisp_status layer_contributions(const struct layer *layer, size_t first, size_t neurons,
                                const float *x, size_t n, float *sizes, wisp_error *error);

/* Computes y [n, hidden_size] = a W_down^T, without the bias, for a [n, intermediate_size]. */
wisp_status layer_outputs(const struct layer *layer, const float *a, size_t n, float *y,
                          wisp_error *error);

#endif
