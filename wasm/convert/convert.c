/* SPDX-License-Identifier: Apache-2.0
 * The module that converts models: wisp_convert over files that JavaScript reads and writes. An
 * instance converts one model, and is given up then. */
#include <stdlib.h>

#include "wisp.h"

#define EXPORT(name) __attribute__((export_name(name)))

/* Says that `done` of `total` tensors are done. JavaScript cancels by ending its worker. */
__attribute__((import_module("wisp"), import_name("progress"))) void host_progress(size_t done,
                                                                                   size_t total);

static wisp_error error;

static bool report(void *context, size_t done, size_t total) {
    (void)context;
    host_progress(done, total);
    return true;
}

EXPORT("allocate") void *allocate(size_t bytes) {
    return malloc(bytes ? bytes : 1);
}

/* Converts the file or folder `input` into the file `output`. The numbers are doubles because
 * JavaScript's are; wisp_convert_options says what each argument means. */
EXPORT("convert")
wisp_status convert(const char *input, const char *output, const char *type,
                    const char *embedding_type, const char *name, int plain, int neurons,
                    double hot, double hot_bytes, double hot_tokens, double sparsity) {
    const wisp_convert_options options = {.type = type,
                                          .embedding_type = embedding_type,
                                          .name = name,
                                          .plain = plain != 0,
                                          .neurons = neurons != 0,
                                          .hot = (float)hot,
                                          .hot_bytes = (uint64_t)hot_bytes,
                                          .hot_tokens = (uint64_t)hot_tokens,
                                          .sparsity = (float)sparsity,
                                          .progress = report};
    return wisp_convert(input, output, &options, &error);
}

EXPORT("error_message") const char *error_message(void) {
    return error.message;
}

EXPORT("error_field") const char *error_field(void) {
    return error.field;
}
