/* SPDX-License-Identifier: Apache-2.0
 * Adapters of several tasks in one folder, as jina-embeddings-v3 has them: a matrix W of the model
 * becomes W + s L R for the chosen task, with L and R of few columns and rows (Hu et al., LoRA,
 * 2021). Without a chosen task W stays as it is. */
#ifndef WISP_HUGGINGFACE_ADAPTERS_H
#define WISP_HUGGINGFACE_ADAPTERS_H

#include "huggingface/config.h"

/* Replaces "STEM.parametrizations.weight.original" and the tensors of its adapters by
 * "STEM.weight", in floats and changed as dir->adapter says if that names a task. Then the prompt
 * of the task's name becomes the default one, if there is no other. Fails if there is no such task.
 */
wisp_status hf_merge_adapter(struct directory *dir, const struct hf_config *config,
                             wisp_error *error);

#endif
