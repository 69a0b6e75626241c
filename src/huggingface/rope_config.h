/* SPDX-License-Identifier: Apache-2.0
 * Rotary positions in config.json: rope_parameters of transformers 5, or rope_theta and
 * rope_scaling of version 4. */
#ifndef WISP_HUGGINGFACE_ROPE_CONFIG_H
#define WISP_HUGGINGFACE_ROPE_CONFIG_H

#include "huggingface/config.h"

/* Adds the base and, where angles are divided by one number, that number. Refuses types of scaling
 * other than default, linear and llama3. */
wisp_status hf_put_rope(struct directory *dir, const struct hf_config *config,
                        const char *architecture, wisp_error *error);

/* Adds the tensor rope_freqs.weight, which divides the angles of each pair, where the type is
 * llama3. directory_finish must have been called since hf_put_rope. */
wisp_status hf_put_rope_factors(struct directory *dir, const struct hf_config *config,
                                const char *architecture, wisp_error *error);

#endif
