/* SPDX-License-Identifier: Apache-2.0
 * Returns memory to the system while its addresses stay in use. Native only. */
#ifndef WISP_HOST_DISCARD_H
#define WISP_HOST_DISCARD_H

#include <stddef.h>

/* Gives back the whole pages within a block. The contents of the block are undefined from then on;
 * it may be written again. */
void discard_pages(void *block, size_t bytes);

#endif
