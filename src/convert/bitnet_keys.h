/* SPDX-License-Identifier: Apache-2.0
 * The metadata that tells BITNET_T158 from BF16. */
#ifndef WISP_CONVERT_BITNET_KEYS_H
#define WISP_CONVERT_BITNET_KEYS_H

#include "formats/directory.h"

/* Puts PT-BitNet's keys if one of the formats [n_tensors] is BITNET_T158, and removes them if
 * none is. Fails with WISP_ERROR_UNSUPPORTED if a format is BF16, which has the same number. */
wisp_status bitnet_put_keys(struct directory *dir, const struct block_format *const *formats,
                            wisp_error *error);

#endif
