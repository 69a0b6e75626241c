/* SPDX-License-Identifier: Apache-2.0 */
#include "models/stages.h"

const char *wisp_stage_name(size_t stage) {
    static const char *const names[STAGES] = {[STAGE_TOKENIZE] = "tokenize",
                                              [STAGE_LOOK_UP] = "look_up",
                                              [STAGE_QKV] = "qkv",
                                              [STAGE_ATTENTION] = "attention",
                                              [STAGE_ATTENTION_OUTPUT] = "attention_output",
                                              [STAGE_FFN_UP] = "ffn_up",
                                              [STAGE_ACTIVATION] = "activation",
                                              [STAGE_FFN_DOWN] = "ffn_down",
                                              [STAGE_FFN_SPARSE] = "ffn_sparse",
                                              [STAGE_NORM] = "norm",
                                              [STAGE_POOL] = "pool",
                                              [STAGE_LOGITS] = "logits",
                                              [STAGE_WAIT] = "wait"};
    return stage < STAGES ? names[stage] : NULL;
}
