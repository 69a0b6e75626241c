/* SPDX-License-Identifier: Apache-2.0
 * Lists that grow. */
#ifndef WISP_BASE_LIST_H
#define WISP_BASE_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Makes room for `more` items behind the n items of a list. `list` points to the pointer to its
 * first item, of any type, and *capacity is how many there is room for. Fails with
 * WISP_ERROR_MEMORY and leaves the list as it is. */
wisp_status list_grow(void *list, uint32_t n, uint32_t more, uint32_t *capacity, size_t item_bytes,
                      wisp_error *error);

#endif
