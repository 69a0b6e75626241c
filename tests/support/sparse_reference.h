/* SPDX-License-Identifier: Apache-2.0
 * Computes the exact output of a sparse layer in double precision. */
#ifndef TESTS_SPARSE_REFERENCE_H
#define TESTS_SPARSE_REFERENCE_H

#include "support/sparse_models.h"

/* One layer of a model. Neurons have their numbers in the file. */
struct reference {
    size_t hidden, wide;
    enum activation kind;
    const int32_t *order;       /* [neurons], or NULL if the place of each neuron is its number */
    float *up, *gate, *down;    /* [neurons, hidden_size], the same, [hidden_size, neurons] */
    float *up_bias, *down_bias; /* NULL if the model has none */
    float *center;
};

struct reference reference_open(const wisp_model *model, size_t layer);
void reference_close(struct reference *r);

/* Returns the neuron at a place of the order. */
size_t reference_neuron(const struct reference *r, size_t place);

/* Returns the activation of a neuron. */
double reference_activation(const struct reference *r, size_t neuron, const float *x);

/* Computes y of one token. `computed` says which places are computed; NULL: all are. */
void reference_layer(const struct reference *r, const bool *computed, const float *x, double *y);

/* Returns bias[j] plus the product of row j of w [n, k] and x; `bias` may be NULL. */
double reference_product(const float *w, const float *bias, size_t j, const float *x, size_t k);

/* Sums of squares of the errors and of the expected values. */
struct difference {
    double off, wanted;
};

void difference_add(struct difference *d, const float *got, const double *wanted, size_t n);

/* Returns the relative error. */
double difference_of(const struct difference *d);

#endif
