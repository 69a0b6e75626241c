/* SPDX-License-Identifier: Apache-2.0 */
#include "node/held_model.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#ifndef _WIN32
#include "host/read_at.h"
#endif

/* Reads the number of a property. Returns false if it is not a number from 0 to `most`. */
static bool number_of(napi_env env, napi_value object, const char *name, double most,
                      double *number) {
    napi_value value;
    return napi_get_named_property(env, object, name, &value) == napi_ok &&
           napi_get_value_double(env, value, number) == napi_ok && *number >= 0 && *number <= most;
}

struct held_model *held_model_new(napi_env env, napi_value value) {
    napi_typedarray_type type = napi_int8_array;
    bool is_array = false;
    void *bytes = NULL;
    size_t length = 0;
    double descriptor = -1, size = 0;
    napi_is_typedarray(env, value, &is_array);
    if (is_array &&
        napi_get_typedarray_info(env, value, &type, &length, &bytes, NULL, NULL) == napi_ok &&
        type == napi_uint8_array) {
        size = (double)length;
    } else if (is_array || !number_of(env, value, "descriptor", INT_MAX, &descriptor) ||
               !number_of(env, value, "size", 0x1p53, &size)) {
        napi_throw_type_error(env, NULL, "a model is a Uint8Array or a file");
        return NULL;
    }
    struct held_model *held = calloc(1, sizeof *held);
    if (!held || napi_create_reference(env, value, 1, &held->value) != napi_ok) {
        napi_throw_error(env, NULL, "out of memory");
        free(held);
        return NULL;
    }
    held->users = 1;
    held->env = env;
    held->bytes = bytes;
    held->descriptor = (int)descriptor;
    held->size = (uint64_t)size;
    return held;
}

static int read_bytes(void *context, uint64_t offset, void *buffer, size_t length) {
    struct held_model *held = context;
    if (atomic_load(&held->given_up))
        return 1;
    memcpy(buffer, held->bytes + offset, length);
    return 0;
}

static int read_file(void *context, uint64_t offset, void *buffer, size_t length) {
    struct held_model *held = context;
    if (atomic_load(&held->given_up))
        return 1;
#ifdef _WIN32
    (void)offset, (void)buffer;
    return length > 0; /* js/files/model-file-node.js opens no files there: pread is missing */
#else
    return read_at(held->descriptor, offset, buffer, length);
#endif
}

wisp_status held_model_open(struct held_model *held, struct engine *engine) {
    const bool is_file = held->descriptor >= 0;
    const wisp_source source = {.size = held->size,
                                .read = is_file ? read_file : read_bytes,
                                .context = held,
                                .name = "model",
                                .lasting = true,
                                .may_change = is_file};
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
    napi_delete_reference(held->env, held->value);
    free(held);
}
