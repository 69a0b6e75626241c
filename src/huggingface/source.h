/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_HUGGINGFACE_SOURCE_H
#define WISP_HUGGINGFACE_SOURCE_H

#include "formats/directory.h"

/* Opens folder/name as the next source of `dir`. */
wisp_status hf_add_source(struct directory *dir, const char *folder, const char *name,
                          wisp_error *error);

#endif
