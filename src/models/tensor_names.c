/* SPDX-License-Identifier: Apache-2.0 */
#include "models/tensor_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/product.h"
#include "formats/schema.h"
#include "models/dense_modules.h"
#include "models/splade.h"

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

static bool is_known(const char *name, const struct architecture *architecture,
                     const struct model_config *config) {
    static const char *const own[] = {TENSOR_PREDICTOR_P, NULL};
    static const char *const own_of_layer[] = {
        TENSOR_PREDICTOR_P,  TENSOR_PREDICTOR_Q,     TENSOR_THRESHOLDS,
        TENSOR_SENTENCE_P,   TENSOR_SENTENCE_Q,      TENSOR_SENTENCE_THRESHOLDS,
        TENSOR_FACTORS,      TENSOR_CENTER,          TENSOR_FREQUENCY,
        TENSOR_COMPENSATION, TENSOR_NEURONS_HOT,     TENSOR_NEURONS_COLD,
        TENSOR_DOWN_SCALES,  TENSOR_DOWN_ROW_SCALES, TENSOR_DOWN_BASE,
        TENSOR_GATE_WEIGHTS, TENSOR_GATE_LEVELS,     NULL};
    const char *part = part_of_layer(name, config->layers);
    if (part)
        return is_among(part, architecture->layer_tensors) || is_among(part, own_of_layer);
    if (config_embeds(config) && is_among(name, dense_module_names(config)))
        return true;
    if (CLASSIFIES && config->pooling == POOLING_RANK && is_name(name, TENSOR_HEAD_NORM))
        return true;
    if (RANKS && config->pooling == POOLING_SPLADE && is_among(name, splade_names))
        return true;
    return is_among(name, architecture->tensors) || is_among(name, own);
}

wisp_status tensor_names_check(const struct directory *dir, const struct architecture *architecture,
                               const struct model_config *config, wisp_error *error) {
    for (size_t i = 0; i < dir->n_tensors; i++) {
        const char *name = dir->tensors[i].name;
        const char *others = READS_CLIP ? architecture->others : NULL;
        if (is_known(name, architecture, config) ||
            (others && strncmp(name, others, strlen(others)) == 0))
            continue;
        if (strncmp(name, "cls.", 4) == 0)
            return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, name,
                        "the head of a classifier or reranker in a file whose pooling_type is not "
                        "4 (rank)");
        if (strncmp(name, "dense_", 6) == 0)
            return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, name,
                        "a dense layer after pooling, of which only two are supported, in models "
                        "that embed");
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, name,
                    "a tensor that models of architecture %s with %u layers do not have",
                    architecture->name, config->layers);
    }
    return WISP_OK;
}
