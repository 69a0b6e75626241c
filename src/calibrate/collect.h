/* SPDX-License-Identifier: Apache-2.0
 * What goes into a model's feed-forward layers on real text. */
#ifndef WISP_CALIBRATE_COLLECT_H
#define WISP_CALIBRATE_COLLECT_H

#include "base/pool.h"
#include "calibrate/layer_fit.h"
#include "engine/model.h"

/* Every so many texts one is held out of the fit. */
enum { HELD_OUT_EVERY = 8 };

/* Runs the texts and sets x, tokens, held_out and held_out_tokens of each layer's sample, and where
 * options->sentence is set means, texts and held_out_texts: the same tokens for all layers,
 * options->tokens of them at most and an eighth as many held out, picked by the seed. The result
 * does not depend on the number of threads. */
wisp_status collect_inputs(const wisp_model *model, struct pool *team,
                           const wisp_calibrate_options *options, const wisp_text *texts, size_t n,
                           struct layer_sample *samples, wisp_error *error);

#endif
