/* SPDX-License-Identifier: Apache-2.0
 * Models by name on the Hugging Face Hub, hf:owner/name[@revision][/file]: every command that takes
 * a model looks here first. */
#ifndef WISP_CLI_HUB_MODELS_H
#define WISP_CLI_HUB_MODELS_H

#include <limits.h>

#include "cli/cli.h"

/* The files that are taken from a repository with both a GGUF file and a folder of weights. */
enum hub_preference {
    HUB_GGUF_FIRST,  /* to compute with it */
    HUB_FOLDER_FIRST /* to make a file of it: the weights are those of training */
};

/* Sets *found to where a model is: to `path`, after fetching what the cache lacks, if the name is
 * one of the Hub, else to the name itself. Fails as hub_find does. */
wisp_status find_model(const char *name, enum hub_preference preference, bool offline,
                       char path[PATH_MAX], const char **found, wisp_error *error);

#endif
