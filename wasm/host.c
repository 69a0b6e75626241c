/* SPDX-License-Identifier: Apache-2.0
 * Exports that only a WebAssembly module needs: its memory, and a model that the host reads. */
#include "host.h"

#include <stdlib.h>

/* Copies bytes [offset, offset + length) of the model to `buffer`. Returns 0, or another number on
 * failure. The offset is a double because JavaScript's numbers are doubles. */
__attribute__((import_module("wisp"), import_name("read"))) int
host_read(double offset, void *buffer, size_t length);

EXPORT("allocate") void *allocate(size_t bytes) {
    return malloc(bytes ? bytes : 1);
}

EXPORT("release") void release(void *block) {
    free(block);
}

static int read_from_host(void *context, uint64_t offset, void *buffer, size_t length) {
    (void)context;
    return host_read((double)offset, buffer, length);
}

wisp_source host_source(double size) {
    return (wisp_source){.size = (uint64_t)size, .read = read_from_host, .name = "model"};
}

/* Opens a model of `size` bytes, which the host reads, and a session. `lasting` says whether the
 * host can still read it after this call. */
EXPORT("engine_open")
wisp_status engine_open(struct engine *engine, double size, int lasting) {
    wisp_source source = host_source(size);
    source.lasting = lasting != 0;
    source.available = engine->available;
    TRY(engine_open_model(engine, &source));
    return engine_open_session(engine);
}
