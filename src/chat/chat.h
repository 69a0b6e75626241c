/* SPDX-License-Identifier: Apache-2.0
 * Converts the messages of a conversation to the ids that a model was trained to continue. A
 * template in the model's file does that (jinja/jinja.h). */
#ifndef WISP_CHAT_CHAT_H
#define WISP_CHAT_CHAT_H

#include "tokenizers/codec.h"

/* Returns the name of a built-in template, and NULL past the last. */
const char *chat_format_name(size_t index);

/* Sets *source to the file's chat template. With `tools`, to the one for conversations with tools
 * if the file has one. Fails with WISP_ERROR_NOT_FOUND if it has no template. */
wisp_status chat_template_of(const struct directory *dir, bool tools, wisp_text *source,
                             wisp_error *error);

/* Appends the ids of a conversation and of what begins the reply. What a template takes from the
 * conversation becomes not a control token: only its own text does. If the list has a bound, the
 * first messages of a conversation that is far longer are counted before all of it. Sets *end to
 * the id of the mark that the template puts after a reply, or to -1. */
wisp_status chat_encode(const struct directory *dir, const struct codec *codec,
                        const wisp_conversation *conversation, struct token_list *list,
                        int32_t *end, wisp_error *error);

#endif
