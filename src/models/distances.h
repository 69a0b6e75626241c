/* SPDX-License-Identifier: Apache-2.0
 * The embeddings of distances by which attention is disentangled, and what each layer makes of
 * them. They are the same for all texts, so that a layer's products with them are computed when it
 * is loaded. Source: He et al., DeBERTa (2020), as transformers computes it. */
#ifndef WISP_MODELS_DISTANCES_H
#define WISP_MODELS_DISTANCES_H

#include "attention/disentangled.h"
#include "layers/linear.h"
#include "models/network.h"

/* What layers share. Rows follow the distances of keys from queries: in the file they fall with
 * it. */
struct distances {
    uint32_t *row_of; /* [2 n - 1]: the row of each distance from 1 - n to n - 1 */
    size_t n;         /* tokens of the longest text */
    size_t rows;      /* that such distances have */
    float *rows_of;   /* [rows, hidden_size]: the embeddings, until all layers are loaded */
};

/* Loads the tensors attn_rel_embd.weight [2 span, hidden_size] and, with has_norm, attn_rel_norm
 * for texts of up to n tokens. Rows that no distance has are left out. Adds to
 * network->resident_bytes what stays. The caller releases *distances, also after an error. */
wisp_status distances_load(struct network *network, size_t n, struct distances *distances,
                           wisp_error *error);

/* Makes the rows of layer `layer`, by blk.INDEX.attn_rel_k and attn_rel_q with has_own, else by its
 * layer of queries, keys and values, and adds their bytes. The last layer frees the embeddings. */
wisp_status distances_load_layer(struct network *network, uint32_t layer, const struct linear *qkv,
                                 struct distances *distances, struct disentangled *parts,
                                 wisp_error *error);

void distances_release(struct distances *distances);
void distances_release_layer(struct disentangled *parts);

#endif
