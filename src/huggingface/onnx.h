/* SPDX-License-Identifier: Apache-2.0
 * ONNX files as optimum and transformers.js publish them, of which the weights are read. */
#ifndef WISP_HUGGINGFACE_ONNX_H
#define WISP_HUGGINGFACE_ONNX_H

#include "formats/directory.h"

/* Adds the weights of source `index` of `dir`, whose other files are in `folder`, under the names
 * that PyTorch has for them. A matrix that has no name has that of its node's place in the model,
 * or of the bias that is added to its product. Weights that onnxruntime has quantised to bytes
 * become the floats that they stand for. Fails if a file is malformed or cut, and if an optimiser
 * has fused operators, so that weights are not where they were. */
wisp_status onnx_read(struct directory *dir, const char *folder, uint32_t index, wisp_error *error);

#endif
