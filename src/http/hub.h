/* SPDX-License-Identifier: Apache-2.0
 * Models by name on the Hugging Face Hub, or a server with the same paths, by the rules of
 * js/hub: the cache, its names and the choice of files are those of huggingface_hub and of wisp in
 * JavaScript, so that what one of them has fetched the others find. */
#ifndef WISP_HTTP_HUB_H
#define WISP_HTTP_HUB_H

#include <limits.h>

#include "http/hub_options.h"

/* Finds a model: on the Hub, else in the cache. `path` becomes that of a GGUF file, or of a folder
 * with a configuration, a tokenizer and weights. Fails with WISP_ERROR_ARGUMENT,
 * WISP_ERROR_NOT_FOUND, WISP_ERROR_UNSUPPORTED, WISP_ERROR_IO, WISP_ERROR_FORMAT if what comes is
 * not the model, and WISP_ERROR_CANCELLED. */
wisp_status hub_find(const char *text, const struct hub_options *options, char path[PATH_MAX],
                     wisp_error *error);

#endif
