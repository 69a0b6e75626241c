/* SPDX-License-Identifier: Apache-2.0 */
#include "base/byte_sink.h"

#include <string.h>

wisp_status write_to_memory(void *context, const void *bytes, size_t length, wisp_error *error) {
    unsigned char **to = context;
    (void)error;
    if (length > 0)
        memcpy(*to, bytes, length);
    *to += length;
    return WISP_OK;
}
