/* SPDX-License-Identifier: Apache-2.0
 * Checkpoints of PyTorch (pytorch_model.bin): a zip archive of a pickle and of storages or, from
 * versions before 1.6, pickles that storages follow. */
#ifndef WISP_HUGGINGFACE_CHECKPOINT_H
#define WISP_HUGGINGFACE_CHECKPOINT_H

#include "formats/directory.h"

/* Adds the tensors of source `index` of `dir` under the names that they have in its dictionary,
 * which must contain only tensors. No code of the file is run (huggingface/pickle.h). Fails if the
 * file is malformed or cut, is compressed, or has big-endian numbers. */
wisp_status checkpoint_read(struct directory *dir, uint32_t index, wisp_error *error);

#endif
