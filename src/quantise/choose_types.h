/* SPDX-License-Identifier: Apache-2.0
 * Chooses one type for each of some tensors, so that all together lose little and take few bytes.
 * The gains of a step to a larger type are compared by their loss for each byte; steps are those of
 * the lower convex hull of each tensor's types. So no choice of as many bytes or fewer loses less,
 * but for the last step that did not fit. Native only. */
#ifndef WISP_QUANTISE_CHOOSE_TYPES_H
#define WISP_QUANTISE_CHOOSE_TYPES_H

#include "quant/blocks.h"

enum { MOST_TYPES = 12 };

/* The types that a tensor can have, in any order, and the one that is chosen. */
struct type_choice {
    const struct block_format *formats[MOST_TYPES]; /* NULL: no type of quantised numbers */
    uint64_t bytes[MOST_TYPES];
    double errors[MOST_TYPES], plain[MOST_TYPES]; /* of outputs: corrected, and by rounding */
    double loss[MOST_TYPES]; /* what the model loses if the tensor has the type */
    size_t n, chosen;
};

/* Choose a type for each of n tensors: with the least loss that steps reach within `bytes`, or with
 * the fewest bytes that steps reach within `loss`. Return false if the smallest types take more
 * bytes, which are chosen then, or the best ones lose more. */
bool choose_for_bytes(struct type_choice *const *choices, size_t n, uint64_t bytes);
bool choose_for_loss(struct type_choice *const *choices, size_t n, double loss);

uint64_t chosen_bytes(struct type_choice *const *choices, size_t n);
double chosen_loss(struct type_choice *const *choices, size_t n);

#endif
