/* SPDX-License-Identifier: Apache-2.0
 * Converts between the values of the enumerations in wisp.h and their names. */
#include <string.h>

#include "device/device.h"
#include "wisp.h"

const char *wisp_compute_name(size_t compute) {
    static const char *const names[] = {
        [WISP_COMPUTE_AUTO] = "auto",
        [WISP_COMPUTE_F32] = "f32",
        [WISP_COMPUTE_INT8] = "int8",
#ifndef __wasm__ /* whose engines have no instructions for it */
        [WISP_COMPUTE_BF16] = "bf16",
#endif
    };
    return compute < sizeof names / sizeof *names ? names[compute] : NULL;
}

const char *wisp_predictor_name(size_t predictor) {
    static const char *const names[] = {
        [WISP_PREDICTOR_AUTO] = "auto",         [WISP_PREDICTOR_DENSE] = "dense",
        [WISP_PREDICTOR_EXACT] = "exact",       [WISP_PREDICTOR_LOWRANK] = "lowrank",
        [WISP_PREDICTOR_SENTENCE] = "sentence", [WISP_PREDICTOR_GATE] = "gate",
        [WISP_PREDICTOR_TOPK] = "topk"};
    return predictor < sizeof names / sizeof *names ? names[predictor] : NULL;
}

const char *wisp_device_name(size_t device) {
    for (size_t i = 0; device_names[i]; i++)
        if (i == device)
            return device_names[i];
    return NULL;
}

const char *wisp_cache_type_name(size_t cache_type) {
    static const char *const names[] = {
        [WISP_CACHE_AUTO] = "auto",
        [WISP_CACHE_F16] = "f16",
        [WISP_CACHE_INT8] = "int8",
        [WISP_CACHE_F32] = "f32",
    };
    return cache_type < sizeof names / sizeof *names ? names[cache_type] : NULL;
}

/* Returns the index of `name`, or -1 if no value has it or it is NULL. */
static int find(const char *(*name_of)(size_t index), const char *name) {
    const char *candidate;
    if (!name)
        return -1;
    for (int i = 0; (candidate = name_of((size_t)i)); i++)
        if (strcmp(candidate, name) == 0)
            return i;
    return -1;
}

bool wisp_compute_find(const char *name, wisp_compute *compute) {
    const int found = find(wisp_compute_name, name);
    if (found >= 0)
        *compute = (wisp_compute)found;
    return found >= 0;
}

bool wisp_predictor_find(const char *name, wisp_predictor *predictor) {
    const int found = find(wisp_predictor_name, name);
    if (found >= 0)
        *predictor = (wisp_predictor)found;
    return found >= 0;
}

bool wisp_cache_type_find(const char *name, wisp_cache_type *cache_type) {
    const int found = find(wisp_cache_type_name, name);
    if (found >= 0)
        *cache_type = (wisp_cache_type)found;
    return found >= 0;
}

bool wisp_role_find(const char *name, wisp_role *role) {
    const int found = find(wisp_role_name, name);
    if (found >= 0)
        *role = (wisp_role)found; /* NOLINT(*EnumCastOutOfRange): each name is a value's */
    return found >= 0;
}

const char *wisp_end_name(size_t end) {
    static const char *const names[] = {
        [WISP_END_TOKEN] = "token",   [WISP_END_STOP] = "stop",
        [WISP_END_LENGTH] = "length", [WISP_END_CONTEXT] = "context",
        [WISP_END_CALLER] = "caller", [WISP_END_GRAMMAR] = "grammar"};
    return end < sizeof names / sizeof *names ? names[end] : NULL;
}
