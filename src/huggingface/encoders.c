/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/encoders.h"

#include <stdio.h>
#include <string.h>

static const struct hf_encoder *const encoders[] = {
    &hf_bert,
    &hf_nomic_bert,
};

wisp_status hf_encoder_find(const struct hf_config *config, const struct hf_encoder **encoder,
                            wisp_error *error) {
    const size_t n = sizeof encoders / sizeof *encoders;
    const struct json *type = json_get(config->root, "model_type");
    char known[256] = "";
    for (size_t i = 0; i < n; i++) {
        const size_t used = strlen(known);
        const char *before = i == 0 ? "" : i + 1 == n ? " and " : ", ";
        if (json_equals(type, encoders[i]->type)) {
            *encoder = encoders[i];
            return WISP_OK;
        }
        snprintf(known + used, sizeof known - used, "%s%s", before, encoders[i]->type);
    }
    return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "model_type",
                "models of type %.64s are not supported, only %s",
                json_is(type, JSON_STRING) ? type->text : "(none)", known);
}
