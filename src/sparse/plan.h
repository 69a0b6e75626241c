/* SPDX-License-Identifier: Apache-2.0
 * How a calibrated model chooses neurons: what all of its layers have in common. */
#ifndef WISP_SPARSE_PLAN_H
#define WISP_SPARSE_PLAN_H

#include "formats/directory.h"

/* The threshold of a neuron that is not computed at all. */
#define SPARSE_NEVER 1e30f

struct sparse_plan {
    const int32_t
        *order; /* [layers, intermediate_size]: the neuron at each place; NULL: its number */
    size_t levels;
    float shares[32]; /* [levels]: of neurons computed, rising */
    float share;      /* unless told otherwise */
    bool exact;       /* all neurons are computed: no predictor is wanted */
    bool by_text;     /* the predictor for whole texts is wanted */
};

/* Reads the plan of a calibrated model; *plan is zeroed where the model is not calibrated. The
 * order is checked to be one and lives as long as the directory. */
wisp_status sparse_read_plan(const struct directory *dir, size_t layers, size_t intermediate_size,
                             struct sparse_plan *plan, wisp_error *error);

#endif
