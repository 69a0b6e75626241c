/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/embedders.h"

int embedders_open(struct embedders *embedders, const struct model_arguments *arguments) {
    struct model_arguments dense = *arguments;
    dense.compute = WISP_COMPUTE_F32;
    dense.predictor = WISP_PREDICTOR_DENSE;
    dense.sparsity = 0;
    const struct model_arguments *const of[MODELS] = {[TESTED] = arguments, [REFERENCE] = &dense};
    for (size_t i = 0; i < MODELS; i++) {
        const int code = open_model(of[i], &embedders->of[i].model, &embedders->of[i].session);
        if (code != EXIT_GOOD)
            return code;
    }
    embedders->dimensions = wisp_model_dimensions(embedders->of[TESTED].model);
    return EXIT_GOOD;
}

void embedders_close(struct embedders *embedders) {
    for (size_t i = 0; i < MODELS; i++) {
        wisp_session_close(embedders->of[i].session);
        wisp_model_close(embedders->of[i].model);
    }
}
