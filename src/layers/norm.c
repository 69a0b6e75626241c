/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/norm.h"

#include <stdio.h>

#include "base/memory.h"

enum { NAME_BYTES = 128 };

wisp_status norm_load(struct norm *norm, const struct directory *dir, const char *name, size_t size,
                      wisp_error *error) {
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "%s.weight", name);
    TRY(directory_load_floats(dir, full, 1, size, &norm->weight, error));
    snprintf(full, sizeof full, "%s.bias", name);
    return directory_load_floats(dir, full, 1, size, &norm->bias, error);
}

void norm_release(struct norm *norm) {
    memory_free(norm->weight);
    memory_free(norm->bias);
    *norm = (struct norm){0};
}
