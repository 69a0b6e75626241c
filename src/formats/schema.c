/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/schema.h"

#include <stdio.h>

const char *layer_tensor_name(char name[TENSOR_NAME_BYTES], size_t layer, const char *part,
                              const char *suffix) {
    snprintf(name, TENSOR_NAME_BYTES, TENSOR_LAYER_PREFIX "%zu.%s%s", layer, part, suffix);
    return name;
}
