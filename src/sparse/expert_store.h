/* SPDX-License-Identifier: Apache-2.0
 * The experts of all layers of a network. Each is a layer y = W_down (f(W_gate x) * W_up x) of
 * few neurons, or one without gates, y = W_down f(W_up x). All are in memory, or as many as a limit
 * allows: then the others are in the file, and one is read when a pass holds it. An expert that
 * nobody holds makes room for it, the least recently used one: a token needs experts of all layers
 * in turn, so that the one which was used longest ago is often the one that is needed next. A model
 * has one store, for all passes. */
#ifndef WISP_SPARSE_EXPERT_STORE_H
#define WISP_SPARSE_EXPERT_STORE_H

#include "layers/linear.h"

struct expert {
    struct linear gate, up; /* [size, hidden_size]; gate is empty without gates */
    struct linear down;     /* [hidden_size, size] */
};

struct expert_shape {
    uint32_t layers, count, used; /* experts of a layer, and those that a token uses */
    size_t hidden_size, size;
    wisp_compute compute;
    bool gated;
    bool biased; /* each matrix has a bias */
};

/* Totals since the store was opened. */
struct expert_counts {
    uint64_t held;       /* experts that passes held */
    uint64_t read;       /* of which so many had to be read, */
    uint64_t read_bytes; /* so many bytes of the file */
};

struct expert_store;

/* Opens a store that is empty. `limited` says that experts are read when they are needed. The
 * caller closes it, also after an error. */
wisp_status expert_store_open(struct expert_store **store, const struct directory *dir,
                              const struct kernels *kernels, const struct expert_shape *shape,
                              bool limited, wisp_error *error);

void expert_store_close(struct expert_store *store);

/* Reads the experts of a layer, or with a limit one of them, which is released again. Returns the
 * bytes that all of them take. Fails as linear_load does. */
wisp_status expert_store_load(struct expert_store *store, uint32_t layer, uint64_t *bytes,
                              wisp_error *error);

/* Returns an expert of the layer, by which its weights' kind and panels are known. */
const struct expert *expert_store_pattern(const struct expert_store *store, uint32_t layer);

/* Returns an expert that is held, perhaps by another thread of the team, or that is always in
 * memory. */
const struct expert *expert_store_at(const struct expert_store *store, uint32_t layer,
                                     uint32_t index);

/* Returns the bytes of all experts; those that are in memory; and those that always may be, with
 * any limit: a token's experts of a layer. */
uint64_t expert_store_bytes(const struct expert_store *store);
uint64_t expert_store_resident(struct expert_store *store);
uint64_t expert_store_least(const struct expert_store *store);

/* Sets the limit, of at least expert_store_least bytes, of a store that was opened `limited`.
 * Experts that are held may exceed it. */
void expert_store_limit(struct expert_store *store, uint64_t bytes);

bool expert_store_is_limited(const struct expert_store *store);

/* Holds an expert, which stays in memory until expert_store_let_go, and reads it if it is absent.
 * Threads may call both. Fails if it cannot be read or differs from what was read before. */
wisp_status expert_store_hold(struct expert_store *store, uint32_t layer, uint32_t index,
                              const struct expert **expert, wisp_error *error);
void expert_store_let_go(struct expert_store *store, uint32_t layer, uint32_t index);

struct expert_counts expert_store_counts(struct expert_store *store);

#endif
