/* SPDX-License-Identifier: Apache-2.0 */
#include "models/assumptions.h"

#include <string.h>

#include "formats/schema.h"
#include "models/architectures.h"

/* A file that has neither `key` nor `other` is read as if `key` were `value`, if it is of
 * `architecture` (NULL: of any whose models embed). */
struct assumed {
    const char *architecture, *key, *other, *value;
};

static const struct assumed assumed[] = {
    {"bert", KEY_HIDDEN_ACT, NULL, "gelu"},
    {"llama", KEY_HIDDEN_ACT, NULL, "silu"},
    {"bert", "bert.pooling_type", NULL, "1 (mean)"},
    {"nomic-bert", "nomic-bert.pooling_type", NULL, "1 (mean)"},
    {NULL, KEY_NORMALIZE, NULL, "true"},
    {"bert", KEY_MAX_SEQ_LENGTH, NULL, "the value of bert.context_length"},
    {"nomic-bert", KEY_MAX_SEQ_LENGTH, NULL, "the value of nomic-bert.context_length"},
    {NULL, KEY_GGML_LOWERCASE, KEY_TOKENIZER_LOWERCASE, "true"},
    {NULL, KEY_GGML_STRIP_ACCENTS, KEY_TOKENIZER_STRIP_ACCENTS, "the value of lowercase"},
};

bool assumption_get(const struct directory *dir, size_t index, wisp_assumption *assumption) {
    const struct metadata *name = directory_find_metadata(dir, "general.architecture");
    if (!name || name->type != VALUE_STRING)
        return false;
    const struct architecture *architecture;
    const bool generates =
        architecture_find(dir, &architecture, NULL) == WISP_OK && architecture->generates;
    for (size_t i = 0; i < sizeof assumed / sizeof *assumed; i++) {
        const struct assumed *a = &assumed[i];
        if ((a->architecture ? strcmp(name->as.text.bytes, a->architecture) != 0 : generates) ||
            directory_find_metadata(dir, a->key) ||
            (a->other && directory_find_metadata(dir, a->other)))
            continue;
        if (index-- == 0) {
            *assumption = (wisp_assumption){.key = a->key, .value = a->value};
            return true;
        }
    }
    return false;
}
