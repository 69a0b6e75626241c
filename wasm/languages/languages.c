/* SPDX-License-Identifier: Apache-2.0
 * The exports of the module that reads languages. */
#include <stdlib.h>

#include "binding/engine.h"
#include "binding/languages/languages.h"

EXPORT("allocate") void *allocate(size_t bytes) {
    return malloc(bytes ? bytes : 1);
}

EXPORT("release") void release(void *block) {
    free(block);
}

/* Answers a question. *answer lives until the next one: on failure it is a wisp_error. */
EXPORT("answer")
wisp_status answer(int language, const wisp_text *texts, size_t n, wisp_text *answer) {
    static struct arena arena;
    static wisp_error error;
    arena_release(&arena);
    const wisp_status status =
        language_answer((enum language)language, texts, n, &arena, answer, &error);
    if (status != WISP_OK)
        *answer = (wisp_text){(const char *)&error, sizeof error};
    return status;
}
