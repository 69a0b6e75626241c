/* SPDX-License-Identifier: Apache-2.0 */
#include "node/held_model.h"

#include <stdlib.h>

struct held_model *held_model_new(napi_env env, napi_value array) {
    napi_typedarray_type type = napi_int8_array;
    void *bytes = NULL;
    size_t size = 0;
    if (napi_get_typedarray_info(env, array, &type, &size, &bytes, NULL, NULL) != napi_ok ||
        type != napi_uint8_array) {
        napi_throw_type_error(env, NULL, "a model is a Uint8Array");
        return NULL;
    }
    struct held_model *held = calloc(1, sizeof *held);
    if (!held || napi_create_reference(env, array, 1, &held->array) != napi_ok) {
        napi_throw_error(env, NULL, "out of memory");
        free(held);
        return NULL;
    }
    held->users = 1;
    held->env = env;
    held->bytes = bytes;
    held->size = size;
    return held;
}

static int read_bytes(void *context, uint64_t offset, void *buffer, size_t length) {
    struct held_model *held = context;
    if (atomic_load(&held->given_up))
        return 1;
    memcpy(buffer, held->bytes + offset, length);
    return 0;
}

wisp_status held_model_open(struct held_model *held, struct engine *engine) {
    const wisp_source source = {
        .size = held->size, .read = read_bytes, .context = held, .name = "model", .lasting = true};
    const wisp_status status = engine_open_model(engine, &source);
    if (status != WISP_OK && atomic_load(&held->given_up))
        return fail(&engine->error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    held->model = engine->model;
    engine->model = NULL;
    return status;
}

void held_model_release(struct held_model *held) {
    if (!held || --held->users > 0)
        return;
    wisp_model_close(held->model);
    napi_delete_reference(held->env, held->array);
    free(held);
}
