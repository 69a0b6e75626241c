/* SPDX-License-Identifier: Apache-2.0
 * The plan of a calibrated model tells how its layers choose neurons, as far as that is common to
 * all layers. */
#ifndef WISP_SPARSE_PLAN_H
#define WISP_SPARSE_PLAN_H

#include "formats/directory.h"

/* A neuron with this threshold is never computed. */
#define SPARSE_NEVER 1e30f

/* Shares that differ by no more are one: 1 - sparsity is rounded. */
#define SPARSE_SAME_SHARE 1e-6f

struct sparse_plan {
    /* [layers, intermediate_size]: the neuron at each place. NULL if each place has the number
     * of its neuron. */
    const int32_t *order;
    size_t levels;
    float shares[32]; /* [levels]: the share of neurons computed at each level, rising */
    float share;      /* the share that is computed unless the caller sets another */
    bool exact;       /* layers load no predictor and compute all neurons */
    bool by_text;     /* layers load the predictor for whole texts */
    bool by_gate;     /* gated layers choose by their gates (gathered.h); there may be no levels */
    bool predicts;    /* with by_gate: a low-rank predictor says whose gates are computed */
};

/* Reads the plan of a calibrated model; zeroes *plan if the model is not calibrated. The order
 * lives as long as the directory. Fails if a key is missing or has the wrong type, shares do not
 * rise from above 0 to 1, or the order of a layer is not a permutation of its neurons. */
wisp_status sparse_read_plan(const struct directory *dir, size_t layers, size_t intermediate_size,
                             struct sparse_plan *plan, wisp_error *error);

/* Reads the plan of a model that generates, whose neurons have no order. Fails as sparse_read_plan
 * does, and if the file has one. */
wisp_status sparse_read_plan_in_order(const struct directory *dir, struct sparse_plan *plan,
                                      wisp_error *error);

/* Reads the plan of a model whose layers choose by their gates, which has no levels, and a share of
 * half of the neurons, if it is not calibrated. Fails as sparse_read_plan does. */
wisp_status sparse_read_gate_plan(const struct directory *dir, struct sparse_plan *plan,
                                  wisp_error *error);

#endif
