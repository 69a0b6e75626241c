/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_NATIVE_OPEN_PATH_H
#define WISP_NATIVE_OPEN_PATH_H

#include "engine/model.h"

/* Opens the directory of a GGUF file or a Hugging Face folder. Fails if the path cannot be read
 * or its contents are malformed or not supported; the directory then holds nothing. */
wisp_status directory_open_path(struct directory *dir, const char *path, wisp_error *error);

/* Does so, and merges the adapter of a task if `adapter` names one (struct directory). */
wisp_status directory_open_adapted(struct directory *dir, const char *path, const char *adapter,
                                   wisp_error *error);

/* Opens folders of architectures that wisp does not know, too (huggingface/folder.h). */
wisp_status directory_open_any(struct directory *dir, const char *path, wisp_error *error);

#endif
