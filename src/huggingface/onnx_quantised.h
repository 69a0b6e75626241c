/* SPDX-License-Identifier: Apache-2.0
 * Quantised weights of ONNX files, which become the floats that they stand for when rows are read.
 * Source: the descriptions of onnxruntime's dynamic quantisation and of its operator MatMulNBits.
 */
#ifndef WISP_HUGGINGFACE_ONNX_QUANTISED_H
#define WISP_HUGGINGFACE_ONNX_QUANTISED_H

#include "huggingface/onnx_graph.h"

/* The operator whose second input is a matrix of 4-bit numbers. */
extern const char onnx_product_of_nibbles[];

/* Makes floats of a tensor of bytes, which `value` is and whose scales and zero points are named
 * after it: one for all, or one for each output. With `transposed` it is stored as [inputs,
 * outputs], and becomes [outputs, inputs]. */
wisp_status onnx_dequantise_bytes(struct directory *dir, const struct onnx_graph *graph,
                                  const struct onnx_value *value, bool transposed,
                                  struct tensor *tensor, wisp_error *error);

/* Makes floats of the matrix `value` of a node that multiplies by 4-bit numbers: rows of blocks,
 * each with a scale and perhaps a zero point, which is 8 otherwise. */
wisp_status onnx_dequantise_nibbles(struct directory *dir, const struct onnx_graph *graph,
                                    const struct onnx_node *node, const struct onnx_value *value,
                                    struct tensor *tensor, wisp_error *error);

#endif
