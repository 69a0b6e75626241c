/* SPDX-License-Identifier: Apache-2.0 */
#include "models/architectures.h"

#include <stdio.h>
#include <string.h>

wisp_status architecture_find(const struct directory *dir, const struct architecture **architecture,
                              wisp_error *error) {
    static const char key[] = "general.architecture";
    const char *name = NULL;
    char known[512] = "";
    TRY(metadata_text(dir, key, &name, error));
    for (size_t i = 0; architectures[i]; i++)
        if (strcmp(name, architectures[i]->name) == 0) {
            *architecture = architectures[i];
            return WISP_OK;
        }
    for (size_t i = 0, used = 0; architectures[i] && used < sizeof known; i++) {
        const char *before = i == 0 ? "" : architectures[i + 1] ? ", " : " and ";
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", before,
                                 architectures[i]->name);
    }
    return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, key,
                "models of architecture %.64s are not supported, only %s", name, known);
}
