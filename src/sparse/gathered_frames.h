/* SPDX-License-Identifier: Apache-2.0
 * The neurons of gathered layers (gathered.h) in limited memory. The file has neurons as rows
 * (formats/neurons.h): a row is read when a token computes the neuron. Those that were used most
 * lately are kept in frames, of which each layer has equally many; the others pass: they stay until
 * the tokens at the layer have been computed. Results have the same bits as with all neurons in
 * memory. Native only.
 *
 * A neuron's uses are counted, and a use counts half after 128 tokens. One that was read takes the
 * frame of another if it is among those that the frames of the layer suffice for, and the other is
 * not. A token uses all layers in turn, so the neuron that was used longest ago would be the wrong
 * one to go. */
#ifndef WISP_SPARSE_GATHERED_FRAMES_H
#define WISP_SPARSE_GATHERED_FRAMES_H

#include "formats/neurons.h"
#include "sparse/gathered.h"

/* What the layers of a network share: the memory of neurons that pass, which serves one layer at a
 * time. */
struct gathered_pool;

/* Totals of all layers since the network was opened. */
struct gathered_counts {
    uint64_t needed;     /* neurons that tokens computed */
    uint64_t read;       /* of which so many were absent and had to be read, */
    uint64_t read_bytes; /* so many bytes of the file */
};

/* Makes a layer that gathered_load has loaded read its neurons, which frees them. Opens *pool if it
 * is NULL; the caller closes it after all layers, also after an error. `cache` serves the layer's
 * matrices. Fails if the file does not have the layer's neurons as rows. */
wisp_status gathered_frames_open(struct gathered_ffn *ffn, struct gathered_pool **pool,
                                 const struct directory *dir, size_t layer,
                                 struct tensor_cache *cache, wisp_error *error);

void gathered_frames_close(struct gathered_frames *frames);
void gathered_pool_close(struct gathered_pool *pool);

/* Returns the bytes of what passes, and of a layer in the file, which prompts read as a whole. */
size_t gathered_pool_bytes(const struct gathered_pool *pool);

struct gathered_counts gathered_pool_counts(struct gathered_pool *pool);

/* Gives a layer, which has none yet, frames in `bytes` of memory, or for all of its neurons if
 * these take less; adds them to ffn->bytes. */
wisp_status gathered_frames_keep(struct gathered_ffn *ffn, uint64_t bytes, wisp_error *error);

/* Begin and end what one pass does with a layer. In between no other pass does something with any
 * layer of the network. All that is read passes until the end, which then keeps what is used most.
 */
void gathered_frames_begin(const struct gathered_ffn *ffn);
void gathered_frames_end(const struct gathered_ffn *ffn);

/* Returns the first error of ffn->products->rows, which reads neurons that are absent, since
 * gathered_frames_begin. Threads may call that at a time for different neurons; this follows when
 * all have. */
wisp_status gathered_frames_status(const struct gathered_ffn *ffn, wisp_error *error);

/* Returns the working memory of ffn->products->rows. */
size_t gathered_frames_workspace_bytes(size_t hidden_size, size_t intermediate_size);

#endif
