/* SPDX-License-Identifier: Apache-2.0
 * A network on a device: its weights are there, and whole batches are computed there. Host rows are
 * copied at this edge only. The device's code is in a library of its own (library.h), which is
 * opened when it is asked for. */
#ifndef WISP_DEVICE_DEVICE_H
#define WISP_DEVICE_DEVICE_H

#include "device/library.h"
#include "models/network.h"

/* WebAssembly modules open no libraries. */
#ifdef __wasm__
enum { DEVICES_EXIST = 0 };
#else
enum { DEVICES_EXIST = 1 };
#endif

struct device {
    const struct device_library *library; /* NULL: the processor computes */
    /* One of these, if the device computes: */
    struct device_encoder *encoder;
    struct device_decoder *decoder;
};

static inline bool device_computes(const struct device *device) {
    return DEVICES_EXIST && (device->encoder || device->decoder);
}

/* "cpu" and "auto", and behind these the devices with a library, in the order in which "auto" tries
 * them; NULL ends them. */
enum { DEVICES_WITHOUT_LIBRARY = 2 };
extern const char *const device_names[];

/* Finds the library of the device `name`, such as "cuda". Fails with WISP_ERROR_UNSUPPORTED if no
 * device has this name, or if its library cannot be opened; the message says what is missing. */
wisp_status device_find_library(const char *name, const struct device_library **library,
                                wisp_error *error);

/* Converts a status of the library. `file` is the model's name in errors. */
wisp_status device_check(enum device_status status, const char *file, const char *message,
                         wisp_error *error);

/* Embeds a batch. Any number of threads may call it at the same time. `file` is the model's name in
 * errors. */
wisp_status device_embed(const struct device *device, const struct device_batch *batch,
                         const char *file, wisp_error *error);

void device_close(struct device *device);

#endif
