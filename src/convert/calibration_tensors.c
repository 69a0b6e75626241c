/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/calibration_tensors.h"

#include <string.h>

static const char *const suffixes[] = {[TOKENS_SUFFIX + P_WEIGHT] = "ffn_predictor_p.weight",
                                       [TOKENS_SUFFIX + P_BIAS] = "ffn_predictor_p.bias",
                                       [TOKENS_SUFFIX + Q_WEIGHT] = "ffn_predictor_q.weight",
                                       [TOKENS_SUFFIX + Q_BIAS] = "ffn_predictor_q.bias",
                                       [TOKENS_SUFFIX + THRESHOLDS] = "ffn_thresholds",
                                       [TEXTS_SUFFIX + P_WEIGHT] = "ffn_sentence_p.weight",
                                       [TEXTS_SUFFIX + P_BIAS] = "ffn_sentence_p.bias",
                                       [TEXTS_SUFFIX + Q_WEIGHT] = "ffn_sentence_q.weight",
                                       [TEXTS_SUFFIX + Q_BIAS] = "ffn_sentence_q.bias",
                                       [TEXTS_SUFFIX + THRESHOLDS] = "ffn_sentence_thresholds",
                                       [FACTORS] = "ffn_factors",
                                       [CENTER] = "ffn_center",
                                       [FREQUENCY] = "ffn_frequency",
                                       [COMPENSATION_WEIGHT] = "ffn_compensation.weight",
                                       [COMPENSATION_BIAS] = "ffn_compensation.bias"};

const char *calibration_suffix(int index) {
    return (size_t)index < sizeof suffixes / sizeof *suffixes ? suffixes[index] : NULL;
}

bool is_calibration_tensor(const char *name) {
    const char *dot = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;
    const char *suffix = dot ? dot + 1 : name; /* P was of no layer where one served all */
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (strcmp(suffix, suffixes[i]) == 0)
            return true;
    return false;
}

wisp_status strip_calibration(struct directory *dir, wisp_error *error) {
    size_t tensors = 0;
    for (size_t i = 0; i < dir->n_tensors; i++)
        if (!is_calibration_tensor(dir->tensors[i].name))
            dir->tensors[tensors++] = dir->tensors[i];
    dir->n_tensors = tensors;
    directory_drop_metadata(dir, "wisp.sparse.");
    return directory_finish(dir, error);
}
