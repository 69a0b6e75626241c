/* SPDX-License-Identifier: Apache-2.0
 * Sliding windows in config.json. */
#ifndef WISP_HUGGINGFACE_WINDOW_CONFIG_H
#define WISP_HUGGINGFACE_WINDOW_CONFIG_H

#include "huggingface/config.h"

/* Adds the window of all layers, as Mistral's class has it, unless it leaves nothing out. */
wisp_status hf_put_window(struct directory *dir, const struct hf_config *config,
                          const char *architecture, wisp_error *error);

/* Adds the window and which layers have it, as the classes of Qwen have them: those that
 * layer_types lists, else those from max_window_layers on. */
wisp_status hf_put_layer_windows(struct directory *dir, const struct hf_config *config,
                                 const char *architecture, wisp_error *error);

/* Adds the window and which layers have it, as the classes of Gemma have them: those that
 * layer_types lists, else all but every n-th, where n is sliding_window_pattern if that
 * `may_differ`, and else the `usual` number. Files of the usual pattern need not list the local
 * layers. */
wisp_status hf_put_periodic_windows(struct directory *dir, const struct hf_config *config,
                                    const char *architecture, uint32_t usual, bool may_differ,
                                    wisp_error *error);

#endif
