/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/tensor_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/schema.h"

const char *hf_after(const char *text, const char *prefix) {
    const size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

bool hf_ends_with(const char *text, const char *ending) {
    const size_t length = strlen(text), end = strlen(ending);
    return length >= end && strcmp(text + length - end, ending) == 0;
}

bool hf_gguf_name(const struct hf_names *names, const char *hf, char gguf[HF_NAME_BYTES]) {
    const char *digits = hf_after(hf, names->layer);
    const size_t length = digits ? strspn(digits, "0123456789") : 0;
    const bool is_layer = length > 0 && length <= 6 && digits[length] == '.';
    const struct hf_name *name = is_layer ? names->layer_names : names->names;
    char prefix[16] = "";
    if (is_layer) {
        snprintf(prefix, sizeof prefix, TENSOR_LAYER_PREFIX "%.*s.", (int)length, digits);
        hf = digits + length + 1;
    }
    const char *suffix = NULL;
    while (name->hf && !(suffix = hf_after(hf, name->hf)))
        name++;
    if (!name->hf)
        return false;
    if (*suffix == '\0') { /* a whole name, as struct hf_name says */
        snprintf(gguf, HF_NAME_BYTES, "%s%s", prefix, name->gguf);
        return true;
    }
    if (strcmp(suffix, "gamma") == 0) /* checkpoints from TensorFlow name norms so */
        suffix = "weight";
    if (strcmp(suffix, "beta") == 0)
        suffix = "bias";
    const bool is_bias = strcmp(suffix, "bias") == 0;
    if ((!is_bias && strcmp(suffix, "weight") != 0) || (is_bias && name->unbiased))
        return false;
    snprintf(gguf, HF_NAME_BYTES, "%s%s%s", prefix, name->gguf, suffix);
    return true;
}

bool hf_is_beyond_layers(const struct directory *dir, const struct hf_names *names,
                         const char *architecture, const char *name) {
    const char *digits = hf_after(name, names->layer);
    const size_t length = digits ? strspn(digits, "0123456789") : 0;
    if (length == 0 || length > 6)
        return false;
    for (size_t i = 0; i < dir->n_metadata; i++) {
        const char *key = hf_after(dir->metadata[i].key, architecture);
        if (key && strcmp(key, ".block_count") == 0)
            return strtoul(digits, NULL, 10) >= dir->metadata[i].as.u;
    }
    return false;
}
