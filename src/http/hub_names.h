/* SPDX-License-Identifier: Apache-2.0
 * Names of models on the Hub. */
#ifndef WISP_HTTP_HUB_NAMES_H
#define WISP_HTTP_HUB_NAMES_H

#include "base/status.h"

enum { HUB_TEXT_BYTES = 512 };

/* [hf:]owner/name[@revision][/file] */
struct hub_name {
    char repo[HUB_TEXT_BYTES];
    char revision[HUB_TEXT_BYTES]; /* "main" unless it is given */
    char file[HUB_TEXT_BYTES];     /* "": the repository's model */
    bool has_revision;
};

/* Returns whether a model's name is one of the Hub: whether it begins with "hf:". */
bool hub_is_name(const char *name);

/* Reads a name. Fails with WISP_ERROR_ARGUMENT. */
wisp_status hub_parse_name(const char *text, struct hub_name *name, wisp_error *error);

/* Fails with WISP_ERROR_ARGUMENT if a text that becomes a path would lead out of its folder. */
wisp_status hub_check_path(const char *text, const char *what, wisp_error *error);

#endif
