/* SPDX-License-Identifier: Apache-2.0
 * Identifies models, so that results of one are not used for another. */
#ifndef WISP_ENGINE_IDENTITY_H
#define WISP_ENGINE_IDENTITY_H

#include "base/sha256.h"
#include "engine/session.h"

enum { IDENTITY_BYTES = 32 };

/* Add to a digest, so that no two rows of numbers and texts are alike. */
void digest_number(struct sha256 *hash, uint64_t number);
void digest_text(struct sha256 *hash, const char *text, size_t length);

/* Identifies the session's model by its metadata, the names, types and shapes of its tensors, and
 * the embeddings of some tokens, by which models differ that were trained from one. That reads
 * little, and needs no file. */
wisp_status identify_model(wisp_session *session, unsigned char *identity, wisp_error *error);

/* Adds checksums of all bytes of the model's files. Fails with WISP_ERROR_UNSUPPORTED if they
 * cannot be read again, and as source_read does. */
wisp_status digest_weights(const wisp_model *model, struct sha256 *hash, wisp_error *error);

#endif
