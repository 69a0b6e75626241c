/* SPDX-License-Identifier: Apache-2.0
 * Chat formats convert the messages of a conversation to the ids that a model was trained to
 * continue. A model's file has its format as a template, which is a program: it is never run. One
 * of the built-in formats is recognised in it. */
#ifndef WISP_TEXT_CHAT_H
#define WISP_TEXT_CHAT_H

#include "text/codec.h"

struct chat_format;

/* Returns a built-in format, and NULL past the last. */
const struct chat_format *chat_format_at(size_t index);

const char *chat_format_name(const struct chat_format *format);

/* Sets *format to the built-in format `name`. With NULL as the name, to the one that is recognised
 * in the file's chat template. */
wisp_status chat_format_find(const struct directory *dir, const char *name,
                             const struct chat_format **format, wisp_error *error);

/* Appends the ids of a conversation and of what begins the reply. Contents of messages become no
 * control token and none of the format's marks. Sets *end to the id of the mark that ends the
 * reply, or to -1 where the format has none. */
wisp_status chat_encode(const struct chat_format *format, const struct directory *dir,
                        const struct codec *codec, const wisp_conversation *conversation,
                        struct token_list *list, int32_t *end, wisp_error *error);

#endif
