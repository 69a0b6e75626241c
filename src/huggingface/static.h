/* SPDX-License-Identifier: Apache-2.0
 * Folders of model2vec, such as potion's: static embeddings. */
#ifndef WISP_HUGGINGFACE_STATIC_H
#define WISP_HUGGINGFACE_STATIC_H

#include "huggingface/config.h"

/* Reads the folder if config.json says model2vec, and sets *is_static. The directory gives what
 * model2vec computes of it. */
wisp_status hf_read_static(struct directory *dir, const char *folder, bool *is_static,
                           wisp_error *error);

#endif
