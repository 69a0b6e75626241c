/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/calibration_tensors.h"

#include <string.h>

#include "formats/schema.h"

bool is_calibration_tensor(const char *name) {
    static const char *const parts[] = {
        TENSOR_PREDICTOR_P, TENSOR_PREDICTOR_Q,         TENSOR_THRESHOLDS,   TENSOR_SENTENCE_P,
        TENSOR_SENTENCE_Q,  TENSOR_SENTENCE_THRESHOLDS, TENSOR_FACTORS,      TENSOR_CENTER,
        TENSOR_FREQUENCY,   TENSOR_COMPENSATION,        TENSOR_GATE_WEIGHTS, TENSOR_GATE_LEVELS};
    const size_t prefix = strlen(TENSOR_LAYER_PREFIX);
    const char *dot =
        strncmp(name, TENSOR_LAYER_PREFIX, prefix) == 0 ? strchr(name + prefix, '.') : NULL;
    const char *part =
        dot ? dot + 1 : name; /* the one P of earlier versions has no layer in its name */
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const size_t length = strlen(parts[i]);
        const char *suffix = part + length;
        if (strncmp(part, parts[i], length) == 0 &&
            (!*suffix || strcmp(suffix, TENSOR_WEIGHT) == 0 || strcmp(suffix, TENSOR_BIAS) == 0))
            return true;
    }
    return false;
}

wisp_status strip_calibration(struct directory *dir, bool keep_token_order, wisp_error *error) {
    size_t tensors = 0;
    for (size_t i = 0; i < dir->n_tensors; i++)
        if (!is_calibration_tensor(dir->tensors[i].name))
            dir->tensors[tensors++] = dir->tensors[i];
    dir->n_tensors = tensors;
    directory_drop_metadata(dir, KEY_SPARSE_PREFIX);
    directory_drop_metadata(dir, KEY_GATE_PREFIX);
    if (!keep_token_order)
        directory_drop_metadata(dir, KEY_TOKENS_PREFIX);
    return directory_finish(dir, error);
}
