/* SPDX-License-Identifier: Apache-2.0
 * What decides how a model of the Hub is found. */
#ifndef WISP_HTTP_HUB_OPTIONS_H
#define WISP_HTTP_HUB_OPTIONS_H

#include "base/status.h"

struct hub_options {
    bool offline;      /* nothing is fetched */
    bool folder_first; /* of a repository that has both, take the folder and not the GGUF file */
    bool (*cancelled)(void);
    /* Called when bytes have come; `total` is 0 if it is unknown. */
    void (*progress)(void *context, uint64_t loaded, uint64_t total);
    /* Called with the architecture that a GGUF file names, and with the path of a folder of which
     * all but the weights is there. A failure ends the call before the weights come. */
    wisp_status (*judge_gguf)(const char *architecture, wisp_error *error);
    wisp_status (*judge_folder)(const char *path, wisp_error *error);
    void *context;
};

#endif
