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
    napi_ref value; /* keeps `bytes`, or keeps the file open */
    const uint8_t *bytes;
    int descriptor; /* of the file; -1 if there are bytes instead */
    uint64_t size;
    atomic_bool given_up; /* makes opening it fail */
};

/* Holds a model that is not open yet, for one user. `value` is a Uint8Array, or an object with the
 * numbers `descriptor` and `size` of a file; whoever made the object closes the file only when no
 * JavaScript has the object any more, and the held model keeps it. Returns NULL, with an exception
 * pending, if the value is neither. */
struct held_model *held_model_new(napi_env env, napi_value value);

/* Opens the model by the options of `engine`, on any thread. The engine's error says why it
 * failed. */
wisp_status held_model_open(struct held_model *held, struct engine *engine);

/* Ends the use of the model by one user. The model is closed with the last one. */
void held_model_release(struct held_model *held);

#endif
