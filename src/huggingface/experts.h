/* SPDX-License-Identifier: Apache-2.0
 * Layers of experts in Hugging Face folders, of which GGUF files have the matrices of all experts
 * stacked in one tensor. */
#ifndef WISP_HUGGINGFACE_EXPERTS_H
#define WISP_HUGGINGFACE_EXPERTS_H

#include "huggingface/decoder.h"

/* Adds how many experts there are, how many a token uses, and whether their weights are divided by
 * their sum, which is `normalised` if config.json does not say so. */
wisp_status hf_put_experts(struct directory *dir, const struct hf_decoder *decoder,
                           const struct hf_config *config, bool normalised, wisp_error *error);

/* Stacks tensors "STEM.experts.E.REST" of all experts E to "STEM.experts.REST". Fails if one is
 * missing, or differs from the others in type or shape. Sorts the directory again. */
wisp_status hf_stack_experts(struct directory *dir, const char *architecture, wisp_error *error);

/* Makes *tensor, which keeps its name, of `count` matrices of one type and shape, which live as
 * long as the directory. */
wisp_status hf_stack_matrices(struct directory *dir, struct tensor *tensor, struct tensor *matrices,
                              uint64_t count, wisp_error *error);

/* Divides each tensor that ends with `ending` and holds W_gate above W_up for each expert into two
 * that end with names[0] and names[1] in its place. */
wisp_status hf_divide_experts(struct directory *dir, const char *ending, const char *const names[2],
                              wisp_error *error);

#endif
