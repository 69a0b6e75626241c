/* SPDX-License-Identifier: Apache-2.0
 * The embeddings of positions, for architectures that have some. */
#ifndef WISP_MODELS_POSITIONS_H
#define WISP_MODELS_POSITIONS_H

#include "models/network.h"

/* Loads the embeddings of the first n positions of the tensor position_embd.weight [max_positions,
 * hidden_size] to network->positions, and adds their bytes. If the file has token_types.weight, the
 * embedding of token type 0, which every token has, is added to each of them once. Fails if a
 * tensor is missing, has another shape or cannot be read. */
wisp_status positions_load(struct network *network, size_t n, wisp_error *error);

/* Reads network->positions->rows again after they were freed, and adds nothing to the network. */
wisp_status positions_read(const struct network *network, wisp_error *error);

void positions_release(struct network *network);

#endif
