/* SPDX-License-Identifier: Apache-2.0 */
#include "models/architectures.h"

#include <stdio.h>
#include <string.h>

#include "models/bert.h"
#include "models/gemma.h"
#include "models/gpt2.h"
#include "models/lfm2.h"
#include "models/llama.h"

static const struct architecture *const architectures[] = {
    &architecture_bert,   &architecture_nomic_bert,
#ifndef WISP_EMBED_ONLY
    &architecture_llama,  &architecture_qwen2,      &architecture_qwen3, &architecture_gpt2,
    &architecture_gemma2, &architecture_gemma3,     &architecture_lfm2,
#endif
};

enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

wisp_status architecture_find(const struct directory *dir, const struct architecture **architecture,
                              wisp_error *error) {
    static const char key[] = "general.architecture";
    const char *name = NULL;
    char known[256] = "";
    TRY(metadata_text(dir, key, &name, error));
    for (size_t i = 0; i < ARCHITECTURES; i++)
        if (strcmp(name, architectures[i]->name) == 0) {
            *architecture = architectures[i];
            return WISP_OK;
        }
    for (size_t i = 0, used = 0; i < ARCHITECTURES && used < sizeof known; i++) {
        const char *before = i == 0 ? "" : i + 1 < ARCHITECTURES ? ", " : " and ";
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", before,
                                 architectures[i]->name);
    }
    return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, key,
                "models of architecture %.64s are not supported, only %s", name, known);
}
