/* SPDX-License-Identifier: Apache-2.0
 * The exact output of a sparse layer: its weights, computed with in double precision. */
#ifndef TESTS_SPARSE_REFERENCE_H
#define TESTS_SPARSE_REFERENCE_H

#include "support/sparse_models.h"

/* One layer of a model, its neurons numbered as in the file. */
struct reference {
    size_t hidden, wide;
    enum activation kind;
    const int32_t *order;       /* [wide], or NULL: neurons are at places of their own number */
    float *up, *gate, *down;    /* [wide, hidden], [wide, hidden], [hidden, wide] */
    float *up_bias, *down_bias; /* what the model has not is NULL */
    float *center;
};

struct reference reference_open(const wisp_model *model, size_t layer);
void reference_close(struct reference *r);

/* The neuron at a place of the order. */
size_t reference_neuron(const struct reference *r, size_t place);

/* The activation of a neuron. */
double reference_activation(const struct reference *r, size_t neuron, const float *x);

/* y of one token, where `computed` (NULL: all are) says which places are. */
void reference_layer(const struct reference *r, const bool *computed, const float *x, double *y);

/* bias[j] plus row j of w [n, k] by x; `bias` may be NULL. */
double reference_product(const float *w, const float *bias, size_t j, const float *x, size_t k);

/* Squares of what is wrong and of what is wanted, of any number of values. */
struct difference {
    double off, wanted;
};

void difference_add(struct difference *d, const float *got, const double *wanted, size_t n);

/* The relative error. */
double difference_of(const struct difference *d);

#endif
