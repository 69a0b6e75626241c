/* SPDX-License-Identifier: Apache-2.0
 * The state of a session's texts as bytes: tokens, keys and values. docs/formats.md describes
 * them. */
#ifndef WISP_ENGINE_STATE_H
#define WISP_ENGINE_STATE_H

#include "base/byte_sink.h"
#include "engine/session.h"

/* Writes the state of all texts of the session. */
wisp_status state_write(wisp_session *session, const struct byte_sink *sink, wisp_error *error);

/* Replaces the texts of the session by those of a saved state, whose bytes are all that the source
 * has. On failure the session keeps its texts. */
wisp_status state_read(wisp_session *session, const wisp_source *source, wisp_error *error);

#endif
