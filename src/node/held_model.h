/* SPDX-License-Identifier: Apache-2.0
 * A model that several engines of one JavaScript environment share. All functions but the reading
 * of its bytes are called on that environment's thread. */
#ifndef WISP_NODE_HELD_MODEL_H
#define WISP_NODE_HELD_MODEL_H

#include <node_api.h>
#include <stdatomic.h>

#include "binding/engine.h"

struct held_model {
    wisp_model *model; /* NULL until it is open */
    size_t users;
    napi_env env;
    napi_ref array; /* keeps `bytes`; NULL where there is a file */
    const uint8_t *bytes;
    int file; /* its descriptor */
    uint64_t size;
    atomic_bool given_up; /* makes opening it fail */
};

/* Holds a model that is not open yet, for one user: a Uint8Array, or the descriptor of a file of
 * `size` bytes, of which it keeps a duplicate. Windows has no such descriptors. Returns NULL, with
 * an exception pending, where the value is none of these. */
struct held_model *held_model_new(napi_env env, napi_value model, napi_value size);

/* Opens the model by the options of `engine`, on any thread. The engine's error says why it
 * failed. */
wisp_status held_model_open(struct held_model *held, struct engine *engine);

/* Says that one user does not need the model any more. The last one closes it. */
void held_model_release(struct held_model *held);

#endif
