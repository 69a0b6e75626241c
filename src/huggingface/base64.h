/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_HUGGINGFACE_BASE64_H
#define WISP_HUGGINGFACE_BASE64_H

#include "base/arena.h"

/* Decodes a text in base64 (RFC 4648) into the arena. Returns false if it is malformed; bytes is
 * NULL if memory is short. */
bool hf_base64_decode(struct arena *arena, wisp_text text, wisp_text *bytes);

#endif
