/* SPDX-License-Identifier: Apache-2.0 */
#include "support/sparse_reference.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"

/* Returns NULL if the layer has no such tensor. */
static float *optional_floats(const wisp_model *model, size_t layer, const char *suffix,
                              size_t rows, size_t length) {
    char name[64];
    snprintf(name, sizeof name, "blk.%zu.%s", layer, suffix);
    return directory_find_tensor(&model->dir, name) ? layer_floats(model, name, rows, length)
                                                    : NULL;
}

struct reference reference_open(const wisp_model *model, size_t layer) {
    const size_t hidden = model->network.config.hidden_size;
    const size_t wide = model->network.config.intermediate_size;
    const int32_t *order = model->plan.order;
    return (struct reference){
        .hidden = hidden,
        .wide = wide,
        .kind = model->network.config.activation,
        .order = order ? order + layer * wide : NULL,
        .up = block_floats(model, layer, "ffn_up.weight", wide, hidden),
        .gate = optional_floats(model, layer, "ffn_gate.weight", wide, hidden),
        .down = block_floats(model, layer, "ffn_down.weight", hidden, wide),
        .up_bias = optional_floats(model, layer, "ffn_up.bias", 1, wide),
        .down_bias = optional_floats(model, layer, "ffn_down.bias", 1, hidden),
        .center = optional_floats(model, layer, "ffn_center", 1, wide)};
}

void reference_close(struct reference *r) {
    memory_free(r->up);
    memory_free(r->gate);
    memory_free(r->down);
    memory_free(r->up_bias);
    memory_free(r->down_bias);
    memory_free(r->center);
}

size_t reference_neuron(const struct reference *r, size_t place) {
    return r->order ? (size_t)r->order[place] : place;
}

double reference_product(const float *w, const float *bias, size_t j, const float *x, size_t k) {
    double sum = bias ? (double)bias[j] : 0;
    for (size_t c = 0; c < k; c++)
        sum += (double)w[j * k + c] * (double)x[c];
    return sum;
}

double reference_activation(const struct reference *r, size_t neuron, const float *x) {
    const double up = reference_product(r->up, r->up_bias, neuron, x, r->hidden);
    if (r->kind == ACTIVATION_RELU)
        return up > 0 ? up : 0;
    if (r->kind == ACTIVATION_GELU)
        return 0.5 * up * (1 + erf(up / sqrt(2)));
    const double gate = reference_product(r->gate, NULL, neuron, x, r->hidden);
    return gate / (1 + exp(-gate)) * up;
}

void reference_layer(const struct reference *r, const bool *computed, const float *x, double *y) {
    for (size_t c = 0; c < r->hidden; c++)
        y[c] = r->down_bias ? (double)r->down_bias[c] : 0;
    for (size_t place = 0; place < r->wide; place++) {
        const size_t j = reference_neuron(r, place);
        double value = r->center ? (double)r->center[j] : 0;
        if (!computed || computed[place])
            value = reference_activation(r, j, x);
        for (size_t c = 0; c < r->hidden; c++)
            y[c] += value * (double)r->down[c * r->wide + j];
    }
}

void difference_add(struct difference *d, const float *got, const double *wanted, size_t n) {
    for (size_t i = 0; i < n; i++) {
        d->off += ((double)got[i] - wanted[i]) * ((double)got[i] - wanted[i]);
        d->wanted += wanted[i] * wanted[i];
    }
}

double difference_of(const struct difference *d) {
    return sqrt(d->off / d->wanted);
}
