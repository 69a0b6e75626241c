/* SPDX-License-Identifier: Apache-2.0
 * The files of weights of a folder, under the names that their tensors have there. */
#ifndef WISP_HUGGINGFACE_WEIGHTS_H
#define WISP_HUGGINGFACE_WEIGHTS_H

#include "formats/directory.h"

/* Reads model.safetensors, the shards of an index, PyTorch's checkpoint or an ONNX file: the first
 * that is there. If a folder has both, transformers reads model.safetensors rather than an index,
 * which may be left from an earlier version of the model. */
wisp_status hf_read_weights(struct directory *dir, const char *folder, wisp_error *error);

/* Adds the tensors of folder/name, a safetensors file or, if its name ends with ".bin", a
 * checkpoint of PyTorch. */
wisp_status hf_read_weights_file(struct directory *dir, const char *folder, const char *name,
                                 wisp_error *error);

#endif
