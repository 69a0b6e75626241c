/* SPDX-License-Identifier: Apache-2.0
 * Calls of tools in replies, which each family of models writes in its own way. */
#ifndef WISP_CHAT_TOOL_CALLS_H
#define WISP_CHAT_TOOL_CALLS_H

#include "base/arena.h"

struct tool_call {
    struct tool_call *next;
    wisp_text name;
    wisp_text arguments; /* JSON, mostly an object */
};

struct tool_calls {
    struct tool_call *first, **last;
    size_t count;
    size_t begin; /* the bytes of the reply before the first call */
};

/* Finds the calls in a reply, in which control tokens are spelled. There are none if one is not
 * whole. Memory is the arena's; texts may be the reply's. */
wisp_status tool_calls_find(struct arena *arena, wisp_text reply, struct tool_calls *calls,
                            wisp_error *error);

#endif
