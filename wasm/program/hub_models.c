/* SPDX-License-Identifier: Apache-2.0
 * Models by name in the program for Node, which has no connections: js/program/cli-program.js
 * fetches them and gives their paths. */
#include "cli/hub_models.h"

wisp_status find_model(const char *name, enum hub_preference preference, bool offline,
                       char path[PATH_MAX], const char **found, wisp_error *error) {
    (void)preference;
    (void)offline;
    (void)path;
    (void)error;
    *found = name;
    return WISP_OK;
}
