/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_NATIVE_OPEN_PATH_H
#define WISP_NATIVE_OPEN_PATH_H

#include "engine/model.h"

/* The directory of a GGUF file or a Hugging Face folder; released again on failure. */
wisp_status directory_open_path(struct directory *dir, const char *path, wisp_error *error);

#endif
