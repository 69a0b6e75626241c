/* SPDX-License-Identifier: Apache-2.0 */
#include "support/other.h"

#include <string.h>

#include "models/architectures.h"

/* The linker's names for the function that it wraps (WRAPPED in the Makefile). */
wisp_status __real_architecture_find(const struct directory *dir,
                                     const struct architecture **architecture, wisp_error *error);
wisp_status __wrap_architecture_find(const struct directory *dir,
                                     const struct architecture **architecture, wisp_error *error);

wisp_status __wrap_architecture_find(const struct directory *dir,
                                     const struct architecture **architecture, wisp_error *error) {
    static const struct architecture *const others[] = {&architecture_other_encoder,
                                                        &architecture_other_decoder};
    const struct metadata *name = directory_find_metadata(dir, "general.architecture");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (name && name->type == VALUE_STRING &&
            strcmp(name->as.text.bytes, others[i]->name) == 0) {
            *architecture = others[i];
            return WISP_OK;
        }
    return __real_architecture_find(dir, architecture, error);
}
