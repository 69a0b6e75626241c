/* SPDX-License-Identifier: Apache-2.0 */
#include "models/tensor_names.h"

#include <stdlib.h>
#include <string.h>

#include "formats/schema.h"

/* Returns whether `name` is `known`, or the weight or bias of a linear layer or norm of that
 * name. */
static bool is_name(const char *name, const char *known) {
    const size_t length = strlen(known);
    const char *rest = name + length;
    return strncmp(name, known, length) == 0 &&
           (*rest == '\0' || strcmp(rest, TENSOR_WEIGHT) == 0 || strcmp(rest, TENSOR_BIAS) == 0);
}

static bool is_among(const char *name, const char *const *known) {
    while (*known && !is_name(name, *known))
        known++;
    return *known != NULL;
}

/* Returns the rest of a name after "blk.<layer>.", for a layer below `layers`; else NULL. */
static const char *part_of_layer(const char *name, uint32_t layers) {
    const size_t prefix = strlen(TENSOR_LAYER_PREFIX);
    if (strncmp(name, TENSOR_LAYER_PREFIX, prefix) != 0)
        return NULL;
    const char *digits = name + prefix;
    const size_t length = strspn(digits, "0123456789");
    const bool canonical = length == 1 || (length > 1 && length <= 6 && *digits != '0');
    if (!canonical || digits[length] != '.' || strtoul(digits, NULL, 10) >= layers)
        return NULL;
    return digits + length + 1;
}

static bool is_known(const char *name, const struct architecture *architecture, uint32_t layers) {
    static const char *const own[] = {TENSOR_PREDICTOR_P, NULL};
    static const char *const own_of_layer[] = {
        TENSOR_PREDICTOR_P, TENSOR_PREDICTOR_Q,         TENSOR_THRESHOLDS,  TENSOR_SENTENCE_P,
        TENSOR_SENTENCE_Q,  TENSOR_SENTENCE_THRESHOLDS, TENSOR_FACTORS,     TENSOR_CENTER,
        TENSOR_FREQUENCY,   TENSOR_COMPENSATION,        TENSOR_NEURONS_HOT, TENSOR_NEURONS_COLD,
        TENSOR_DOWN_SCALES, TENSOR_DOWN_ROW_SCALES,     TENSOR_DOWN_BASE,   NULL};
    const char *part = part_of_layer(name, layers);
    if (part)
        return is_among(part, architecture->layer_tensors) || is_among(part, own_of_layer);
    return is_among(name, architecture->tensors) || is_among(name, own);
}

wisp_status tensor_names_check(const struct directory *dir, const struct architecture *architecture,
                               uint32_t layers, wisp_error *error) {
    for (size_t i = 0; i < dir->n_tensors; i++) {
        const char *name = dir->tensors[i].name;
        if (is_known(name, architecture, layers))
            continue;
        if (strncmp(name, "cls.", 4) == 0)
            return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, name,
                        "the head of a classifier or reranker, which is not supported: its scores "
                        "are no embeddings");
        if (strncmp(name, "dense_", 6) == 0)
            return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, name,
                        "a dense layer after pooling, which is not supported");
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, name,
                    "a tensor that models of architecture %s with %u layers do not have",
                    architecture->name, layers);
    }
    return WISP_OK;
}
