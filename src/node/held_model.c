/* SPDX-License-Identifier: Apache-2.0 */
#include "node/held_model.h"

#include <stdlib.h>
#include <string.h>

#ifndef _WIN32
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#endif

/* Makes `held` have the bytes of a Uint8Array. Returns false where the value is none. */
static bool hold_array(napi_env env, napi_value array, struct held_model *held) {
    napi_typedarray_type type = napi_int8_array;
    void *bytes = NULL;
    size_t size = 0;
    if (napi_get_typedarray_info(env, array, &type, &size, &bytes, NULL, NULL) != napi_ok ||
        type != napi_uint8_array || napi_create_reference(env, array, 1, &held->array) != napi_ok)
        return false;
    held->bytes = bytes;
    held->size = size;
    return true;
}

/* Makes `held` have a file. Returns false where it cannot. */
static bool hold_file(napi_env env, napi_value descriptor, napi_value size,
                      struct held_model *held) {
#ifdef _WIN32
    (void)env, (void)descriptor, (void)size, (void)held;
    return false;
#else
    int32_t file = -1;
    int64_t bytes = -1;
    if (napi_get_value_int32(env, descriptor, &file) != napi_ok ||
        napi_get_value_int64(env, size, &bytes) != napi_ok || bytes < 0)
        return false;
    held->file = fcntl(file, F_DUPFD_CLOEXEC, 0);
    held->size = (uint64_t)bytes;
    return held->file >= 0;
#endif
}

struct held_model *held_model_new(napi_env env, napi_value model, napi_value size) {
    napi_valuetype type;
    struct held_model *held = calloc(1, sizeof *held);
    if (!held) {
        napi_throw_error(env, NULL, "out of memory");
        return NULL;
    }
    held->users = 1;
    held->env = env;
    const bool is_file = napi_typeof(env, model, &type) == napi_ok && type == napi_number;
    if (is_file ? hold_file(env, model, size, held) : hold_array(env, model, held))
        return held;
    napi_throw_type_error(env, NULL, "a model is a Uint8Array, or a descriptor and a size");
    free(held);
    return NULL;
}

static int read_bytes(void *context, uint64_t offset, void *buffer, size_t length) {
    struct held_model *held = context;
    if (atomic_load(&held->given_up))
        return 1;
    memcpy(buffer, held->bytes + offset, length);
    return 0;
}

#ifndef _WIN32
static int read_file(void *context, uint64_t offset, void *buffer, size_t length) {
    struct held_model *held = context;
    char *to = buffer;
    while (length > 0) {
        const ssize_t n = pread(held->file, to, length, (off_t)offset);
        if (n == 0)
            return WISP_SOURCE_CHANGED;
        if (atomic_load(&held->given_up) || (n < 0 && errno != EINTR))
            return 1;
        if (n < 0)
            continue;
        to += n;
        offset += (uint64_t)n;
        length -= (size_t)n;
    }
    return 0;
}
#endif

wisp_status held_model_open(struct held_model *held, struct engine *engine) {
    wisp_source source = {
        .size = held->size, .read = read_bytes, .context = held, .name = "model", .lasting = true};
#ifndef _WIN32
    if (!held->array) {
        source.read = read_file;
        source.may_change = true;
    }
#endif
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
    if (held->array)
        napi_delete_reference(held->env, held->array);
#ifndef _WIN32
    else
        close(held->file);
#endif
    free(held);
}
