/* SPDX-License-Identifier: Apache-2.0
 * Runs texts through a model and keeps the inputs of its feed-forward layers. */
#ifndef WISP_CALIBRATE_COLLECT_H
#define WISP_CALIBRATE_COLLECT_H

#include "base/pool.h"
#include "calibrate/layer.h"
#include "engine/model.h"

/* Every eighth text is held out: nothing is fitted to it, so that it can be measured on. */
enum { HELD_OUT_EVERY = 8 };

/* Runs the n texts and sets the inputs of each layer (layer.h), with text_means if
 * options->sentence asks for them. All layers keep the same tokens: options->tokens of them at most
 * and an eighth as many held out, drawn by the seed. The result does not depend on the number of
 * threads. Layers have their arena and sizes already. Adds to token_counts [vocabulary_size] how
 * often each token occurs in all texts. */
wisp_status collect_inputs(const wisp_model *model, struct pool *team,
                           const wisp_calibrate_options *options, const wisp_text *texts, size_t n,
                           struct layer *layers, uint32_t *token_counts, wisp_error *error);

#endif
