/* SPDX-License-Identifier: Apache-2.0
 * Decides where the weights of a model are (formats/residency.h), and limits their memory. */
#ifndef WISP_ENGINE_RESIDENCY_H
#define WISP_ENGINE_RESIDENCY_H

#include "engine/model.h"

/* Fails if the model or this build cannot be opened as the options ask for: without its cold rows,
 * or with limited memory. */
wisp_status residency_check(const wisp_model *model, const wisp_model_options *options,
                            wisp_error *error);

/* Sets the residency of a model whose network is open to what its source promises and the caller
 * wants. Fails if memory is to be limited from the opening on, and the file has nothing to evict.
 */
wisp_status residency_set(wisp_model *model, const wisp_model_options *options, wisp_error *error);

/* Lets weights rest in the file while they are loaded, so that the model takes at most `memory`
 * bytes; 0: no limit. Does nothing if they may not rest. */
wisp_status residency_limit_weights(wisp_model *model, uint64_t memory, wisp_error *error);

/* Returns the bytes of the file that sessions have read for weights, because memory is limited. */
uint64_t residency_read_bytes(const wisp_model *model);

/* Reserves memory for rows that are absent, when the network is loaded, and computes
 * model->least_memory. */
wisp_status residency_reserve(wisp_model *model, uint64_t memory, wisp_error *error);

#endif
