/* SPDX-License-Identifier: Apache-2.0
 * The variables of the environment that huggingface_hub reads. */
#ifndef WISP_HTTP_HUB_SETTINGS_H
#define WISP_HTTP_HUB_SETTINGS_H

#include <limits.h>

#include "http/hub_names.h"

/* Returns whether a variable is 1, on, yes or true. */
bool hub_is_on(const char *variable);

/* Writes the path of the cache. Fails with WISP_ERROR_ARGUMENT if no variable says where it is. */
wisp_status hub_cache_folder(char path[PATH_MAX], wisp_error *error);

/* Reads the token, which is "" if there is none. Fails with WISP_ERROR_ARGUMENT, without naming it,
 * if it has characters that no token has. */
wisp_status hub_read_token(char token[HUB_TEXT_BYTES], wisp_error *error);

/* Reads the address of the Hub, without a slash at its end. */
wisp_status hub_read_endpoint(char endpoint[HUB_TEXT_BYTES], wisp_error *error);

#endif
