/* SPDX-License-Identifier: Apache-2.0
 * Answers questions about languages as the module of languages does. */
#include <stdlib.h>
#include <string.h>

#include "binding/languages/languages.h"

/* Copies the texts, each with a 0 behind it. */
static wisp_status copy_texts(struct arena *arena, const wisp_text *texts, size_t n,
                              wisp_text **copies, wisp_error *error) {
    ARENA_TAKE(arena, *copies, n, error);
    for (size_t i = 0; i < n; i++) {
        if (!texts[i].bytes)
            continue;
        (*copies)[i] =
            (wisp_text){arena_copy_text(arena, texts[i].bytes, texts[i].length), texts[i].length};
        if (!(*copies)[i].bytes)
            return fail_memory(error, texts[i].length);
    }
    return WISP_OK;
}

wisp_status language_ask(enum language language, const wisp_text *texts, size_t n,
                         wisp_text *answer, wisp_error *error) {
    struct arena arena = {0};
    wisp_text *copies, found;
    wisp_status status = copy_texts(&arena, texts, n, &copies, error);
    if (status == WISP_OK)
        status = language_answer(language, copies, n, &arena, &found, error);
    char *bytes = status == WISP_OK ? malloc(found.length + 1) : NULL;
    if (bytes) {
        memcpy(bytes, found.bytes, found.length);
        *answer = (wisp_text){bytes, found.length};
    } else if (status == WISP_OK) {
        status = fail_memory(error, found.length);
    }
    arena_release(&arena);
    return status;
}
