/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_BASE_BYTE_SINK_H
#define WISP_BASE_BYTE_SINK_H

#include <stddef.h>

#include "wisp.h"

/* Receives bytes one part after the other. */
struct byte_sink {
    wisp_status (*write)(void *context, const void *bytes, size_t length, wisp_error *error);
    void *context;
};

/* The `write` of a sink in memory, whose context is an unsigned char *: the place of the next byte.
 * There must be room. */
wisp_status write_to_memory(void *context, const void *bytes, size_t length, wisp_error *error);

#endif
