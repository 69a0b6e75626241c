/* SPDX-License-Identifier: Apache-2.0
 * Which files of a repository are its model: the rules of js/hub/hub.js and hub-folder.js. */
#ifndef WISP_HTTP_HUB_CHOOSE_H
#define WISP_HTTP_HUB_CHOOSE_H

#include "http/hub_cache.h"

bool hub_is_gguf(const char *name);

/* Chooses the GGUF file: of several the one whose type of weights comes first; if all models are in
 * parts, the first part of one. Fails with WISP_ERROR_NOT_FOUND if there is none, and
 * WISP_ERROR_ARGUMENT if there are several. */
wisp_status hub_choose_gguf(const struct hub_files *files, const char *repo, const char **name,
                            wisp_error *error);

/* Adds a GGUF file to those that are chosen, and if it is the first part of a model all other
 * parts. Fails with WISP_ERROR_NOT_FOUND if one is absent. */
wisp_status hub_choose_parts(const struct hub_files *files, const char *first,
                             struct hub_files *chosen, wisp_error *error);

/* Chooses the configuration and the tokenizer, *described files, and behind them the weights.
 * Without weights, `chosen` stays empty. */
wisp_status hub_choose_folder(const struct hub_files *files, struct hub_files *chosen,
                              uint32_t *described, wisp_error *error);

/* Returns whether files of a repository that are kept have the weights of a folder. */
bool hub_has_weights(const struct hub_files *files);

#endif
