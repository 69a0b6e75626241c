/* SPDX-License-Identifier: Apache-2.0
 * A trie of pieces finds all pieces that a text begins with. */
#ifndef WISP_TOKENIZERS_PIECE_TRIE_H
#define WISP_TOKENIZERS_PIECE_TRIE_H

#include "base/arena.h"

/* The children of a node are one after the other, in the order of their bytes. */
struct piece_node {
    uint32_t first; /* child */
    uint16_t children;
    uint8_t byte; /* by which its parent leads to it */
    int32_t id;   /* of the piece that ends here, or -1 */
};

struct piece_trie {
    const struct piece_node *nodes; /* the root first */
};

/* Builds the trie in `arena` from texts [count], none of which is empty and of which there is at
 * least one; ids[i] is the id of texts[i]. If two pieces are equal it returns WISP_ERROR_FORMAT
 * without a message, and sets *twin to the id of one of them. */
wisp_status piece_trie_build(struct piece_trie *trie, struct arena *arena, const wisp_text *texts,
                             const int32_t *ids, size_t count, int32_t *twin, wisp_error *error);

/* Returns the child of a node by a byte, or NULL if it has none. */
const struct piece_node *piece_trie_step(const struct piece_trie *trie,
                                         const struct piece_node *node, unsigned char byte);

#endif
