/* SPDX-License-Identifier: Apache-2.0
 * Files with tensors of the type BITNET_T158 (quant/t158.h), which the metadata tells from BF16. */
#ifndef WISP_FORMATS_BITNET_H
#define WISP_FORMATS_BITNET_H

#include "formats/directory.h"

/* Sets *ternary: tensors of type 30 are BITNET_T158 in a file with KEY_BITNET_VERSION, and BF16 in
 * others. Fails where the file is of another version or block size than wisp knows. */
wisp_status bitnet_read_keys(const struct directory *dir, bool *ternary, wisp_error *error);

/* Makes F32 tensors of those BITNET_T158 tensors whose rows do not begin with blocks, so that all
 * others can read rows. dir->stored has the tensors of the file then. Native only. */
wisp_status bitnet_make_rows(struct directory *dir, wisp_error *error);

/* Whether bitnet_make_rows made this tensor. */
bool bitnet_made(const struct tensor *tensor);

#endif
