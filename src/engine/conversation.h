/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_ENGINE_CONVERSATION_H
#define WISP_ENGINE_CONVERSATION_H

#include "base/status.h"
#include "tokenizers/token_list.h"

/* Appends the ids from which the reply to a conversation is generated. Sets *end to the token that
 * ends the reply beside the model's own, or to -1. Fails as wisp_chat does, and if the
 * bound of ids is too small (prompt_bound of generation.h). */
wisp_status conversation_encode(const wisp_model *model, const wisp_conversation *conversation,
                                struct token_list *ids, int32_t *end, wisp_error *error);

#endif
